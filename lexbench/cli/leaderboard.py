"""Make the pages of a leaderboard from result files."""

from pathlib import Path
from shlex import quote
from typing import Any

import click

from lexbench.cli._options import FOLDER, json_option
from lexbench.cli._output import print_json, say


@click.command()
@click.option("--results", metavar="FOLDER", type=FOLDER, default="leaderboard", show_default=True, help="Of `run --results`.")
@click.option("--merge", "others", metavar="NAME=FOLDER", multiple=True, help="Also show NAME's results; repeatable.")
@click.option("--copy", "form", type=click.Choice(["latex", "markdown", "csv"]), help="Print one table and write nothing.")
@click.option("--suite", default="", metavar="NAME", help="With --copy: the suite of the table, if there are several.")
@click.option(
    "-d", "--dataset", default="", metavar="ID|FOLDER", help="With --copy: all measures on this dataset of the suite."
)
@click.option("--baseline", default="", metavar="SYSTEM", help="With --copy latex: mark significant differences from it.")
@click.option(
    "--published", type=click.Choice(["none", "few", "all"]), help="Published scores; default: few; with --copy none."
)
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a page is out of date.")
@json_option
def command(
    results: Path, others: tuple[str, ...], *, published: str | None, check: bool, as_json: bool, **copied: Any
) -> None:
    """Write README.md, index.html and reproduce.sh into a folder of results.

    `lexbench run suite NAME --results FOLDER` puts result files there. index.html needs no network and no server: open it in a
    browser. reproduce.sh repeats the measurements. With --merge the pages also show the results of others, with who ran what
    where. With --copy one table is printed, like the page's copy buttons do.
    """
    from lexbench.report import leaderboard

    people, form = _people(others), copied.pop("form")
    if form:
        from lexbench.datasets.location import find_dataset
        from lexbench.report.leaderboard import copies

        if copied["dataset"] and Path(copied["dataset"]).is_dir():  # of the user; results name it by its contract
            copied["dataset"] = find_dataset(copied["dataset"])[0].id
        board = leaderboard.read_board(results, people, published or "none")
        for line in copies.FORMATS[form](copies.view(board, **copied)).splitlines():
            say(line)
        return
    if any(copied.values()):
        raise click.UsageError("--suite, -d and --baseline choose the table of --copy; add --copy")
    pages = leaderboard.pages(results, people, published or "few")
    stale = leaderboard.stale(pages)
    if stale and not check:
        leaderboard.write(pages)
    if as_json:
        print_json({"pages": [str(page) for page in pages], "stale": [str(page) for page in stale] if check else []})
    elif not check:
        for page in pages:
            say(str(page))
    elif stale:
        say(f"out of date: {', '.join(map(str, stale))}; type: lexbench leaderboard --results {quote(str(results))}", err=True)
    else:
        say(f"{results} is up to date")
    click.get_current_context().exit(1 if stale and check else 0)


def _people(texts: tuple[str, ...]) -> dict[str, Path]:
    """Return the folder of each person from texts "NAME=FOLDER"; without a NAME, the folder's own name counts."""
    people: dict[str, Path] = {}
    for text in texts:
        name, equals, folder = text.partition("=")
        path = Path(folder if equals else text)
        name = name if equals else path.resolve().name
        if name in people:
            raise click.UsageError(f"--merge {text}: {name} is the name of {people[name]}; give NAME=FOLDER with another name")
        people[name] = path
    return people
