"""Documents and queries as the field's files have them, one a line, and how a document's fields become one text.

    corpus.jsonl, queries.jsonl     BEIR: {"_id": ..., "title": ..., "text": ...}; of MS MARCO documents also "url" and "body";
                                    a whole number is an id, too, and null an empty text
    collection.tsv, queries.tsv     MS MARCO: id<TAB>text, id<TAB>title<TAB>text, or id<TAB>url<TAB>title<TAB>body

Only a newline ends a line, whatever else Unicode has. InvalidFile names the file and the line. Fields are joined once, when a
corpus is read, by the contract's policy. What is kept of the title is where the body starts, for encoders that put something
of their own between the two.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from lexbench.datasets.digests import utf8
from lexbench.errors import InvalidFile, shortened
from lexbench.storage.reading import lines
from lexbench.types import Document

Fields = Mapping[str, str]  # `text`, `title`, `url`, `body`, as far as the collection has them
Policy = Literal["text", "title_text", "title_line_text", "url_title_body", "url_title_headings_body", "code"]

_LONGEST_ID = 1000  # bytes: arrays of ids are as wide as the longest
_HALVES = re.compile(r"\\u[dD][89a-fA-F]")
_COLUMNS = {2: ("text",), 3: ("title", "text"), 4: ("url", "title", "body")}  # of a TSV file, after the id
_NO_TITLE = "-"  # what RocketQA's and Tevatron's titled MS MARCO has where a passage has none


class Record(NamedTuple):
    """A document or query as its file has it."""

    record_id: str
    fields: dict[str, str]


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a .jsonl or .tsv file (the name decides), plain or .gz; blank lines are passed over."""
    return (record for _, record in numbered_records(path))


def numbered_records(path: Path) -> Iterator[tuple[int, Record]]:
    """Yield the number of a line, from 1, and its record, as `read_records`."""
    parse = _json_record if ".jsonl" in path.suffixes else _tsv_record
    for number, line in lines(path):
        try:
            text = line.decode().rstrip("\r")
            if text.strip():
                record = parse(text)
                _check_id(record.record_id)
                yield number, record
        except KeyError as error:
            raise InvalidFile(f"{path}, line {number}: there is no {error}") from None
        except RecursionError:
            raise InvalidFile(f"{path}, line {number}: it is nested too deep") from None
        except (ValueError, TypeError) as error:
            raise InvalidFile(f"{path}, line {number}: {error}") from None


def _check_id(record_id: str) -> None:
    """Raise ValueError for an id that no file of runs or judgements could have; white space is the corpus's to refuse."""
    if "\0" in record_id:
        raise ValueError(f"the id {record_id!r} has a NUL in it")
    if len(record_id.encode(errors="surrogatepass")) > _LONGEST_ID:
        raise ValueError(f"an id of {len(record_id):,} characters; there may be {_LONGEST_ID:,} bytes")


def _json_record(line: str) -> Record:
    fields = json.loads(line)
    if not isinstance(fields, dict):
        raise TypeError('it is no table, as {"_id": "d1", "text": "…"}')
    record_id = fields["_id"]
    if isinstance(record_id, int) and not isinstance(record_id, bool):
        record_id = str(record_id)  # judgements can mean nothing else
    if not isinstance(record_id, str):
        raise TypeError(f"the _id {shortened(repr(record_id), 80)} is not a string")
    texts = {name: "" if value is None else value for name, value in fields.items() if isinstance(value, str | None)}
    if _HALVES.search(line):  # what was decoded from UTF-8 can have half of a surrogate pair only where JSON spells one
        if utf8(record_id) != record_id.encode(errors="surrogatepass"):
            raise ValueError(f"the _id {record_id!r} is no text: it has half of a surrogate pair")
        texts = {name: utf8(value).decode() for name, value in texts.items()}
    return Record(record_id, texts)


def _tsv_record(line: str) -> Record:
    record_id, *values = line.split("\t")
    if len(values) + 1 not in _COLUMNS:
        raise ValueError(f"{len(values) + 1} columns, not 2 (id, text), 3 (id, title, text) or 4 (id, url, title, body)")
    fields = dict(zip(_COLUMNS[len(values) + 1], values, strict=True))
    if fields.get("title", "").strip() == _NO_TITLE:
        fields["title"] = ""
    return Record(record_id, fields)


def text(fields: Fields) -> str:
    """Return the text alone, whatever title there is."""
    return fields["text"]


def title_text(fields: Fields) -> str:
    """Return title and text with a space between, as BEIR and Pyserini's "flat" indexes do."""
    return f"{fields.get('title', '')} {fields['text']}".strip()


def title_line_text(fields: Fields) -> str:
    """Return the title on a line of its own, then the text: to words the same as a space, and it can be told apart again."""
    title = fields.get("title", "")
    return f"{title}\n{fields['text']}" if title else fields["text"]


def url_title_body(fields: Fields) -> str:
    """Return URL, title and body on lines of their own, as the TREC file that Anserini indexes has them."""
    return f"{fields.get('url', '')}\n{fields.get('title', '')}\n{fields['body']}"


def url_title_headings_body(fields: Fields) -> str:
    """Return URL, title, headings and body on lines of their own, the order of the fields in MS MARCO's documents of 2021."""
    return "\n".join(fields.get(name, "") for name in ("url", "title", "headings", "body"))


def code(fields: Fields) -> str:
    """Return a function as its file has it, of CodeSearchNet."""
    return fields["code"]


POLICIES: Mapping[Policy, Callable[[Fields], str]] = {
    "text": text,
    "title_text": title_text,
    "title_line_text": title_line_text,
    "url_title_body": url_title_body,
    "url_title_headings_body": url_title_headings_body,
    "code": code,
}
_BODIES: Mapping[Policy, str] = {
    "title_text": "text",
    "title_line_text": "text",
    "url_title_body": "body",
    "url_title_headings_body": "body",
}  # the field that is the body, of policies with titles


def document(doc_id: str, fields: Fields, policy: Policy) -> Document:
    """Return a document, its fields joined by *policy*; KeyError for a field that the collection does not have."""
    joined = POLICIES[policy](fields)
    if policy not in _BODIES or not fields.get("title", "").strip():
        return Document(doc_id, joined)
    body = fields[_BODIES[policy]]
    ending = body if joined.endswith(body) else body.rstrip()  # a policy may strip the end
    return Document(doc_id, joined, len(joined) - len(ending))
