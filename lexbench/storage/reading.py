"""Reading files: digests, lines, blocks of lines, and TOML. Lines of names that end in `.gz` are decompressed on the way.

What does not read is an InvalidFile that names the file and the place in it.
"""

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar, cast

import msgspec

from lexbench.errors import InvalidFile

_BLOCK = 1 << 24  # bytes of a block of lines
_UNREADABLE = (OSError, EOFError, zlib.error)


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A table of a TOML file in which an unknown key is an error."""


Table = TypeVar("Table", bound=Strict)


class Block(NamedTuple):
    """Some whole lines of a file."""

    first: int  # number of the first line, from 1
    text: bytes  # ends in a newline, unless the file does not


def file_digest(path: Path, algorithm: str = "sha256") -> str:
    """Return the digest of a file's bytes as hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def cached_file_digest(path: Path, algorithm: str = "sha256") -> str:
    """Return the digest of a file's bytes; a file whose size and time have not changed is read once a process."""
    status = path.stat()
    return _file_digest(path.resolve(), algorithm, status.st_size, status.st_mtime_ns)


@cache
def _file_digest(path: Path, algorithm: str, _size: int, _modified: int) -> str:
    return file_digest(path, algorithm)


def open_file(path: Path) -> BinaryIO:
    """Open a file for reading bytes, decompressed if its name ends in `.gz`."""
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number of each line, from 1, and the line without its newline; nothing else ends a line."""
    number = 0
    try:
        with open_file(path) as file:
            for number, line in enumerate(file, 1):
                yield number, line.removesuffix(b"\n")
    except _UNREADABLE as error:
        raise _invalid(f"{path}: after line {number}" if number else f"{path}", error) from None


def blocks(path: Path) -> Iterator[Block]:
    """Yield the lines of a file, some megabytes of them at a time."""
    first, rest = 1, b""
    try:
        with open_file(path) as file:
            while read := file.read(_BLOCK):
                whole, newline, rest = (rest + read).rpartition(b"\n")
                if newline:
                    yield Block(first, whole + newline)
                    first += whole.count(b"\n") + 1
    except _UNREADABLE as error:
        raise _invalid(f"{path}", error) from None
    if rest:
        yield Block(first, rest)


def _invalid(where: str, error: Exception) -> InvalidFile:
    return InvalidFile(f"{where}: {getattr(error, 'strerror', None) or error}")


def read_toml(path: Path, model: type[Table]) -> Table:
    """Read a TOML file as *model*; InvalidFile names the file and the place, as `$.datasets[1].exclude_self`."""
    try:
        return msgspec.toml.decode(path.read_bytes(), type=model)
    except (msgspec.DecodeError, ValueError) as error:  # the second is tomllib's
        raise InvalidFile(f"{path}: {error}") from None
