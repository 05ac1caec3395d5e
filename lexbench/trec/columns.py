"""Text files of columns (runs, qrels, slices), read block by block into numpy arrays.

Every line has the same number of fields. White space separates them, as in trec_eval. Where the lines have tabs, only tabs
separate, so ids may have blanks, and fields may be in quotes, as pandas writes them. Blank lines are skipped. So
are comments (`# ...`) above the first line of data; further down, `#` is the beginning of an id. Numbers are ASCII, without the
`_` that Python allows. A file must not contain NUL bytes, because numpy would cut ids off there.

Small files are split by Python, large ones by compiled loops. Both give up on a block with an unusual line. The block is then
read line by line, which also names the faulty line.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from sys import maxsize
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import InvalidFile, LexbenchError, echoed
from lexbench.storage.reading import blocks, lines

Kind: TypeAlias = Literal["id", "float", "grade", "skip"]  # a grade is a finite number of limited size

_TRUTH = {b"true": b"1", b"false": b"0"}  # grades of pandas and Excel
LARGEST_GRADE = 2**31 - 1  # positive or negative
_LONGEST = 1000  # bytes of an id; a longer field means that the file is of another kind
_LARGE = 25_000_000  # bytes of a file; from this size on, loading numba saves more time than it costs
ITERATION = (b"0", b"Q0", b"q0")  # the second column of TREC's files


_OTHERS = {  # first lines of tables of other formats, which only their names distinguish
    rb"\{\s*(\"|$)|\[\s*([{\"\[]|$)": ("JSON", ".json"),
    rb"PAR1": ("Parquet", ".parquet"),
    rb"ARROW1": ("Arrow", ".arrow"),
    rb'"?[\w.#-]+"?([,;])[^\t]*\1': ("CSV", ".csv"),
}


class Beginning(NamedTuple):
    """What the first line of data, or the header, shows about a file."""

    fields: list[bytes]  # of that line, without quotes; [] if the file has none
    number: int  # of that line, from 1
    tabs: bool  # whether tabs alone separate fields
    quoted: bool  # whether all its fields but numbers are in quotes


NOTHING = Beginning([], maxsize, tabs=False, quoted=False)  # of a file without any data


def beginning(path: Path, shapes: Mapping[int, Sequence[Kind]]) -> Beginning:
    """Return what the first line shows that is not blank or a comment. *shapes* are the kinds of columns by their number.

    A line that begins with `#` and has no blank behind it is data if it fits one of *shapes*: its first id begins with `#`.
    Raises InvalidFile if the line shows that the file is a table in a format that its name does not have.
    """
    every = ((number, part) for number, line in lines(path) for part in line.splitlines())  # an old Mac ends lines by \r
    for number, line in every:
        if not line.strip():
            continue
        fields, tabs = _separated(line, shapes)
        in_quotes = [len(field) > 1 and field[:1] == field[-1:] == b'"' for field in fields]
        quoted = any(in_quotes) and all(one or are_numbers([field]) for one, field in zip(in_quotes, fields, strict=True))
        fields = _unquoted(line, tabs=tabs) if quoted else fields
        data = bool(line[1:2].strip()) and len(fields) in shapes and not _fault(fields, shapes[len(fields)])
        other = next((known for first, known in _OTHERS.items() if re.match(first, line)), None)
        if other and not (data and other[1] == ".csv"):  # ids may have commas
            what = "lines of columns are needed" if other[1] in path.suffixes else f"let its name end in {other[1]}"
            raise InvalidFile(f"{path}:{number}: it looks like {other[0]}; {what}")
        if data or not line.startswith(b"#"):
            return Beginning(fields, number, tabs, quoted)
    return NOTHING


def _separated(line: bytes, shapes: Mapping[int, Sequence[Kind]]) -> tuple[list[bytes], bool]:
    """Return the fields of the first line, and whether tabs separate them."""
    by_tab, by_blank = [field.strip() for field in line.split(b"\t")], line.split()
    if len(by_tab) == 1:
        return by_blank, False
    mixed = len(by_blank) > len(by_tab) and len(by_blank) in shapes and by_blank[1] in ITERATION  # "q1 0\td1\t1"
    return (by_blank, False) if mixed else (by_tab, True)


def _unquoted(line: bytes, *, tabs: bool) -> list[bytes]:
    """Return the fields of a line without their quotes; `""` in a quoted field is one quote."""
    text = line.decode(errors="surrogateescape").strip("\r\n")
    try:
        row = next(csv.reader([text], delimiter="\t" if tabs else " ", skipinitialspace=not tabs), [])
    except csv.Error:  # a field is very long
        return [line]
    return [field.strip().encode(errors="surrogateescape") for field in row]


def read_columns(
    path: Path, kinds: Sequence[Kind], begin: Beginning | None = None, *, header: bool = False, more: bool = False
) -> list[NDArray[Any]]:
    """Return the columns that are not "skip", each (lines,): ids as bytes, numbers as float64.

    *begin* is the `beginning` of the file, whose line is skipped if it is a *header*. *more* allows additional fields after
    those of *kinds* and ignores them. Raises InvalidFile with the line number if a line has another number of fields or a
    number cannot be parsed.
    """
    begin = begin or beginning(path, {len(kinds): kinds})
    wanted = [kind for kind in kinds if kind != "skip"]
    parts = [[np.zeros(0, "S1" if kind == "id" else float)] for kind in wanted]  # these set the types of an empty file
    split = _split_compiled if path.stat().st_size >= _LARGE else _split
    start = begin.number + header  # the first line of data
    for first, block in blocks(path):
        number, text = first, block if block.endswith(b"\n") else block + b"\n"
        if above := min(start - number, text.count(b"\n")) if number < start else 0:  # lines above the first line of data
            number, text = number + above, text.split(b"\n", above)[-1]
        # Where tabs separate, an id may have a blank, and a field may be empty, which two tabs show.
        simple = not (begin.tabs and b" " in text) and not ((begin.quoted or header) and b'"' in text)
        columns = split(text, kinds) if simple else None
        if columns is None:
            rows = _rows(path, number, text, kinds, tabs=begin.tabs, quotes=begin.quoted or header, more=more)
            fields = [field for row in rows for field in row]
            if not fields:
                continue
            columns = _columns(fields, kinds, len(kinds))
            assert columns is not None, "every line was checked"
        for column, part in zip(columns, parts, strict=True):
            part.append(column)
    return [np.concatenate(part) for part in parts]


def _split(text: bytes, kinds: Sequence[Kind]) -> list[NDArray[Any]] | None:
    """Return the wanted columns of *text*, which ends in a newline; None if there is no line, or an unusual one."""
    if not text or b"\0" in text:
        return None
    # A NUL after each line shows whether every line has the right number of fields.
    step = len(kinds) + 1
    fields = text.replace(b"\n", b" \0 ").split()
    ends = fields[len(kinds) :: step]
    if len(fields) % step or not text.count(b"\n") == len(ends) == ends.count(b"\0"):
        return None
    return _columns(fields, kinds, step)


def _columns(fields: Sequence[bytes], kinds: Sequence[Kind], step: int) -> list[NDArray[Any]] | None:
    """Return the wanted columns of lines of *step* fields each; None if a field is too long or no number."""
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


def _numbers(fields: Sequence[bytes], kind: Kind) -> NDArray[np.float64] | None:
    """Return *fields* as float64; None if one is not a number of this *kind*, or is written as only Python allows."""
    joined = b"".join(fields)
    if b"_" in joined or not joined.isascii():
        return None
    try:
        numbers = np.fromiter(map(float, fields), float, len(fields))
    except ValueError:
        if kind == "grade" and any(field.lower() in _TRUTH for field in fields):
            return _numbers([_TRUTH.get(field.lower(), field) for field in fields], kind)
        return None
    return numbers if kind != "grade" or _are_grades(numbers) else None


def _are_grades(numbers: NDArray[np.float64]) -> bool:
    """Return whether all *numbers* (n,) are finite and not beyond the largest grade."""
    return bool((np.abs(numbers) <= LARGEST_GRADE).all())  # NaN is not


def parse_grade(grade: Any) -> int | float:
    """Return a grade, a number or its text, as an integer if it is whole, e.g. 2 for `2.0`. Every format is read by this rule.

    Raises ValueError if it is no finite number, or beyond the largest grade.
    """
    if type(grade) is int and abs(grade) <= LARGEST_GRADE:
        return grade
    try:
        text = str(grade).strip().encode() if isinstance(grade, str) else b"%.17g" % float(grade)
    except (TypeError, ValueError, OverflowError):
        text = b""
    numbers = _numbers([text], "grade")
    if numbers is None:
        raise ValueError(_grade_fault(str(grade)))
    (number,) = numbers.tolist()
    return int(number) if number.is_integer() else number


def parse_score(score: Any) -> float:
    """Return a score, a number or its text. Tables, JSON, data in memory and servers are read by this rule.

    It may be infinite or NaN, which `lexbench.trec.runs` refuses with the document. Raises ValueError if it is no number.
    """
    with suppress(TypeError, ValueError, OverflowError):
        if are_numbers([score]) if isinstance(score, str) else not isinstance(score, bool):
            return float(score)
    raise ValueError("the score is empty" if score in (None, "") else f"the score {echoed(str(score))} is no number")


def are_numbers(values: Sequence[Any]) -> bool:
    """Return whether all *values*, bytes, texts or other objects, are numbers or their texts."""
    fields = [value if isinstance(value, bytes) else str(value).strip().encode(errors="replace") for value in values]
    return not any(isinstance(value, bool) for value in values) and _numbers(fields, "float") is not None


def _grade_fault(grade: str) -> str:
    """Return why the text *grade* is no grade."""
    numbers = _numbers([grade.strip().encode(errors="replace")], "float")
    if numbers is not None and np.isfinite(numbers).all():
        return f"a grade beyond {LARGEST_GRADE}: {grade}"
    return f"the grade {grade!r} is no number; grades are numbers, e.g. 0, 1 or 2"


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
        read = numbers[:lines, column].copy()
        # Python parses the numbers that the loop could not round with certainty.
        left = np.flatnonzero(hard[:lines, column])
        parsed = _numbers([text[a:b] for a, b in zip(first[left].tolist(), behind[left].tolist(), strict=True)], kinds[i])
        if parsed is None:
            return None
        read[left] = parsed
        if kinds[i] == "grade" and not _are_grades(read):
            return None
        columns.append(read)
    return columns


def _rows(
    path: Path, first: int, text: bytes, kinds: Sequence[Kind], *, tabs: bool, quotes: bool, more: bool
) -> Iterator[list[bytes]]:
    """Yield the fields of each line of *text*, exactly those of *kinds*. Line *first* is the first line of *text*.

    With *tabs*, tabs separate the first line of the file. With *quotes*, fields lose theirs. Raises InvalidFile with the line
    number at the first faulty line.
    """
    for number, line in enumerate(text.split(b"\n"), first):
        if b"\0" in line:
            raise InvalidFile(f"{path}:{number}: there is a NUL byte, so this is no text file of columns")
        if not line.strip():
            continue
        fields = _unquoted(line, tabs=tabs) if quotes and b'"' in line else _fields(line, kinds, tabs=tabs, more=more)
        if more and len(fields) > len(kinds):
            if b"\r" in line.rstrip():  # old Mac line ends: the whole file is one line, and only its first entry would count
                raise InvalidFile(f"{path}:{number}: a carriage return inside a line; let every line end in a newline")
            fields = fields[: len(kinds)]
        if fault := _fault(fields, kinds):
            comment = "; comments stand only above the first line of data" if line.startswith(b"#") else ""
            shown = "" if len(fields) == len(kinds) else f": {line[:80].decode(errors='replace')!r}{comment}"
            raise InvalidFile(f"{path}:{number}: {fault}{shown}")
        yield fields


def _fields(line: bytes, kinds: Sequence[Kind], *, tabs: bool, more: bool) -> list[bytes]:
    """Return the fields of a line without quotes; *tabs* and *more* as in `read_columns`."""
    by_blank = line.split()
    if not tabs or b"\t" not in line:
        return by_blank
    by_tab = [field.strip() for field in line.split(b"\t")]
    if (len(by_tab) == len(kinds) or (more and len(by_tab) > len(kinds))) and not _fault(by_tab[: len(kinds)], kinds):
        return by_tab
    # Other tools also read lines of this file in which blanks and tabs, or several tabs, separate fields.
    mixed = by_blank[1:2] in ([one] for one in ITERATION) or not any(b" " in field for field in by_tab)
    return by_blank if mixed and len(by_tab) != len(kinds) else by_tab


def _fault(fields: Sequence[bytes], kinds: Sequence[Kind]) -> str | None:
    """Return why *fields* are no line of data; None if they are one."""
    if len(fields) != len(kinds):
        return f"{len(fields)} column{'s' * (len(fields) != 1)}, not {len(kinds)}"
    for field, kind in zip(fields, kinds, strict=True):
        text = field.decode(errors="replace")
        if kind == "id" and len(field) > _LONGEST:
            return f"a field of {len(field)} bytes; an id has at most {_LONGEST}"
        if kind == "id" and not field:
            return "an id is empty"
        if kind == "grade" and _numbers([field], kind) is None:
            return _grade_fault(text)
        if kind == "float" and _numbers([field], kind) is None:
            return f"{text!r} is not a number"
    return None


@contextmanager
def errors_name(path: Path) -> Iterator[None]:
    """Turn a LexbenchError about the content of a file into an InvalidFile that names the file."""
    try:
        yield
    except InvalidFile:
        raise
    except LexbenchError as error:
        raise InvalidFile(f"{path}: {error}") from None
