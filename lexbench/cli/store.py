"""Copy artifacts or results to and from another place."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from lexbench.cli._options import FOLDER, json_option
from lexbench.cli._output import open_store, print_json, say, say_answer
from lexbench.cli._progress import shown

if TYPE_CHECKING:
    from lexbench.interop.sharing import Copied

_PATTERNS = click.argument("patterns", metavar="[PATTERN]...", nargs=-1)


@click.group()
def command() -> None:
    """Copy artifacts of the store, or a folder of results, to and from another place.

    PLACE is a folder, or a URL that fsspec can reach (e.g. s3://bucket/store). Results can also go to hf:ORG/NAME, a dataset of
    the Hugging Face hub.
    """


@command.command(short_help="Upload artifacts or results to a place.")
@click.argument("place")
@_PATTERNS
@click.option("--results", metavar="FOLDER", type=FOLDER, help="Copy this folder of results and its pages, not the store.")
@click.option("--private", is_flag=True, help="Make a new dataset of the hub private; default: public.")
@json_option
def push(place: str, patterns: tuple[str, ...], *, results: Path | None, private: bool, as_json: bool) -> None:
    """Upload finished artifacts to PLACE. PATTERN selects some of them (e.g. 'encodings/*').

    With --results, upload the results of FOLDER and its pages instead.
    """
    from lexbench.interop import sharing

    if results is None:
        if private:
            raise click.UsageError("--private needs --results: only results go to the Hugging Face hub")
        _copy(sharing.push_artifacts, place, patterns, as_json=as_json)
        return
    _check_no_patterns(patterns)
    names = sharing.push_results(results, place, private=private)
    said = f"{len(names)} files are at {place}; to fetch them, type: lexbench store pull {quote(place)} --results FOLDER"
    say_answer({"place": place, "files": names}, [said], as_json=as_json)


@command.command(short_help="Download artifacts or results from a place.")
@click.argument("place")
@_PATTERNS
@click.option("--results", metavar="FOLDER", type=FOLDER, help="Copy results into this folder, not artifacts into the store.")
@json_option
def pull(place: str, patterns: tuple[str, ...], *, results: Path | None, as_json: bool) -> None:
    """Download finished artifacts from PLACE into the store and check every digest. PATTERN selects some of them.

    With --results, download results into FOLDER instead. Each file is checked; results in FOLDER that differ are never
    replaced.
    """
    from lexbench.interop import sharing

    if results is None:
        _copy(sharing.pull_artifacts, place, patterns, as_json=as_json)
        return
    _check_no_patterns(patterns)
    names = sharing.pull_results(place, results)
    what = f"{len(names)} new files in {results}" if names else f"{results} has all of them already"
    said = f"{what}; to build its pages, type: lexbench leaderboard --results {quote(str(results))}"
    say_answer({"place": place, "files": names}, [said], as_json=as_json)


def _check_no_patterns(patterns: Sequence[str]) -> None:
    if patterns:
        raise click.UsageError("PATTERN selects artifacts of the store; with --results everything is copied")


def _copy(way: "Callable[..., Iterator[Copied]]", place: str, patterns: Sequence[str], *, as_json: bool) -> None:
    """Copy artifact by artifact and print a line for each."""
    from lexbench.errors import CannotStart
    from lexbench.storage.store import readable_bytes

    rows: list[dict[str, Any]] = []
    with shown() as progress:
        for copied in way(open_store(progress.note), place, patterns, progress):
            rows.append(copied._asdict())
            if not as_json:
                say(f"{copied.folder}: {readable_bytes(copied.bytes) if copied.bytes else 'already there'}")
    if as_json:
        print_json(rows)
    if not rows:
        raise CannotStart(f"no finished artifact matches {', '.join(patterns) or '*'}; names are like encodings/pydoc-…")
