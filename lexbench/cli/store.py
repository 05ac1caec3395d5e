"""Copy artifacts or results to and from another place."""

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

import click

import lexbench
from lexbench.cli._options import FOLDER, described, json_option
from lexbench.cli._output import print_json, say
from lexbench.cli._progress import shown
from lexbench.errors import CannotStart

_PATTERNS = click.argument("patterns", metavar="[PATTERN]...", nargs=-1)


@click.group()
def command() -> None:
    """Copy artifacts of the store, or a folder of results, to and from another place.

    PLACE is a folder, or a URL that fsspec can reach (e.g. s3://bucket/store). Results can also go to hf:ORG/NAME, a dataset of
    the Hugging Face hub.
    """


@command.command(help=described(lexbench.store_push), short_help="Upload artifacts or results to a place.")
@click.argument("place")
@_PATTERNS
@click.option("--results", metavar="FOLDER", type=FOLDER, help="Copy this folder of results and its pages, not the store.")
@click.option("--private", is_flag=True, help="Make a new dataset of the hub private; default: public.")
@json_option
def push(place: str, results: Path | None, **options: Any) -> None:
    """Upload; the help is that of `lexbench.store_push`."""
    fetch = f"lexbench store pull {quote(place)} --results FOLDER"
    _copy(lexbench.store_push, place, results, f"files are at {place}; to fetch them, type: {fetch}", "", **options)


@command.command(help=described(lexbench.store_pull), short_help="Download artifacts or results from a place.")
@click.argument("place")
@_PATTERNS
@click.option("--results", metavar="FOLDER", type=FOLDER, help="Copy results into this folder, not artifacts into the store.")
@json_option
def pull(place: str, results: Path | None, **options: Any) -> None:
    """Download; the help is that of `lexbench.store_pull`."""
    page = f"to build its pages, type: lexbench leaderboard --results {quote(str(results))}"
    there = f"{results} has all of them already; {page}"
    _copy(lexbench.store_pull, place, results, f"new files in {results}; {page}", there, **options)


def _copy(way: Callable[..., Any], place: str, results: Path | None, some: str, none: str, **options: Any) -> None:
    """Copy, and print a line for each artifact, or one for all files of results: *some* after their number, or *none*."""
    as_json, patterns = options.pop("as_json"), options["patterns"]
    rows: list[dict[str, Any]] = []
    with shown() as progress:
        for copied in way(place, results=results, progress=progress, **options):
            rows.append(copied._asdict())
            if results is None and not as_json:
                say(f"{copied.folder}: {copied.size}")
    if results is not None:
        files = [row["folder"] for row in rows]
        if as_json:
            print_json({"place": place, "files": files})
        else:
            say(f"{len(files)} {some}" if files or not none else none)
        return
    if as_json:
        print_json(rows)
    if not rows:
        raise CannotStart(f"no finished artifact matches {', '.join(patterns) or '*'}; names are like encodings/pydoc-…")
