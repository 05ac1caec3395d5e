"""Documents and queries, one per line, TREC's topics, and how the fields of a document become one text.

    corpus.jsonl, queries.jsonl     BEIR: {"_id": ..., "title": ..., "text": ...}; documents of MS MARCO also have "url" and
                                    "body". An integer is accepted as an id, null is an empty text.
    collection.tsv, queries.tsv     MS MARCO: id<TAB>text, id<TAB>title<TAB>text, or id<TAB>url<TAB>title<TAB>body
    topics.txt, topics.xml          TREC: SGML since 1992, whose tags are not closed, and later XML
        <top> <num> Number: 301 <title> International Organized Crime <desc> Description: ... </top>
        <topic number="1"> <query>coronavirus origin</query> <question>...</question> </topic>

Only a newline ends a line. Errors are InvalidFile with the file and the line. Fields are joined once, when a corpus is read, by
the policy of the contract. A document remembers where its body starts, for encoders that separate title and body.
"""

import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from lexbench.datasets.digests import utf8
from lexbench.errors import InvalidFile, shortened
from lexbench.storage.reading import lines
from lexbench.types import Document, Query

Fields = Mapping[str, str]  # `text`, `title`, `url`, `body`: those that the collection has
Policy = Literal["text", "title_text", "title_line_text", "url_title_body", "url_title_headings_body", "code"]

_LONGEST_ID = 1000  # bytes: arrays of ids are as wide as the longest id
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_COLUMNS = {2: ("text",), 3: ("title", "text"), 4: ("url", "title", "body")}  # of a TSV file, after the id
_NO_TITLE = "-"  # marks a passage without a title in the MS MARCO of RocketQA and Tevatron

_TOPIC = re.compile(r"<(top|topic)\b([^>]*)>(.*?)(?:</\1>|(?=<\1\b))", re.DOTALL | re.IGNORECASE)  # 1994: some not closed
_NUMBER = re.compile(r"<num>\s*(?:Number:)?\s*([^\s<]+)|\bnumber\s*=\s*[\"']([^\"']+)[\"']", re.IGNORECASE)
_TEXTS = [re.compile(rf"<{tag}>\s*(?:Topic:)?(.*?)(?:<|$)", re.DOTALL | re.IGNORECASE) for tag in ("title", "query")]


class Record(NamedTuple):
    """A document or query as it is in its file."""

    record_id: str
    fields: dict[str, str]


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a .jsonl or .tsv file, which may be compressed. The name decides; blank lines are skipped."""
    return (record for _, record in numbered_records(path))


def numbered_records(path: Path) -> Iterator[tuple[int, Record]]:
    """Yield the line number, from 1, and the record of each line, like `read_records`."""
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
    """Raise ValueError for an id that no run or qrels file can hold. White space is refused later, by the corpus."""
    if "\0" in record_id:
        raise ValueError(f"the id {record_id!r} has a NUL in it")
    if len(record_id.encode(errors="surrogatepass")) > _LONGEST_ID:
        raise ValueError(f"an id of {len(record_id):,} characters; there may be {_LONGEST_ID:,} bytes")


def _json_record(line: str) -> Record:
    fields = json.loads(line)
    if not isinstance(fields, dict):
        raise TypeError('not a JSON object like {"_id": "d1", "text": "…"}')
    record_id = fields["_id"]
    if isinstance(record_id, int) and not isinstance(record_id, bool):
        record_id = str(record_id)  # qrels write it the same way
    if not isinstance(record_id, str):
        raise TypeError(f"the _id {shortened(repr(record_id), 80)} is not a string")
    texts = {name: "" if value is None else value for name, value in fields.items() if isinstance(value, str | None)}
    if _SURROGATE.search(line):  # text decoded from UTF-8 has half of a surrogate pair only if JSON spells one
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


def read_queries(path: Path) -> Iterator[Query]:
    """Yield the queries of a .jsonl or .tsv file, in its order.

    Raises InvalidFile if one has no text or, in a TSV file, more columns than id and text.
    """
    for query_id, fields in read_records(path):
        if "text" not in fields:
            raise InvalidFile(f"{path}: query {query_id!r} has no text")
        if "title" in fields and ".jsonl" not in path.suffixes:
            raise InvalidFile(f"{path}: query {query_id!r} has more columns than id and text; keep the one to search for")
        yield Query(query_id, fields["text"])


def read_trec_topics(path: Path) -> Iterator[Query]:
    """Yield the topics of a file, in its order: the title of each topic or, if it has none, its query.

    A file that does not begin with a tag is read as lines of id<TAB>text, as Anserini writes topics. Raises InvalidFile if
    there is no topic, or one has no number or no text.
    """
    text = b"\n".join(line for _, line in lines(path)).decode(errors="surrogateescape")
    if not text.lstrip().startswith("<") and "\t" in text:
        yield from read_queries(path)
        return
    found = 0
    for topic in _TOPIC.finditer(text):
        found += 1
        where = f"{path}:{text.count(chr(10), 0, topic.start()) + 1}"
        number = _NUMBER.search(topic[3]) or _NUMBER.search(topic[2])
        words = next((match[1] for pattern in _TEXTS if (match := pattern.search(topic[3])) and match[1].strip()), "")
        if not number or not words:
            raise InvalidFile(f"{where}: a topic without a {'<title> or <query>' if number else 'number'}")
        yield Query((number[1] or number[2]).strip(), " ".join(html.unescape(words).split()))
    if not found:
        raise InvalidFile(f"{path}: there are no topics in it, neither <top> … </top> nor <topic number=…> … </topic>")


def title_text(fields: Fields) -> str:
    """Return title and text with a space between, like BEIR and Pyserini's "flat" indexes."""
    return f"{fields.get('title', '')} {fields['text']}".strip()


def title_line_text(fields: Fields) -> str:
    """Return the title on its own line, then the text: the same words, and the two can be separated again."""
    title = fields.get("title", "")
    return f"{title}\n{fields['text']}" if title else fields["text"]


def url_title_body(fields: Fields) -> str:
    """Return URL, title and body on lines of their own, like the TREC file that Anserini indexes."""
    return f"{fields.get('url', '')}\n{fields.get('title', '')}\n{fields['body']}"


def url_title_headings_body(fields: Fields) -> str:
    """Return URL, title, headings and body on lines of their own, in the order of MS MARCO's documents of 2021."""
    return "\n".join(fields.get(name, "") for name in ("url", "title", "headings", "body"))


POLICIES: Mapping[Policy, Callable[[Fields], str]] = {
    "text": lambda fields: fields["text"],
    "title_text": title_text,
    "title_line_text": title_line_text,
    "url_title_body": url_title_body,
    "url_title_headings_body": url_title_headings_body,
    "code": lambda fields: fields["code"],  # a function of CodeSearchNet
}
_BODIES: Mapping[Policy, str] = {
    "title_text": "text",
    "title_line_text": "text",
    "url_title_body": "body",
    "url_title_headings_body": "body",
}  # the field that is the body, for policies with titles


def document(doc_id: str, fields: Fields, policy: Policy) -> Document:
    """Return a document, its fields joined by *policy*. Raises KeyError for a field that the collection does not have."""
    joined = POLICIES[policy](fields)
    if policy not in _BODIES or not fields.get("title", "").strip():
        return Document(doc_id, joined)
    body = fields[_BODIES[policy]]
    ending = body if joined.endswith(body) else body.rstrip()  # a policy may strip the end
    return Document(doc_id, joined, len(joined) - len(ending))
