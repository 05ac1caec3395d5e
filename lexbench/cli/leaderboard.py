"""Make the leaderboard, README.md and index.html, from its result files."""

from pathlib import Path

import click

from lexbench.cli._output import json_option, print_json


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default="leaderboard")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a page is stale.")
@json_option
def command(folder: Path, *, check: bool, as_json: bool) -> None:
    """Write FOLDER/README.md and FOLDER/index.html (default: leaderboard/) from the files in FOLDER/results.

    `lexbench run suite NAME --save FOLDER` puts files there. index.html is one file that needs no network: open it.
    """
    from lexbench.report import leaderboard

    pages = leaderboard.pages(folder)
    stale = leaderboard.stale(pages)
    if stale and not check:
        leaderboard.write(pages)
    if as_json:
        print_json({"pages": [str(page) for page in pages], "stale": [str(page) for page in stale] if check else []})
    elif not check:
        click.echo("\n".join(map(str, pages)))
    elif stale:
        click.echo(f"stale: {', '.join(map(str, stale))}; type: lexbench leaderboard {folder}", err=True)
    else:
        click.echo(f"{folder} is up to date")
    click.get_current_context().exit(1 if stale and check else 0)
