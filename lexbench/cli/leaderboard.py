"""Make the leaderboard, README.md and index.html, from its result files."""

from pathlib import Path
from typing import Any

import click

from lexbench.cli._options import FOLDER, json_option
from lexbench.cli._output import print_json, say


@click.command()
@click.option(
    "--results",
    metavar="FOLDER",
    type=FOLDER,
    default="leaderboard",
    show_default=True,
    help="The folder that `run suite --results` wrote.",
)
@click.option(
    "--merge",
    "others",
    metavar="NAME=FOLDER",
    multiple=True,
    help="Also show the results in FOLDER, which NAME ran; repeatable.",
)
@click.option("--copy", "form", type=click.Choice(["latex", "markdown", "csv"]), help="Print one table, and write nothing.")
@click.option("--suite", default="", metavar="NAME", help="The suite whose table --copy prints, if there are several.")
@click.option("-d", "--dataset", default="", metavar="ID", help="Of --copy: all measures on this dataset of the suite.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a page is stale.")
@json_option
def command(results: Path, others: tuple[str, ...], *, check: bool, as_json: bool, **copied: Any) -> None:
    """Write the pages README.md and index.html into a folder of results, from the files in FOLDER/results.

    `lexbench run suite NAME --results FOLDER` puts files there. index.html is one file that needs no network: open it. With
    --merge the pages show also what others ran, who did, and where; with --copy one table is printed, as the page copies it.
    """
    from lexbench.report import leaderboard

    form = copied.pop("form")
    people = _people(others)
    if form:
        from lexbench.report.leaderboard import copies

        for line in copies.FORMATS[form](copies.view(leaderboard.read_board(results, people), **copied)).splitlines():
            say(line)
        return
    if any(copied.values()):
        raise click.UsageError("--suite and -d say which table is printed; type --copy, too")
    pages = leaderboard.pages(results, people)
    stale = leaderboard.stale(pages)
    if stale and not check:
        leaderboard.write(pages)
    if as_json:
        print_json({"pages": [str(page) for page in pages], "stale": [str(page) for page in stale] if check else []})
    elif not check:
        for page in pages:
            say(str(page))
    elif stale:
        say(f"stale: {', '.join(map(str, stale))}; type: lexbench leaderboard --results {results}", err=True)
    else:
        say(f"{results} is up to date")
    click.get_current_context().exit(1 if stale and check else 0)


def _people(texts: tuple[str, ...]) -> dict[str, Path]:
    """Return the folders of "NAME=FOLDER" by name, those without a name by their own."""
    people: dict[str, Path] = {}
    for text in texts:
        name, equals, folder = text.partition("=")
        path = Path(folder if equals else text)
        name = name if equals else path.resolve().name
        if name in people:
            raise click.UsageError(f"--merge {text}: {name} ran {people[name]} too; give NAME=FOLDER with another name")
        people[name] = path
    return people
