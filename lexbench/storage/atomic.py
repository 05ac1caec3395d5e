"""Atomic writing: a file exists completely or not at all. Every file that lexbench writes goes through this module.

A file is written under another name in the same folder, flushed to the disk, and renamed. The folder is flushed as well, so
that the rename survives a power cut; that costs 0.4 ms per file. A `kill -9` may leave the other name behind (it ends in
`.tmp`). The store removes it before it uses the folder again.
"""

import gzip
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, cast
from uuid import uuid4

import msgspec

from lexbench.errors import CannotStart

UNFINISHED = ".tmp"


@contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """Yield a path beside *target* to write to; it becomes *target* after the block, unless the block raises."""
    draft = target.with_name(f"{target.name}.{uuid4().hex[:8]}{UNFINISHED}")
    try:
        yield draft
        sync(draft)
        draft.replace(target)
        sync(target.parent)
    except OSError as error:
        if error.filename is None:  # an error of writing, e.g. a full disk, names no file
            error.filename = str(target)
        raise
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


@contextmanager
def writer(target: Path) -> Iterator[BinaryIO]:
    """Open *target* for writing bytes, whole or not at all; compressed if its name ends in `.gz`.

    Compressed files contain no name and no time, so the same content gives the same bytes.
    """
    with atomic_path(target) as draft, draft.open("wb") as file:
        if target.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
            yield cast(BinaryIO, packed)


def write_bytes(target: Path, content: bytes) -> None:
    """Write *content* to *target*, whole or not at all. A file that has it is left alone, which needs no free space."""
    with suppress(OSError):
        if target.is_file() and target.stat().st_size == len(content) and target.read_bytes() == content:
            return
    with atomic_path(target) as draft:
        draft.write_bytes(content)


def write_text(target: Path, content: str) -> None:
    """Write *content* to *target* as UTF-8, with its own line ends, whole or not at all."""
    write_bytes(target, content.encode())


def write_json(target: Path, value: Any) -> None:
    """Write *value*, of structs and plain values, to *target* as indented JSON, whole or not at all."""
    write_bytes(target, msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")


def check_writable(folder: Path) -> None:
    """Create *folder*. Raises CannotStart if no file can be written in it: before the work, not after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):  # the folder may exist and allow no files
            pass
    except OSError as error:
        raise CannotStart(f"cannot write results to {folder}: {error.strerror}") from None


def append_rows(target: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Append *rows* to a file of JSON lines and flush them to the disk: all of them, or none if that fails."""
    # The newline comes first, because a kill may have truncated the last line of the file.
    content = b"".join(b"\n" + json.dumps(row).encode() for row in rows)
    with target.open("ab", buffering=0) as file:
        before = file.seek(0, os.SEEK_END)
        try:
            while content:
                content = content[file.write(content) :]
            os.fsync(file.fileno())
        except OSError:
            with suppress(OSError):
                file.truncate(before)
            raise


def read_rows(target: Path) -> Iterator[Any]:
    """Yield the rows of a file that `append_rows` wrote, if it exists; a truncated or damaged line is left out."""
    for line in target.read_bytes().splitlines() if target.exists() else ():
        with suppress(ValueError, RecursionError):
            yield json.loads(line)


def sync(path: Path) -> None:
    """Flush a file or a folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
