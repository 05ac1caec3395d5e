"""Rows of tables, with their columns by name: JSON, CSV, TSV, Parquet and Arrow. Datasets, judgements and runs use it.

A JSON file is a list of rows, an object of records by id, e.g. {"d1": {...}}, or JSON lines. In files without a header, the
first line decides which columns there are. Errors are InvalidFile with the file and the line.
"""

import csv
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from lexbench.errors import InvalidFile, echoed, require, visible
from lexbench.storage.reading import COMPRESSED, check_data, content, lines, utf8

Row: TypeAlias = dict[str, Any]
Shapes: TypeAlias = Mapping[int, Sequence[str]]  # the names of the columns by their number, for files without a header

_PARQUET_ROWS = 2048  # in memory at once
_LONGEST_FIELD = 1 << 28  # characters
_COMPARED = 20  # lines to compare the first one with
_FEW = 5  # texts that show that a first line of single words is a header
_MARKS = ",;\t"  # that may separate the fields of CSV
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_WORD = re.compile(r"[^\W\d]+")  # a name of a column, or an id without digits
_EXCEL = re.compile(r'"?sep=(.)"?')  # a first line that tells Excel what separates fields
_JUDGED = ("judgements", "qrels")  # parts of which a split is never taken for another one
_JSON = (".json", ".jsonl", ".ndjson")
_ARROW = (".arrow", ".feather")
_PARQUET = (".parquet", ".parq", ".pq")  # ranx takes the second
COLUMNAR = (*_PARQUET, *_ARROW)  # their rows have no lines
TABLES = (*_JSON, ".csv", ".tsv", *COLUMNAR)


class RepeatedKey(ValueError):
    """A JSON object has a key twice."""


def unique_keys(pairs: list[tuple[str, Any]]) -> Row:
    """Return a JSON object, for `json`. Raises RepeatedKey for a key that is there twice: Python would keep the last value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise RepeatedKey(f"the key {echoed(next(name for name in names if names.count(name) > 1))} is there twice")
    return found


_LINE = json.JSONDecoder(object_pairs_hook=unique_keys)  # made once: `json.loads` would make one for each line


def check_names(place: str, names: Sequence[str], known: Collection[str]) -> None:
    """Raise InvalidFile if two columns have one *known* name, with the *place* of the header."""
    if twice := next((name for name in names if name in known and names.count(name) > 1), None):
        raise InvalidFile(f"{place}: two columns are called {twice!r}; rename or remove one")


class NoColumn(ValueError):
    """A row lacks a column that it needs."""


class MissingColumns(InvalidFile):
    """A table lacks a column that it needs; the names of its columns may be others."""


def row_error(path: Path, number: int, error: Exception) -> InvalidFile:
    """Return the error for the row with that number."""
    return (MissingColumns if isinstance(error, NoColumn) else InvalidFile)(f"{path}, line {number}: {visible(str(error))}")


class TableColumns(NamedTuple):
    """What is known about the columns of a table before it is read."""

    shapes: Shapes  # of files without a header
    known: Collection[str]  # names that make the first line of a CSV or TSV file a header
    ids: Collection[str]  # those of which a header needs one
    by_id: Callable[[Mapping[str, Any]], Iterator[Row]]  # makes rows of a JSON object of records by id


def ending(path: Path) -> str:
    """Return the ending of a file name in lower case, without that of a compressed file: ".jsonl" for corpus.jsonl.gz."""
    return next((suffix for suffix in reversed(path.suffixes) if suffix not in COMPRESSED), "").lower()


def rows(path: Path, table: TableColumns, kind: str = "") -> Iterator[tuple[int, Row]]:
    """Yield the number of the line, from 1, and the row of each line; of Parquet, Arrow and JSON, the number of the row.

    Blank lines are skipped. *kind* is the ending that decides the format; default: that of the name.
    """
    kind = kind or ending(path)
    if kind in _PARQUET:
        return enumerate(_parquet(path), 1)
    if kind in _ARROW:
        return enumerate(_arrow(path), 1)
    if kind == ".json":
        return _json(path, table)
    return _json_lines(path) if kind in _JSON else _separated(path, table)


def has_header(path: Path, table: TableColumns) -> bool:
    """Return whether rows have names: always, except in CSV and TSV files whose first line is data."""
    return ending(path) not in (".csv", ".tsv", ".txt") or bool(set(_head(path)[1]) & set(table.known))


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line. Raises InvalidFile for a line that is not UTF-8."""
    for number, line in lines(path):
        try:
            yield number, line.decode().removesuffix("\r")
        except UnicodeDecodeError as error:
            how = f"convert the file, e.g.: iconv -f LATIN1 -t UTF-8 {path} > new{path.suffix}"
            raise InvalidFile(f"{path}, line {number}: not UTF-8 (byte {error.object[error.start]:#x}); {how}") from None


# ---- JSON ------------------------------------------------------------------------------------------------------------------


def _json_lines(path: Path) -> Iterator[tuple[int, Row]]:
    for number, line in text_lines(path):
        if not line.strip():
            continue
        try:
            row = _LINE.decode(line)
        except RecursionError:
            raise InvalidFile(f"{path}, line {number}: it is nested too deep") from None
        except RepeatedKey as error:
            raise InvalidFile(f"{path}, line {number}: {error}") from None
        except ValueError as error:
            raise InvalidFile(
                f"{path}, line {number}: not JSON; is the file cut off? ({error}){_whole_file(path, line)}"
            ) from None
        if not isinstance(row, dict):
            like = '{"_id": "d1", "text": "…"}'
            raise InvalidFile(f"{path}, line {number}: not a JSON object like {like}{_whole_file(path, line)}")
        yield number, _whole(row) if _SURROGATE.search(line) else row


def _whole_file(path: Path, line: str) -> str:
    """Return what to do with a file of JSON lines that may be one JSON value, as its first *line* shows."""
    return f"; if the file is one JSON value, call it {path.stem}.json" if line.lstrip()[:1] == "[" else ""


def _whole(row: Row) -> Row:
    """Return a row whose texts have no half of a surrogate pair, which only an escape of JSON can give."""
    texts = {name: row[name] for name in ("text", "title", "body", "url") if isinstance(row.get(name), str)}
    return row | {name: utf8(text).decode() for name, text in texts.items()}


def _json(path: Path, table: TableColumns) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a JSON file, which may be JSON lines."""
    value = _json_value(path)
    if value is _LINES:
        yield from _json_lines(path)
        return
    if not isinstance(value, dict | list):
        raise InvalidFile(f'{path}: neither a list of rows nor an object of records by id, like {{"d1": …}}')
    flat = isinstance(value, dict) and value and not any(isinstance(one, dict) for one in value.values())
    if flat and (set(value) & set(table.ids) or set(value) <= set(table.known)):
        value = [value]  # one line of JSON lines
    elif isinstance(value, dict) and set(value) & set(table.ids) and (columns := _columns(value)):
        value = columns
    try:
        every = table.by_id(value) if isinstance(value, dict) else value
        for number, row in enumerate(every, 1):
            if not isinstance(row, dict):
                raise InvalidFile(f'{path}, row {number}: not a JSON object like {{"_id": "d1", "text": "…"}}')
            yield number, _whole(row)
    except (TypeError, ValueError) as error:
        raise InvalidFile(f"{path}: {visible(str(error))}") from None


def _columns(value: Mapping[str, Any]) -> list[Row]:
    """Return the rows of an object of columns, {"id": {"0": "d1"}, ...}, which pandas writes by default; [] for another one."""
    first = next(iter(value.values()))
    if not all(isinstance(column, dict) and list(column) == list(first) for column in value.values()):
        return []
    return [{name: column[key] for name, column in value.items()} for key in first]


_LINES = object()  # what `_json_value` returns for JSON lines


def _json_value(path: Path) -> Any:
    """Return the value of a JSON file, or `_LINES` if it has several."""
    try:
        return json.loads(content(path), object_pairs_hook=unique_keys)
    except RecursionError:
        raise InvalidFile(f"{path}: it is nested too deep") from None
    except json.JSONDecodeError as error:
        if error.msg.startswith("Extra data"):
            return _LINES
        raise InvalidFile(f"{path}, line {error.lineno}: not JSON; is the file cut off? ({error})") from None
    except ValueError as error:  # also bytes that are not UTF-8
        raise InvalidFile(f"{path}: {error}") from None


def is_frame(value: Any) -> bool:
    """Return whether *value* is a table of pandas, polars, Arrow or datasets."""
    return any(hasattr(value, name) for name in ("iterrows", "iter_rows", "to_pylist", "column_names"))


def plain(value: Any) -> Any:
    """Return a Series of pandas as a mapping, or as a list if its labels only count from 0; anything else unchanged.

    A missing value, NaN in pandas, is None.
    """
    if not all(hasattr(value, name) for name in ("index", "to_dict", "tolist")) or hasattr(value, "columns"):
        return value
    labels, values = list(value.index), [None if one != one else one for one in value.tolist()]  # noqa: PLR0124 - NaN
    return values if labels == list(range(len(labels))) else dict(zip(labels, values, strict=True))


def part_of_split(part: str, given: Mapping[str, Any], split: str | None) -> Any:
    """Return the value of one *split* in a mapping by split, {"test": ...}: the stated one, the only one, or "test".

    *part* names the mapping in the error. Documents and queries of one split are those of all judgements. Raises ValueError,
    with the splits, if none of them is meant.
    """
    only = len(given) == 1 and (split is None or part not in _JUDGED)
    name = next(iter(given)) if only else split or "test"
    if name not in given:
        raise ValueError(f"{part}: there is no split {name!r}; there is: {', '.join(map(str, given))}; choose one of them")
    return given[name]


# ---- Parquet and Arrow -----------------------------------------------------------------------------------------------------


def _parquet(path: Path) -> Iterator[Row]:
    with parquet_file(path) as file:
        for batch in file.iter_batches(batch_size=_PARQUET_ROWS):
            yield from batch.to_pylist()


def _arrow(path: Path) -> Iterator[Row]:
    """Yield the rows of a file of Arrow: Feather, or a stream, which `save_to_disk` of Hugging Face's datasets writes."""
    with _columnar(path, "Arrow"):
        from pyarrow import ArrowInvalid, ipc, memory_map

        with memory_map(str(path)) as file:
            try:
                reader = ipc.open_file(file)
                batches = map(reader.get_batch, range(reader.num_record_batches))
            except ArrowInvalid:
                batches = iter(ipc.open_stream(file))
            for batch in batches:
                for start in range(0, len(batch), _PARQUET_ROWS):
                    yield from batch.slice(start, _PARQUET_ROWS).to_pylist()


@contextmanager
def parquet_file(path: Path) -> Iterator[Any]:
    """Open a Parquet file with pyarrow. Raises InvalidFile, also during reading, if it is damaged or of another format."""
    with _columnar(path, "Parquet"):
        from pyarrow.parquet import ParquetFile

        with ParquetFile(path) as file:
            yield file


@contextmanager
def _columnar(path: Path, what: str) -> Iterator[None]:
    """Turn errors of pyarrow on reading *path*, a file of the format *what*, into InvalidFile."""
    require(f"reading {what}", ["pyarrow"], "parquet")
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError) as error:
        with suppress(OSError):
            check_data(path)
        reason = str(error).partition("\n")[0]
        raise InvalidFile(f"{path}: it is no {what} file, or a damaged one ({reason})") from None


# ---- CSV and TSV -----------------------------------------------------------------------------------------------------------


def _separated(path: Path, table: TableColumns) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a CSV or TSV file.

    A first line that looks like a header with unknown names is refused, because it could be read as data. Without a header, the
    number of columns in the first line holds for the file.
    """
    every = lines_of_fields(path)
    head = list(islice(every, _COMPARED + 1))
    if not head:
        return
    first, values = head[0]
    names = _names(values)
    shown = visible(", ".join(names))
    header = bool(set(names) & set(table.known))
    if header and not set(names) & set(table.ids):
        wanted = ", ".join(table.shapes[max(table.shapes)])
        raise MissingColumns(f"{path}, line {first}: a header without a column of ids: {shown}; known names: {wanted}")
    if not header and _may_be_header([fields for _, fields in head]):
        raise MissingColumns(
            f"{path}, line {first}: is this a header? Its names are unknown: {shown}; "
            f"name the columns {' and '.join(next(iter(table.shapes.values())))}, or add such a line above it"
        )
    if header:
        check_names(f"{path}, line {first}", names, table.known)
    columns = names if header else table.shapes.get(len(values), ())
    if not columns:
        wanted = " or ".join(f"{count} ({', '.join(known)})" for count, known in table.shapes.items())
        raise InvalidFile(f"{path}, line {first}: {len(values)} column{'s' * (len(values) != 1)}, not {wanted}")
    # pandas quotes some fields of a file with a header, or all of them; files of MS MARCO have bare quotes
    quoted = ending(path) != ".csv" and (header or (len(values) > 1 and all(map(_QUOTED.fullmatch, values))))
    for number, fields in chain(head[1:] if header else head, every):
        if len(fields) != len(columns):
            more = "put texts with a comma into quotes" if ending(path) == ".csv" else "replace tabs in texts by blanks"
            found = f"{len(fields)} column{'s' * (len(fields) != 1)}, not {len(columns)} as in line {first}"
            why = f"; {more}" if len(fields) > len(columns) else ""
            raise InvalidFile(f"{path}, line {number}: {found} ({', '.join(columns)}){why}")
        yield number, dict(zip(columns, map(_unquoted, fields) if quoted else fields, strict=True))


def with_header(path: Path) -> Iterator[Row]:
    """Yield the rows of a CSV or TSV file whose first line has names; lines with other numbers of fields are left out."""
    every = lines_of_fields(path)
    names = next(every, (1, []))[1]
    return (dict(zip(names, fields, strict=True)) for _, fields in every if len(fields) == len(names))


def _head(path: Path) -> tuple[int, list[str]]:
    """Return the number of the first line of a CSV or TSV file and its fields as names of columns; (1, []) if it has none."""
    number, values = next(lines_of_fields(path), (1, []))
    return number, _names(values)


def _names(values: Sequence[str]) -> list[str]:
    return [name.strip().strip('"').lower() for name in values]


def lines_of_fields(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the fields of each line of a CSV or TSV file that is not blank."""
    if ending(path) == ".csv":
        return _csv(path)
    return ((number, line.split("\t")) for number, line in text_lines(path) if line.strip())


def _may_be_header(head: Sequence[Sequence[str]]) -> bool:
    """Return whether the first line of *head* may have names: words, above ids with digits or above texts of several words."""
    first, *others = head
    if not others or not _WORD.fullmatch(first[0].strip()):
        return False
    above_ids = all(re.search(r"\d", fields[0]) for fields in others)
    above_texts = len(others) >= _FEW and all(" " in fields[-1].strip() for fields in others)
    return above_ids or (above_texts and all(re.fullmatch(r"\w+", field.strip()) for field in first))


def _unquoted(value: str) -> str:
    return value[1:-1].replace('""', '"') if _QUOTED.fullmatch(value) else value


def _csv(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV file, whose fields may have line ends. A line `sep=;` of Excel states what separates them."""
    csv.field_size_limit(_LONGEST_FIELD)
    begin = list(islice((line for _, line in text_lines(path) if line.strip()), _COMPARED))
    stated = _EXCEL.fullmatch(begin[0].strip("\r\n")) if begin else None
    mark = stated[1] if stated else _mark(begin)
    first = next((line for line in begin if not _EXCEL.fullmatch(line.strip("\r\n"))), "")
    blanks = 0 < first.count(mark) == first.count(f"{mark} ")  # "id, title, text": a blank behind each mark belongs to no field
    every = (f"{line}\n" for _, line in text_lines(path))
    reader = csv.reader(every, delimiter=mark, skipinitialspace=blanks, strict=True)
    number, skip = 1, stated is not None
    try:
        for values in reader:
            if any(value.strip() for value in values):
                if not skip:
                    yield number, values
                skip = False
            number = reader.line_num + 1
    except csv.Error as error:
        raise InvalidFile(f"{path}, line {number}: not CSV ({error}); is a quote not closed?") from None


def _mark(begin: Sequence[str]) -> str:
    """Return what separates the fields of the lines *begin*: the mark that all of them have, or else the first has most."""
    common = [mark for mark in _MARKS if all(mark in line for line in begin)]
    first = begin[0] if begin else ""
    return max(common or _MARKS, key=first.count)
