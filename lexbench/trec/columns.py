"""Columns of text files, read block by block with numpy: seven million lines in seconds, and no Python object a line.

A line has a fixed number of fields, set apart by white space. Blank lines and those that begin with `#` are passed over.
Numbers are written in ASCII, without the `_` that Python allows. Nothing may have a NUL, which numpy would cut off.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from lexbench.errors import InvalidFile, LexbenchError
from lexbench.storage.reading import Block, blocks

Kind: TypeAlias = Literal["id", "int", "float", "skip"]

_LONGEST = 1000  # bytes of an id; a longer one is a sign of another kind of file
_LARGE = 50_000_000  # bytes of a file for which compiled loops are worth the half second that loading them takes
_LARGEST = 2**63  # what a whole number must be below
_NEWLINE = ord("\n")
_NUMBERS: dict[str, type[int] | type[float]] = {"int": int, "float": float}


def is_large(path: Path) -> bool:
    """Whether it pays to load compiled loops for a file."""
    return path.stat().st_size >= _LARGE


def first_fields(path: Path) -> list[bytes]:
    """Return the fields of the first line that has any; none for a file without one."""
    for block in blocks(path):
        for line in chain.from_iterable(map(bytes.splitlines, BytesIO(block.text))):  # splits no more of them than it needs
            if line.strip() and not line.startswith(b"#"):
                return line.split()
    return []


def read_columns(path: Path, kinds: Sequence[Kind], *, header: bool = False, more: bool = False) -> list[NDArray[Any]]:
    """Return the columns that are not skipped, each (lines,): ids as bytes, numbers as int64 or float64.

    With *header* the first line is passed over; with *more* so are fields behind those of *kinds*. InvalidFile names the file
    and the line that has another number of fields, or a number that does not read.
    """
    parts: list[list[NDArray[Any]]] = [[] for kind in kinds if kind != "skip"]
    large = is_large(path)
    for first, text in blocks(path):
        whole = text if text.endswith(b"\n") else text + b"\n"
        block = Block(2, whole.partition(b"\n")[2]) if header and first == 1 else Block(first, whole)
        columns = _scanned(block.text, kinds) if large else None
        for column, part in zip(columns or _columns(path, block, kinds, more=more), parts, strict=True):
            part.append(column)
    empty = [np.zeros(0, "S1" if kind == "id" else _NUMBERS[kind]) for kind in kinds if kind != "skip"]
    return [np.concatenate(part) if part else none for part, none in zip(parts, empty, strict=True)]


def _scanned(text: bytes, kinds: Sequence[Kind]) -> list[NDArray[Any]] | None:
    """Return what `_columns` does, several times as fast; None where a line of *text* is unusual or wrong."""
    from lexbench.trec import scan

    wanted = [i for i, kind in enumerate(kinds) if kind != "skip"]
    column_of = np.array([wanted.index(i) if i in wanted else -1 for i in range(len(kinds))])
    types = np.array([scan.TYPES.index(kinds[i]) for i in wanted])
    shape = len(text) // (2 * len(kinds)), len(wanted)  # as many lines as there can be
    starts, stops = np.empty(shape, np.int32), np.empty(shape, np.int32)
    numbers, hard = np.empty(shape), np.zeros(shape, bool)
    lines = scan.scan(np.frombuffer(text, np.uint8), column_of, types, starts, stops, numbers, hard)
    if lines <= 0:
        return None
    columns: list[NDArray[Any]] = []
    for column, i in enumerate(wanted):
        first, behind = starts[:lines, column], stops[:lines, column]
        if kinds[i] == "id":
            width = int((behind - first).max())
            if width > _LONGEST:
                return None
            ids = np.zeros((lines, width), np.uint8)
            scan.gather(np.frombuffer(text, np.uint8), first, behind, ids)
            columns.append(ids.view(f"S{width}").ravel())
            continue
        read: NDArray[Any] = numbers[:lines, column].astype(_NUMBERS[kinds[i]])
        if (left := np.flatnonzero(hard[:lines, column])).size:
            fields = _gather(text, first[left].astype(np.int64), behind[left].astype(np.int64))
            try:
                read[left] = fields.astype(_NUMBERS[kinds[i]])
            except (ValueError, OverflowError):
                return None
            if _is_foreign(fields):
                return None
        columns.append(read)
    return columns


def _columns(path: Path, block: Block, kinds: Sequence[Kind], *, more: bool) -> list[NDArray[Any]]:
    text = block.text
    if b"\0" in text:
        line = block.first + text.count(b"\n", 0, text.index(b"\0"))
        raise InvalidFile(f"{path}:{line}: there is a NUL byte, so this is no text file of columns")
    edges = _edges(text, len(kinds))
    if edges is None:  # not every line is plain: one by one, they come out plain or as an error
        text = b"".join(_plain_lines(path, block, kinds, more=more))
        edges = _edges(text, len(kinds))
    if edges is None:
        return [np.zeros(0, "S1" if kind == "id" else _NUMBERS[kind]) for kind in kinds if kind != "skip"]
    try:
        fields = [_gather(text, edges[:, 2 * i], edges[:, 2 * i + 1]) for i, kind in enumerate(kinds) if kind != "skip"]
        types = [_NUMBERS.get(kind) for kind in kinds if kind != "skip"]
        if any(number and _is_foreign(field) for field, number in zip(fields, types, strict=True)):
            list(_plain_lines(path, block, kinds, more=more))  # names the line
        return [field.astype(number) if number else field for field, number in zip(fields, types, strict=True)]
    except (ValueError, OverflowError) as error:
        list(_plain_lines(path, block, kinds, more=more))  # names the line, where Python agrees that it is wrong
        raise InvalidFile(f"{path}: in or after line {block.first}: {error}") from None


def _is_foreign(field: NDArray[np.bytes_]) -> bool:
    """Whether a number of the column (lines,) has a `_`, or a character that is not of ASCII."""
    codes = np.ascontiguousarray(field).view(np.uint8)
    return bool(np.any((codes == ord("_")) | (codes >= 128)))  # noqa: PLR2004 - where ASCII ends


def _edges(text: bytes, count: int) -> NDArray[np.int64] | None:
    """Return where each field of each line starts and stops (lines, 2 * count), or None if not every line has *count*."""
    codes = np.frombuffer(text, np.uint8)
    blank = (codes == ord(" ")) | (codes - np.uint8(9) < 5)  # noqa: PLR2004 - codes 9 to 13 and the space: as bytes.split()
    edges = np.flatnonzero(np.diff(blank, prepend=True))
    ends = np.flatnonzero(codes == _NEWLINE)
    if not len(ends) or len(edges) != 2 * count * len(ends):
        return None
    lines = edges.reshape(-1, 2 * count)
    plain = np.all(lines[:, -1] <= ends) and np.all(lines[1:, 0] > ends[:-1]) and not np.any(codes[lines[:, 0]] == ord("#"))
    return lines if plain else None


def _gather(text: bytes, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> NDArray[np.bytes_]:
    """Return the fields `text[start:stop]` as an array of bytes (fields,)."""
    lengths = stops - starts
    width = int(lengths.max())
    if width > _LONGEST:
        raise ValueError(f"a field of {width} bytes")
    windows = sliding_window_view(np.frombuffer(text + b"\0" * width, np.uint8), width)  # [i] is text[i:i + width], uncopied
    fields = windows[starts]
    fields *= np.arange(width) < lengths[:, None]
    return fields.view(f"S{width}").ravel()


def _plain_lines(path: Path, block: Block, kinds: Sequence[Kind], *, more: bool) -> Iterator[bytes]:
    """Yield the lines that have fields; InvalidFile for the first that has not the right ones."""
    for number, line in enumerate(block.text.split(b"\n"), block.first):
        fields = line.split()
        if not fields or line.startswith(b"#"):
            continue
        if more and len(fields) > len(kinds):
            if b"\r" in line.rstrip():  # the file would be one line, and all but its first entry would be read over
                raise InvalidFile(f"{path}:{number}: a carriage return inside a line; let every line end in a newline")
            fields, line = fields[: len(kinds)], b" ".join(fields[: len(kinds)])  # noqa: PLW2901 - what is read of it
        if len(fields) != len(kinds):
            raise InvalidFile(
                f"{path}:{number}: {len(fields)} columns, not {len(kinds)}: {line[:80].decode(errors='replace')!r}"
            )
        for field, kind in zip(fields, kinds, strict=True):
            if not _reads(field, kind):
                raise InvalidFile(f"{path}:{number}: {field.decode(errors='replace')!r} is not a number ({kind})")
        yield line + b"\n"


def _reads(field: bytes, kind: Kind) -> bool:
    """Whether *field* is what *kind* says: a number as C writes it, and a whole one that 64 bits hold."""
    if kind not in _NUMBERS:
        return True
    try:
        value = _NUMBERS[kind](field)
    except ValueError:
        return False
    return b"_" not in field and field.isascii() and (kind != "int" or -_LARGEST <= value < _LARGEST)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn an error of what is made of a file's columns into an InvalidFile that names the file."""
    try:
        yield
    except InvalidFile:
        raise
    except LexbenchError as error:
        raise InvalidFile(f"{path}: {error}") from None
