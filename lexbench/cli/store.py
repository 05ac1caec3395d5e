"""Look into the store, remove artifacts, and copy results."""

from pathlib import Path
from shlex import quote
from typing import Any

import click

import lexbench
from lexbench.cli._options import FOLDER, described, json_option
from lexbench.cli._output import print_answer, print_json, say
from lexbench.cli._progress import shown

_RESULTS = click.option("--results", metavar="FOLDER", type=FOLDER, required=True, help="The folder of results.")


@click.group()
def command() -> None:
    """Look into the store, remove artifacts, and copy results to and from another place.

    PLACE is a folder, a URL that fsspec can reach (e.g. s3://bucket/board), or hf:ORG/NAME, a dataset of the Hugging Face hub.
    """


@command.command("list", help=described(lexbench.store_list), short_help="List the artifacts and what uses them.")
@json_option
def list_(*, as_json: bool) -> None:
    """List; the help is that of `lexbench.store_list`."""
    print_answer(lexbench.store_list(), as_json=as_json)


@command.command(help=described(lexbench.store_remove), short_help="Remove artifacts.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--unreachable", is_flag=True, help="Also what no result uses, unfinished folders, and what older versions made.")
@click.option("--dry-run", is_flag=True, help="Show what would go; remove nothing.")
@json_option
def remove(names: tuple[str, ...], *, as_json: bool, **options: Any) -> None:
    """Remove; the help is that of `lexbench.store_remove`."""
    with shown() as progress:
        removed = lexbench.store_remove(names, progress=progress, **options)
    print_answer(removed, as_json=as_json)
    click.get_current_context().exit(1 if removed.left else 0)


@command.command(
    help=described(lexbench.store_check) + "\n\nExits with 1 if something is damaged or differs.",
    short_help="Read every byte and list damaged artifacts.",
)
@click.option("--recompute", type=click.IntRange(min=0), default=0, metavar="N", help="Also make N results again.")
@json_option
def check(*, as_json: bool, **options: Any) -> None:
    """Check; the help is that of `lexbench.store_check`."""
    with shown() as progress:
        found = lexbench.store_check(progress=progress, **options)
    print_answer(found, as_json=as_json)
    click.get_current_context().exit(0 if found.healthy else 1)


@command.command(help=described(lexbench.store_push), short_help="Upload results to a place.")
@click.argument("place")
@_RESULTS
@click.option("--private", is_flag=True, help="Make a new dataset of the hub private; default: public.")
@json_option
def push(place: str, results: Path, *, as_json: bool, **options: Any) -> None:
    """Upload; the help is that of `lexbench.store_push`."""
    files = lexbench.store_push(place, results, **options)
    fetch = f"lexbench store pull {quote(place)} --results FOLDER"
    _show(place, files, f"{len(files)} files are at {place}; to fetch them, type: {fetch}", as_json=as_json)


@command.command(help=described(lexbench.store_pull), short_help="Download results from a place.")
@click.argument("place")
@_RESULTS
@json_option
def pull(place: str, results: Path, *, as_json: bool) -> None:
    """Download; the help is that of `lexbench.store_pull`."""
    files = lexbench.store_pull(place, results)
    page = f"to build its pages, type: lexbench leaderboard --results {quote(str(results))}"
    some, none = f"{len(files)} new files in {results}; {page}", f"{results} has all of them already; {page}"
    _show(place, files, some if files else none, as_json=as_json)


def _show(place: str, files: list[str], line: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"place": place, "files": files})
    else:
        say(line)
