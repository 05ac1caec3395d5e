"""Write runs, results and figures in other formats."""

from typing import Any

import click

import lexbench
from lexbench.cli._options import (
    FOLDER,
    FormatCommand,
    datasets_option,
    described,
    json_option,
    results_option,
    split_option,
    system_option,
)
from lexbench.cli._output import print_json, say
from lexbench.cli._progress import shown


@click.command(cls=FormatCommand, formats=lexbench.export_formats(), help=described(lexbench.export))
@click.argument("format_name", metavar="FORMAT_NAME", type=click.Choice(list(lexbench.export_formats())))
@click.argument("folder", type=FOLDER)
@system_option("Only this system; repeatable.")
@datasets_option()
@split_option
@results_option
@json_option
def command(format_name: str, *, as_json: bool, **options: Any) -> None:
    """Export results; the help is that of `lexbench.export`."""
    with shown() as progress:
        paths = list(map(str, lexbench.export(format_name, progress=progress, **options)))
        progress.note(f"not in this format: {lexbench.export_formats()[format_name].lost}")
    if as_json:
        print_json(paths)
    else:
        for path in paths:
            say(path)
    click.get_current_context().exit(1 if progress.damaged else 0)
