"""Reading the documents and queries of the field's line formats, plain or .gz, one line at a time.

    corpus.jsonl, queries.jsonl     BEIR: {"_id": ..., "title": ..., "text": ...}; of MS MARCO documents also "url" and "body"
    collection.tsv, queries.tsv     MS MARCO: id<TAB>text, id<TAB>title<TAB>text, or id<TAB>url<TAB>title<TAB>body

Only a newline ends a line, whatever else Unicode has. InvalidFile names the file and the line.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lexbench.errors import InvalidFile
from lexbench.storage.reading import lines

_COLUMNS = {2: ("text",), 3: ("title", "text"), 4: ("url", "title", "body")}  # of a TSV file, after the id
_NO_TITLE = "-"  # what RocketQA's and Tevatron's titled MS MARCO has where a passage has none


class Record(NamedTuple):
    """A document or query as its file has it."""

    record_id: str
    fields: dict[str, str]


def records(path: Path) -> Iterator[Record]:
    """Yield the records of a .jsonl or .tsv file (the name decides), plain or .gz."""
    read = _json_record if ".jsonl" in path.suffixes else _tsv_record
    for number, line in lines(path):
        try:
            text = line.decode().rstrip("\r")
            if text.strip():
                yield read(text)
        except KeyError as error:
            raise InvalidFile(f"{path}, line {number}: there is no {error}") from None
        except (ValueError, TypeError) as error:
            raise InvalidFile(f"{path}, line {number}: {error}") from None


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
