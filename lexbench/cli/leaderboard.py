"""Make the pages of a leaderboard from result files."""

from pathlib import Path
from shlex import quote
from typing import Any

import click

import lexbench
from lexbench.cli._options import FOLDER, described, json_option, split_option
from lexbench.cli._output import print_json, say


@click.command(help=described(lexbench.leaderboard) + "\n\nWith --copy one table is printed, like the page's copy buttons do.")
@click.option("--results", metavar="FOLDER", type=FOLDER, default="leaderboard", show_default=True, help="Of `run --results`.")
@click.option("--merge", metavar="NAME=FOLDER", multiple=True, help="Also show NAME's results; repeatable.")
@click.option("--copy", "form", type=click.Choice(["latex", "markdown", "csv"]), help="Print one table and write nothing.")
@click.option("--suite", default="", metavar="NAME", help="With --copy: the suite of the table, if there are several.")
@click.option(
    "-d", "--dataset", default="", metavar="ID|FOLDER", help="With --copy: all measures on this dataset of the suite."
)
@split_option
@click.option("--baseline", default="", metavar="SYSTEM", help="With --copy: mark what differs significantly from it.")
@click.option(
    "--published", type=click.Choice(["none", "few", "all"]), help="Published scores; default: few; with --copy none."
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a page is out of date.")
@json_option
def command(results: Path, form: str | None, *, check: bool, as_json: bool, **options: Any) -> None:
    """Make a leaderboard; the help is that of `lexbench.leaderboard`."""
    copied = {name: options.pop(name) for name in ("suite", "dataset", "split", "baseline")}
    if any(copied.values()) and not form:
        raise click.UsageError("--suite, -d, --split and --baseline choose the table of --copy; add --copy")
    board = lexbench.leaderboard(results, **options)
    if form:
        for line in board.copy(form, **copied).splitlines():
            say(line)
        return
    stale = board.stale() if check else []
    pages = list(board.pages()) if check else board.save()
    if as_json:
        print_json({"pages": [str(page) for page in pages], "stale": [str(page) for page in stale]})
    elif not check:
        for page in pages:
            say(str(page))
    elif stale:
        say(f"out of date: {', '.join(map(str, stale))}; type: lexbench leaderboard --results {quote(str(results))}", err=True)
    else:
        say(f"{results} is up to date")
    click.get_current_context().exit(1 if stale else 0)
