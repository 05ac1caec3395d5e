"""Make the leaderboard page from its result files."""

from pathlib import Path

import click

from lexbench.cli._output import json_option, print_json


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default="leaderboard")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if the page is stale.")
@json_option
def command(folder: Path, *, check: bool, as_json: bool) -> None:
    """Write FOLDER/README.md (default: leaderboard/README.md) from the files in FOLDER/results.

    `lexbench run suite NAME --save FOLDER` puts files there.
    """
    from lexbench.report import leaderboard

    page = folder / leaderboard.PAGE
    stale = leaderboard.stale(folder)
    if stale and not check:
        leaderboard.write(folder)
    if as_json:
        print_json({"page": str(page), "stale": stale and check})
    elif not check:
        click.echo(str(page))
    elif stale:
        click.echo(f"{page} is stale; type: lexbench leaderboard {folder}", err=True)
    else:
        click.echo(f"{page} is up to date")
    click.get_current_context().exit(1 if stale and check else 0)
