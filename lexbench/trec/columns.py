"""Text files of columns (runs, qrels, slices), read block by block into numpy arrays.

Every line has the same number of fields, separated by white space. Blank lines and lines that begin with `#` are skipped.
Numbers are ASCII, without the `_` that Python allows. A file must not contain NUL bytes, because numpy would cut ids off there.

Small files are split by Python, large ones by compiled loops. Both give up on a block with an unusual line. The block is then
checked line by line, which either names the faulty line or leaves only usual lines.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import InvalidFile, LexbenchError
from lexbench.storage.reading import blocks, lines

Kind: TypeAlias = Literal["id", "int", "float", "skip"]

_LONGEST = 1000  # bytes of an id; a longer field means that the file is of another kind
_LARGE = 25_000_000  # bytes of a file; from this size on, loading numba saves more time than it costs
_NUMBERS: dict[str, type[int] | type[float]] = {"int": int, "float": float}


def first_fields(path: Path) -> list[bytes]:
    """Return the fields of the first line that is not blank or a comment; [] if there is none."""
    every = (part for _, line in lines(path) for part in line.splitlines())  # a file of an old Mac ends lines by \r
    return next((line.split() for line in every if line.strip() and not line.startswith(b"#")), [])


def read_columns(path: Path, kinds: Sequence[Kind], *, header: bool = False, more: bool = False) -> list[NDArray[Any]]:
    """Return the columns that are not "skip", each (lines,): ids as bytes, numbers as int64 or float64.

    *header* skips the first line. *more* allows additional fields after those of *kinds* and ignores them. Raises InvalidFile
    with the line number if a line has another number of fields or a number cannot be parsed.
    """
    wanted = [kind for kind in kinds if kind != "skip"]
    parts = [[np.zeros(0, _NUMBERS.get(kind, "S1"))] for kind in wanted]  # the empty array sets the type of an empty file
    split = _split_compiled if path.stat().st_size >= _LARGE else _split
    for first, block in blocks(path):
        number, text = first, block if block.endswith(b"\n") else block + b"\n"
        if header and first == 1:
            number, text = 2, text.partition(b"\n")[2]
        columns = split(text, kinds)
        if columns is None:
            text = b"".join(_usual_lines(path, number, text, kinds, more=more))
            if not text:
                continue
            columns = _split(text, kinds)
            assert columns is not None, "every line was checked"
        for column, part in zip(columns, parts, strict=True):
            part.append(column)
    return [np.concatenate(part) for part in parts]


def _split(text: bytes, kinds: Sequence[Kind]) -> list[NDArray[Any]] | None:
    """Return the wanted columns of *text*, which ends in a newline; None if there is no line, or an unusual one."""
    if not text or b"\0" in text or text.startswith(b"#") or b"\n#" in text:
        return None
    # A NUL after each line shows whether every line has the right number of fields.
    step = len(kinds) + 1
    fields = text.replace(b"\n", b" \0 ").split()
    ends = fields[len(kinds) :: step]
    if len(fields) % step or not text.count(b"\n") == len(ends) == ends.count(b"\0"):
        return None
    columns: list[NDArray[Any]] = []
    for i, kind in enumerate(kinds):
        if kind == "skip":
            continue
        column = _ids(fields[i::step]) if kind == "id" else _numbers(fields[i::step], kind)
        if column is None:
            return None
        columns.append(column)
    return columns


def _ids(fields: Sequence[bytes]) -> NDArray[np.bytes_] | None:
    width = max(map(len, fields))
    return np.array(fields, f"S{width}") if width <= _LONGEST else None


def _numbers(fields: Sequence[bytes], kind: Kind) -> NDArray[Any] | None:
    """Return *fields* as int64 or float64; None if one is not a number or is written as only Python allows."""
    joined = b"".join(fields)
    if b"_" in joined or not joined.isascii():
        return None
    try:
        return np.fromiter(map(_NUMBERS[kind], fields), _NUMBERS[kind], len(fields))
    except (ValueError, OverflowError):
        return None


def _split_compiled(text: bytes, kinds: Sequence[Kind]) -> list[NDArray[Any]] | None:
    """Return what `_split` returns, several times faster."""
    from lexbench.trec import _compiled

    wanted = [i for i, kind in enumerate(kinds) if kind != "skip"]
    column_of = np.array([wanted.index(i) if i in wanted else -1 for i in range(len(kinds))])
    types = np.array([_compiled.TYPES.index(kinds[i]) for i in wanted])
    shape = len(text) // (2 * len(kinds)), len(wanted)  # a field takes at least two bytes, so there are not more lines
    starts, stops = np.empty(shape, np.int32), np.empty(shape, np.int32)
    numbers, hard = np.empty(shape), np.zeros(shape, bool)
    codes = np.frombuffer(text, np.uint8)
    lines = _compiled.scan(codes, column_of, types, starts, stops, numbers, hard)
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
            _compiled.gather(codes, first, behind, ids)
            columns.append(ids.view(f"S{width}").ravel())
            continue
        read: NDArray[Any] = numbers[:lines, column].astype(_NUMBERS[kinds[i]])
        # Python parses the numbers that the loop could not round with certainty.
        left = np.flatnonzero(hard[:lines, column])
        parsed = _numbers([text[a:b] for a, b in zip(first[left].tolist(), behind[left].tolist(), strict=True)], kinds[i])
        if parsed is None:
            return None
        read[left] = parsed
        columns.append(read)
    return columns


def _usual_lines(path: Path, first: int, text: bytes, kinds: Sequence[Kind], *, more: bool) -> Iterator[bytes]:
    """Yield the lines of *text* that have fields, exactly those of *kinds*. Line *first* is the first line of *text*.

    Raises InvalidFile with the line number at the first faulty line.
    """
    for number, line in enumerate(text.split(b"\n"), first):
        if b"\0" in line:
            raise InvalidFile(f"{path}:{number}: there is a NUL byte, so this is no text file of columns")
        fields = line.split()
        if not fields or line.startswith(b"#"):
            continue
        if more and len(fields) > len(kinds):
            if b"\r" in line.rstrip():  # old Mac line ends: the whole file is one line, and only its first entry would count
                raise InvalidFile(f"{path}:{number}: a carriage return inside a line; let every line end in a newline")
            fields, line = fields[: len(kinds)], b" " + b" ".join(fields[: len(kinds)])  # noqa: PLW2901
        if len(fields) != len(kinds):
            shown = line[:80].decode(errors="replace")
            spaces = "; replace the white space inside ids" if len(line.split(b"\t")) == len(kinds) else ""
            count = f"{len(fields)} column{'s' * (len(fields) != 1)}"
            raise InvalidFile(f"{path}:{number}: {count}, not {len(kinds)}: {shown!r}{spaces}")
        for field, kind in zip(fields, kinds, strict=True):
            if kind == "id" and len(field) > _LONGEST:
                raise InvalidFile(f"{path}:{number}: a field of {len(field)} bytes; an id has at most {_LONGEST}")
            if kind in _NUMBERS and _numbers([field], kind) is None:
                what = (
                    "whole number, e.g. 0, 1 or 2"
                    if kind == "int" and b"." in field and _numbers([field], "float") is not None
                    else "number"
                )
                raise InvalidFile(f"{path}:{number}: {field.decode(errors='replace')!r} is not a {what}")
        yield line + b"\n"


@contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """Turn a LexbenchError about the content of a file into an InvalidFile that names the file."""
    try:
        yield
    except InvalidFile:
        raise
    except LexbenchError as error:
        raise InvalidFile(f"{path}: {error}") from None
