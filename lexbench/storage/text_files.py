"""Lines of text files, read one by one and written whole or not at all; names that end in `.gz` are compressed."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from lexbench.errors import InvalidFile
from lexbench.storage.atomic import atomic_path


def open_text(path: Path) -> BinaryIO:
    """Open a file, compressed if its name ends in `.gz`, for reading bytes."""
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each line, from 1, and the line without its newline; InvalidFile where the file does not read."""
    number = 0
    try:
        with open_text(path) as file:
            for number, line in enumerate(file, 1):
                yield number, line.removesuffix(b"\n")
    except (OSError, EOFError, zlib.error) as error:
        place = f"{path}: after line {number}" if number else f"{path}"
        raise InvalidFile(f"{place}: {getattr(error, 'strerror', None) or error}") from None


@contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """Open *path* for writing, whole or not at all; compressed files carry no name and no time, so they are repeatable."""
    with atomic_path(path) as draft, draft.open("wb") as file:
        if path.suffix != ".gz":
            yield file
            return
        with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
            yield cast(BinaryIO, packed)
