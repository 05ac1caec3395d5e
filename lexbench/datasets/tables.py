"""Rows of tables, with their columns by name: JSON lines, CSV, TSV and Parquet. Readers of records and judgements use it.

The first line of a CSV or TSV file is a header if it has the name of a known column. Without a header, the number of columns
decides what they are. A first line that looks like a header with unknown names is refused, because it could be read as data.
Errors are InvalidFile with the file and the line.
"""

import csv
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias

from lexbench.datasets.digests import utf8
from lexbench.errors import InvalidFile, require
from lexbench.storage.reading import lines

Row: TypeAlias = dict[str, Any]
Shapes: TypeAlias = Mapping[int, Sequence[str]]  # the names of the columns by their number, for files without a header

# Of files of data, before the ending of a compressor.
ENDINGS = (".jsonl", ".tsv", ".csv", ".parquet", ".txt", ".xml", ".trec", ".sgml")
_PARQUET_ROWS = 2048  # in memory at once
_LONGEST_FIELD = 1 << 28  # characters
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_WORD = re.compile(r"[^\W\d]+")  # a name of a column, or an id without digits
_COMPARED = 20  # ids with which the first one is compared


def rows(path: Path, shapes: Shapes, known: Collection[str], ids: Collection[str]) -> Iterator[tuple[int, Row]]:
    """Yield the number of the line, from 1, and the row of each line; of Parquet, the number of the row.

    *known* are the names that make the first line of a CSV or TSV file a header, of which it needs one of *ids*. Blank lines
    are skipped.
    """
    if ".parquet" in path.suffixes:
        return enumerate(_parquet(path), 1)
    return _json_lines(path) if ".jsonl" in path.suffixes else _separated(path, shapes, known, ids)


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line. Raises InvalidFile for a line that is not UTF-8."""
    for number, line in lines(path):
        try:
            yield number, line.decode().removesuffix("\r")
        except UnicodeDecodeError as error:
            how = f"convert the file, e.g.: iconv -f LATIN1 -t UTF-8 {path} > new{path.suffix}"
            raise InvalidFile(f"{path}, line {number}: not UTF-8 (byte {error.object[error.start]:#x}); {how}") from None


def _json_lines(path: Path) -> Iterator[tuple[int, Row]]:
    for number, line in text_lines(path):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except RecursionError:
            raise InvalidFile(f"{path}, line {number}: it is nested too deep") from None
        except ValueError as error:
            raise InvalidFile(f"{path}, line {number}: not JSON; is the file cut off? ({error})") from None
        if not isinstance(row, dict):
            raise InvalidFile(f'{path}, line {number}: not a JSON object like {{"_id": "d1", "text": "…"}}')
        if _SURROGATE.search(line):  # text decoded from UTF-8 has half of a surrogate pair only if JSON spells one
            row = {
                name: utf8(value).decode() if name in ("text", "title", "body", "url") else value for name, value in row.items()
            }
        yield number, row


def _parquet(path: Path) -> Iterator[Row]:
    require("reading Parquet", ["pyarrow"], "parquet")
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_PARQUET_ROWS):
                yield from batch.to_pylist()
    except (ArrowException, OSError) as error:
        raise InvalidFile(f"{path}: it does not read as Parquet ({str(error).partition(chr(10))[0]})") from None


def _separated(path: Path, shapes: Shapes, known: Collection[str], ids: Collection[str]) -> Iterator[tuple[int, Row]]:
    tabs = ((number, line.split("\t")) for number, line in text_lines(path) if line.strip())
    every = _csv(path) if ".csv" in path.suffixes else tabs
    head = list(islice(every, _COMPARED + 1))
    names = [name.strip().strip('"').lower() for name in head[0][1]] if head else []
    header = bool(set(names) & set(known))
    if header and not set(names) & set(ids):
        wanted = ", ".join(shapes[max(shapes)])
        raise InvalidFile(f"{path}, line 1: a header without a column of ids: {', '.join(names)}; known names: {wanted}")
    if header:
        head = head[1:]
    elif _may_be_header([values[0] for _, values in head]):
        raise InvalidFile(
            f"{path}, line 1: is this a header? Its names are unknown: {', '.join(names)}; "
            f"name the columns {' and '.join(next(iter(shapes.values())))}, or add such a line above it"
        )
    tabs_quoted = header and ".csv" not in path.suffixes  # pandas quotes some fields; files of MS MARCO have bare quotes
    for number, values in chain(head, every):
        columns = names if header else shapes.get(len(values), ())
        if len(columns) != len(values):
            wanted = str(len(names)) if header else " or ".join(f"{count} ({', '.join(of)})" for count, of in shapes.items())
            raise InvalidFile(f"{path}, line {number}: {len(values)} columns, not {wanted}")
        yield number, dict(zip(columns, map(_unquoted, values) if tabs_quoted else values, strict=True))


def _may_be_header(ids: Sequence[str]) -> bool:
    """Whether the first of *ids* is a word, and all others have digits."""
    first, *others = ids or [""]
    return bool(others and _WORD.fullmatch(first.strip()) and all(re.search(r"\d", other) for other in others))


def _unquoted(value: str) -> str:
    return value[1:-1].replace('""', '"') if _QUOTED.fullmatch(value) else value


def _csv(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a CSV file, whose fields may have line ends; the first line shows what separates them."""
    csv.field_size_limit(_LONGEST_FIELD)
    first = next((line for _, line in text_lines(path) if line.strip()), "")
    reader = csv.reader((f"{line}\n" for _, line in text_lines(path)), delimiter=max(",;\t", key=first.count), strict=True)
    number = 1
    try:
        for values in reader:
            if any(value.strip() for value in values):
                yield number, values
            number = reader.line_num + 1
    except csv.Error as error:
        raise InvalidFile(f"{path}, line {number}: not CSV ({error}); is a quote not closed?") from None
