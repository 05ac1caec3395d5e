"""Copy finished work to and from an object store, or any place that fsspec reaches."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from lexbench.cli._options import json_option
from lexbench.cli._output import print_json, say
from lexbench.cli._progress import shown

if TYPE_CHECKING:
    from lexbench.interop.sharing import Copied


@click.group()
def command() -> None:
    """Copy finished work to and from an object store, or any place that fsspec reaches."""


@command.command()
@click.argument("url")
@click.argument("patterns", metavar="[PATTERN]...", nargs=-1)
@json_option
def push(url: str, patterns: tuple[str, ...], *, as_json: bool) -> None:
    """Copy finished folders to URL, as s3://bucket/store; those that match a PATTERN, as 'encodings/*', or all."""
    from lexbench.interop import sharing

    _copy(sharing.push_artifacts, url, patterns, as_json=as_json)


@command.command()
@click.argument("url")
@click.argument("patterns", metavar="[PATTERN]...", nargs=-1)
@json_option
def pull(url: str, patterns: tuple[str, ...], *, as_json: bool) -> None:
    """Copy folders from URL into the store, every digest checked; those that match a PATTERN, or all."""
    from lexbench.interop import sharing

    _copy(sharing.pull_artifacts, url, patterns, as_json=as_json)


def _copy(way: "Callable[..., Iterator[Copied]]", url: str, patterns: Sequence[str], *, as_json: bool) -> None:
    """Copy folder by folder, saying of each what became of it."""
    from lexbench.errors import CannotStart
    from lexbench.storage.store import Store, readable_bytes

    rows: list[dict[str, Any]] = []
    with shown() as progress:
        store = Store(on_wait=progress.note, on_damage=progress.note)
        for copied in way(store, url, patterns, progress):
            rows.append(copied._asdict())
            if not as_json:
                say(f"{copied.folder}: {readable_bytes(copied.bytes) if copied.bytes else 'there already'}")
    if as_json:
        print_json(rows)
    if not rows:
        raise CannotStart(f"no finished folder matches {', '.join(patterns) or '*'}; names are like encodings/pydoc-…")
