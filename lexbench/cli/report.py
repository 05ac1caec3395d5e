"""Answer on one page whether to change from one system to another."""

from pathlib import Path
from typing import Any

import click

import lexbench
from lexbench.cli._options import (
    FILE,
    columns_option,
    datasets_option,
    described,
    json_option,
    results_option,
    seeds_option,
    split_option,
)
from lexbench.cli._output import print_answer, say
from lexbench.cli._progress import shown


@click.command(help=described(lexbench.report))
@click.argument("systems", nargs=-1, required=True, metavar="A B...")
@results_option
@datasets_option("Only this dataset; repeatable. Default: all datasets that every system has.")
@click.option("-m", "--measure", metavar="MEASURE", help="Default: the headline measure of the dataset's suite.")
@click.option("--queries", type=click.IntRange(min=0), default=5, show_default=True, help="Queries to show each way.")
@split_option
@seeds_option
@columns_option
@click.option("--markdown", type=FILE, metavar="FILE", help="Also write Markdown, e.g. for a pull request.")
@click.option("--html", type=FILE, metavar="FILE", help="Also write a page that needs no network.")
@json_option
def command(systems: tuple[str, ...], *, markdown: Path | None, html: Path | None, as_json: bool, **options: Any) -> None:
    """Report on systems; the help is that of `lexbench.report`."""
    with shown() as progress:
        found = lexbench.report(*systems, progress=progress, markdown=markdown, html=html, **options)
    print_answer(found, as_json=as_json)
    for path in filter(None, (markdown, html)):
        say(str(path), err=True)
