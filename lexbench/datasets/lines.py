"""Reading the line formats of the field, plain or .gz, one line at a time.

    corpus.jsonl, queries.jsonl     BEIR: {"_id": ..., "title": ..., "text": ...}; of MS MARCO documents also "url" and "body"
    collection.tsv, queries.tsv     MS MARCO: id<TAB>text, id<TAB>title<TAB>text, or id<TAB>url<TAB>title<TAB>body
    qrels                           BEIR: query-id<TAB>corpus-id<TAB>score, with that header; TREC: query 0 document grade

Only a newline ends a line, whatever else Unicode has. InvalidFile names the file and the line.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lexbench.errors import InvalidFile
from lexbench.types import Judgement

_COLUMNS = {2: ("text",), 3: ("title", "text"), 4: ("url", "title", "body")}  # of a TSV file, after the id
_NO_TITLE = "-"  # what RocketQA's and Tevatron's titled MS MARCO has where a passage has none
_BEIR_HEADER = ["query-id", "corpus-id", "score"]


class Record(NamedTuple):
    """A document or query as its file has it."""

    record_id: str
    fields: dict[str, str]


def records(path: Path) -> Iterator[Record]:
    """Yield the records of a .jsonl or .tsv file (the name decides), plain or .gz."""
    read = _json_record if ".jsonl" in path.suffixes else _tsv_record
    for number, line in _lines(path):
        try:
            yield read(line)
        except KeyError as error:
            raise InvalidFile(f"{path}, line {number}: there is no {error}") from None
        except (ValueError, TypeError) as error:
            raise InvalidFile(f"{path}, line {number}: {error}") from None


def judgements(path: Path) -> Iterator[Judgement]:
    """Yield the judgements of a qrels file with three columns (BEIR) or four (TREC), plain or .gz."""
    for number, line in _lines(path):
        columns = line.split()
        if number == 1 and columns == _BEIR_HEADER:
            continue
        try:
            if len(columns) == 3:  # noqa: PLR2004 - the format
                query_id, doc_id, grade = columns
            else:
                query_id, _iteration, doc_id, grade = columns
            yield Judgement(query_id, doc_id, int(grade))
        except ValueError as error:
            wanted = "'query document grade' or 'query 0 document grade'"
            raise InvalidFile(f"{path}, line {number}: not {wanted} ({error})") from None


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line numbers and lines that are not blank."""
    open_text = gzip.open if path.suffix == ".gz" else open
    try:
        with open_text(path, "rt", encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InvalidFile(f"{path} does not read: {error}") from None


def _json_record(line: str) -> Record:
    fields = json.loads(line)
    record_id = fields["_id"]
    if not isinstance(record_id, str):
        raise TypeError(f"the _id {record_id!r} is not a string")
    return Record(record_id, {name: value for name, value in fields.items() if isinstance(value, str)})


def _tsv_record(line: str) -> Record:
    record_id, *values = line.split("\t")
    if len(values) + 1 not in _COLUMNS:
        raise ValueError(f"{len(values) + 1} columns, not 2 (id, text), 3 (id, title, text) or 4 (id, url, title, body)")
    fields = dict(zip(_COLUMNS[len(values) + 1], values, strict=True))
    if fields.get("title", "").strip() == _NO_TITLE:
        fields["title"] = ""
    return Record(record_id, fields)
