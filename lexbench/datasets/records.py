"""Documents, queries and judgements in files: their formats, and how the fields of a document become one text.

    tables (.jsonl, .csv, .tsv, .parquet)
        columns by name, e.g. _id, title, text; query-id, corpus-id, score. Without a header, CSV and TSV files have id, text;
        or id, title, text; or id, url, title, body. An integer is accepted as an id, null is an empty text.
    documents of TREC
        <DOC> <DOCNO> LA-1 </DOCNO> <HEADLINE> … </HEADLINE> <TEXT> … </TEXT> </DOC>
    topics of TREC: SGML since 1992, whose tags are not closed, and later XML
        <top> <num> Number: 301 <title> International Organized Crime <desc> Description: ... </top>
        <topic number="1"> <query>coronavirus origin</query> <question>...</question> </topic>

Only a newline ends a line. Errors are InvalidFile with the file and the line. Fields are joined once, when a corpus is read, by
the policy of the contract. A document remembers where its body starts, for encoders that separate title and body.
"""

import csv
import html
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from lexbench.datasets.digests import utf8
from lexbench.errors import InvalidFile, require, shortened
from lexbench.storage.reading import lines
from lexbench.trec import qrels
from lexbench.types import Document, Judgement, Query

Fields = Mapping[str, str]  # `text`, `title`, `url`, `body`: those that the collection has

Row: TypeAlias = dict[str, Any]
Shapes: TypeAlias = Mapping[int, Sequence[str]]  # the names of the columns by their number, for files without a header

_LONGEST_ID = 1000  # bytes: arrays of ids are as wide as the longest id
_SHAPES = {2: ("id", "text"), 3: ("id", "title", "text"), 4: ("id", "url", "title", "body")}  # of files without a header
_QRELS_SHAPES = {3: qrels.BEIR_HEADER, 4: (qrels.BEIR_HEADER[0], "0", *qrels.BEIR_HEADER[1:])}
_IDS = (
    *("_id", "id", "doc_id", "doc-id", "docid", "docno", "document_id", "corpus-id", "corpus_id", "pid"),
    *("query-id", "query_id", "qid", "topic_id"),
)
_TEXTS = ("text", "contents", "content", "body", "passage", "document", "query", "question", "abstract")
_KNOWN = {*_IDS, *_TEXTS, "title", "url", "headings", "code"}
_NO_TITLE = "-"  # marks a passage without a title in the MS MARCO of RocketQA and Tevatron

# of data files, without the ending of a compressed file
ENDINGS = (".jsonl", ".tsv", ".csv", ".parquet", ".txt", ".xml", ".trec", ".sgml")
_PARQUET_ROWS = 2048  # in memory at once
_LONGEST_FIELD = 1 << 28  # characters
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_WORD = re.compile(r"[^\W\d]+")  # a name of a column, or an id without digits
_COMPARED = 20  # ids to compare the first one with

_TOPIC = re.compile(r"<(top|topic)\b([^>]*)>(.*?)(?:</\1>|(?=<\1\b))", re.DOTALL | re.IGNORECASE)  # 1994: some not closed
_NUMBER = re.compile(r"<num>\s*(?:Number:)?\s*([^\s<]+)|\bnumber\s*=\s*[\"']([^\"']+)[\"']", re.IGNORECASE)
_TOPIC_TEXTS = [re.compile(rf"<{tag}>\s*(?:Topic:)?(.*?)(?:<|$)", re.DOTALL | re.IGNORECASE) for tag in ("title", "query")]
_DOCNO = re.compile(r"<DOCNO>\s*(.*?)\s*</DOCNO>", re.DOTALL | re.IGNORECASE)
_HEADLINES = re.compile(r"<(TITLE|HEADLINE|HL|TTL|TI)>(.*?)</\1>", re.DOTALL | re.IGNORECASE)
_BODY = re.compile(r"<TEXT>(.*?)</TEXT>", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


class Record(NamedTuple):
    """A document or query with the fields that its file has."""

    record_id: str
    fields: dict[str, str]


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a table, or of TREC's documents if a text file begins with a tag."""
    return (record for _, record in numbered_records(path))


def numbered_records(path: Path) -> Iterator[tuple[int, Record]]:
    """Yield the line number, from 1, and the record of each document or query, like `read_records`."""
    for number, row in _trec_documents(path) if _is_tagged(path) else rows(path, _SHAPES, _KNOWN, _IDS):
        try:
            yield number, record_of(row)
        except (ValueError, TypeError) as error:
            raise InvalidFile(f"{path}, line {number}: {error}") from None


def columns(path: Path) -> str:
    """Return the names of the columns of a table, e.g. "id, text"; "" for TREC's documents and topics. Reads the beginning."""
    if _is_tagged(path):
        return ""
    number, row = next(rows(path, _SHAPES, _KNOWN, _IDS), (1, {}))
    unread = [name for name in row if name not in _KNOWN]
    untitled = number == 1 and not {".jsonl", ".parquet"} & set(path.suffixes)
    parts = [*(name for name in row if name in _KNOWN), *(["no header"] if untitled else [])]
    return ", ".join(parts) + (f"; not read: {', '.join(unread)}" if unread else "")


def record_of(row: Row) -> Record:
    """Return the row of a table as a record: its id, and its texts, of which `text` may have another name.

    Raises TypeError or ValueError if it has no id, or one that no run or qrels file can hold.
    """
    name = next((name for name in _IDS if name in row), None)
    if name is None:
        raise ValueError(f"there is no '_id'; there is: {', '.join(map(str, row))}; expected: _id, text and optionally title")
    record_id = id_of(row[name])
    fields = {key: "" if value is None else value for key, value in row.items() if isinstance(value, str | None)}
    if "text" not in fields and (other := next((text for text in _TEXTS if text in fields and text != name), None)):
        fields["text"] = fields[other]
    if fields.get("title", "").strip() == _NO_TITLE:
        fields["title"] = ""
    return Record(record_id, fields)


def id_of(value: Any) -> str:
    """Return an id as text. White space in it is refused later, where ids of documents and queries are checked.

    Raises TypeError if it is neither text nor a whole number, and ValueError if no run or qrels file can hold it.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # qrels write it the same way
    if not isinstance(value, str):
        raise TypeError(f"the _id {shortened(repr(value), 80)} is not a string")
    if "\0" in value:
        raise ValueError(f"the id {value!r} has a NUL in it")
    if len(value) > _LONGEST_ID // 4 and len(value.encode(errors="surrogatepass")) > _LONGEST_ID:
        raise ValueError(f"an id of {len(value):,} characters; it may have at most {_LONGEST_ID:,} bytes")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the _id {value!r} is no text: it has half of a surrogate pair") from None
    return value


def read_queries(path: Path) -> Iterator[Query]:
    """Yield the queries of a table or of TREC's topics, in the order of the file. Raises InvalidFile if one has no text."""
    if _is_tagged(path) or (".txt" in path.suffixes and b"\t" not in _first_line(path)):
        yield from _trec_topics(path)
        return
    for number, (query_id, fields) in numbered_records(path):
        if "text" not in fields:
            raise InvalidFile(f"{path}, line {number}: query {query_id!r} has no text; it has: {', '.join(fields)}")
        if number == 1 and "title" in fields and not {".jsonl", ".parquet"} & set(path.suffixes):  # without a header
            raise InvalidFile(f"{path}: query {query_id!r} has more columns than id and text; keep the one to search for")
        yield Query(query_id, fields["text"])


# ---- tagged files of TREC --------------------------------------------------------------------------------------------------


def _is_tagged(path: Path) -> bool:
    """Return whether a text file begins with a tag."""
    if {".jsonl", ".parquet", ".csv"} & set(path.suffixes):
        return False
    return _first_line(path).startswith(b"<")


def _first_line(path: Path) -> bytes:
    return next((line for _, line in lines(path) if line.strip()), b"").strip()


def _trec_documents(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield each <DOC> of a file: its id, its title if there is one, and <TEXT>, or all other text without tags."""
    kept: list[str] = []
    start, inside, found = 1, False, False
    for number, line in text_lines(path):
        if not inside and "<doc>" in line.lower():
            start, inside, kept, found = number, True, [], True
        kept.append(line)
        if inside and "</doc>" in line.lower():
            text, inside = "\n".join(kept), False
            if (docno := _DOCNO.search(text)) is None:
                raise InvalidFile(f"{path}, line {start}: a <DOC> without <DOCNO>")
            title = next((match[2] for match in _HEADLINES.finditer(text)), "")
            bodies = _BODY.findall(text) or [_HEADLINES.sub("", _DOCNO.sub("", text))]
            yield start, {"_id": docno[1], "title": _plain(title), "text": _plain(" ".join(bodies))}
    if inside or not found:
        raise InvalidFile(f"{path}, line {start}: " + ("<DOC> without </DOC>" if found else "there is no <DOC> in it"))


def _plain(text: str) -> str:
    return " ".join(html.unescape(_TAG.sub(" ", text)).split())


def _trec_topics(path: Path) -> Iterator[Query]:
    """Yield the title of each topic or, if it has none, its query. Raises InvalidFile without a topic, number or text."""
    text = b"\n".join(line for _, line in lines(path)).decode(errors="surrogateescape")
    found = 0
    for topic in _TOPIC.finditer(text):
        found += 1
        where = f"{path}:{text.count(chr(10), 0, topic.start()) + 1}"
        number = _NUMBER.search(topic[3]) or _NUMBER.search(topic[2])
        words = next((match[1] for pattern in _TOPIC_TEXTS if (match := pattern.search(topic[3])) and match[1].strip()), "")
        if not number or not words:
            raise InvalidFile(f"{where}: a topic without a {'<title> or <query>' if number else 'number'}")
        yield Query((number[1] or number[2]).strip(), " ".join(html.unescape(words).split()))
    if not found:
        raise InvalidFile(f"{path}: there are no topics in it, neither <top> … </top> nor <topic number=…> … </topic>")


# ---- judgements ------------------------------------------------------------------------------------------------------------


def read_judgements(path: Path) -> Iterator[Judgement]:
    """Yield the judgements of a table or a TREC file, in its order. Raises InvalidFile with the number of a faulty line."""
    if not {".jsonl", ".csv", ".parquet"} & set(path.suffixes):
        yield from qrels.read_judgements(path, header=False)
        return
    for number, row in rows(path, _QRELS_SHAPES, qrels.COLUMNS, qrels.QUERY_IDS):
        try:
            yield judgement_of(row)
        except ValueError as error:
            raise InvalidFile(f"{path}, line {number}: {error}") from None


def judgement_of(row: Row) -> Judgement:
    """Return the row of a table as a judgement; without a grade it is 1. Raises ValueError if a column is missing or wrong."""
    names = [next((name for name in known if name in row), None) for known in (qrels.QUERY_IDS, qrels.DOC_IDS, qrels.GRADES)]
    query, document, grade = names
    if query is None or document is None:
        lacking = qrels.BEIR_HEADER[0 if query is None else 1]
        raise ValueError(
            f"a row has no column {lacking!r}; there is: {', '.join(map(str, row))}; expected: {', '.join(qrels.BEIR_HEADER)}"
        )
    return Judgement(id_of(row[query]), id_of(row[document]), parse_grade(row[grade]) if grade else 1)


def parse_grade(grade: Any) -> int:
    """Return *grade*, a number or its text, as an integer; 2.0 is 2. Raises ValueError if it is not whole."""
    try:
        number = float(grade)
        if number == int(number):
            return int(number)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(f"the grade {grade!r} is no whole number; grades must be whole numbers, e.g. 0, 1 or 2")


# ---- texts -----------------------------------------------------------------------------------------------------------------


def title_text(fields: Fields) -> str:
    """Return title and text with a space between, like BEIR and Pyserini's "flat" indexes."""
    return f"{fields.get('title', '')} {fields['text']}".strip()


_POLICIES: Mapping[str, tuple[Callable[[Fields], str], str]] = {  # how fields are joined; the body, if there is a title
    "text": (lambda fields: fields["text"], ""),
    "title_text": (title_text, "text"),
    # The words of title_text, and the two can be separated again.
    "title_line_text": (lambda of: f"{of['title']}\n{of['text']}" if of.get("title") else of["text"], "text"),
    # Like the TREC file of MS MARCO's documents that Anserini indexes; then those of 2021, with headings.
    "url_title_body": (lambda of: "\n".join([of.get("url", ""), of.get("title", ""), of["body"]]), "body"),
    "url_title_headings_body": (
        lambda of: "\n".join(of.get(name, "") for name in ("url", "title", "headings", "body")), "body",
    ),
    "code": (lambda fields: fields["code"], ""),  # a function of CodeSearchNet
}  # fmt: skip


def document(doc_id: str, fields: Fields, policy: str) -> Document:
    """Return a document, its fields joined by *policy*. Raises InvalidFile for a field that the collection does not have."""
    join, name = _POLICIES[policy]
    try:
        joined = join(fields)
    except KeyError as error:
        raise InvalidFile(f"document {doc_id!r} has no field {error}; it has: {', '.join(fields) or 'none'}") from None
    if not name or not fields.get("title", "").strip():
        return Document(doc_id, joined)
    body = fields[name]
    ending = body if joined.endswith(body) else body.rstrip()  # a policy may strip the end
    return Document(doc_id, joined, len(joined) - len(ending))


# ---- rows of tables, with their columns by name: JSON lines, CSV, TSV and Parquet -------------------------------------------


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
        if _SURROGATE.search(line):  # only an escape of JSON can give half of a surrogate pair
            row = {
                name: utf8(value).decode() if name in ("text", "title", "body", "url") else value for name, value in row.items()
            }
        yield number, row


def _parquet(path: Path) -> Iterator[Row]:
    with parquet_file(path) as file:
        for batch in file.iter_batches(batch_size=_PARQUET_ROWS):
            yield from batch.to_pylist()


@contextmanager
def parquet_file(path: Path) -> Iterator[Any]:
    """Open a Parquet file with pyarrow. Raises InvalidFile, also during reading, if it is damaged or of another format."""
    require("reading Parquet", ["pyarrow"], "parquet")
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            yield file
    except (ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidFile(f"{path}: it is not a Parquet file, or a damaged one ({reason})") from None


def _separated(path: Path, shapes: Shapes, known: Collection[str], ids: Collection[str]) -> Iterator[tuple[int, Row]]:
    """Yield the rows of a CSV or TSV file; *shapes* are for files whose first line has no known name.

    A first line that looks like a header with unknown names is refused, because it could be read as data.
    """
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
            raise InvalidFile(f"{path}, line {number}: {len(values)} column{'s' * (len(values) != 1)}, not {wanted}")
        yield number, dict(zip(columns, map(_unquoted, values) if tabs_quoted else values, strict=True))


def _may_be_header(ids: Sequence[str]) -> bool:
    """Return whether the first of *ids* is a word and all others have digits."""
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
