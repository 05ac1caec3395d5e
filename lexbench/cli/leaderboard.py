"""Make the leaderboard, README.md and index.html, from its result files."""

from pathlib import Path

import click

from lexbench.cli._options import FOLDER, FormerArgument, json_option
from lexbench.cli._output import print_json, say


@click.command()
@click.argument("former", cls=FormerArgument, type=FOLDER, required=False)
@click.option(
    "--results",
    metavar="FOLDER",
    type=FOLDER,
    default="leaderboard",
    show_default=True,
    help="The folder that `run suite --results` wrote.",
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a page is stale.")
@json_option
def command(former: Path | None, results: Path, *, check: bool, as_json: bool) -> None:
    """Write the pages README.md and index.html into a folder of results, from the files in FOLDER/results.

    `lexbench run suite NAME --results FOLDER` puts files there. index.html is one file that needs no network: open it.
    """
    from lexbench.report import leaderboard

    folder = former or results
    pages = leaderboard.pages(folder)
    stale = leaderboard.stale(pages)
    if stale and not check:
        leaderboard.write(pages)
    if as_json:
        print_json({"pages": [str(page) for page in pages], "stale": [str(page) for page in stale] if check else []})
    elif not check:
        for page in pages:
            say(str(page))
    elif stale:
        say(f"stale: {', '.join(map(str, stale))}; type: lexbench leaderboard --results {folder}", err=True)
    else:
        say(f"{folder} is up to date")
    click.get_current_context().exit(1 if stale and check else 0)
