"""Documents, queries and judgements in files: their formats, and how the fields of a document become one text.

    tables (.jsonl, .json, .csv, .tsv, .parquet, .arrow)
        columns by name, e.g. _id, title, text; query-id, corpus-id, score. Without a header, CSV and TSV files have id, text;
        or id, title, text; or id, url, title, body. An integer is accepted as an id, null is an empty text. A JSON file may
        also be an object {id: text} or {id: {"title": ..., "text": ...}}, or by split, {"test": {...}}.
    documents of TREC
        <DOC> <DOCNO> LA-1 </DOCNO> <HEADLINE> … </HEADLINE> <TEXT> … </TEXT> </DOC>
    topics of TREC: SGML since 1992, whose tags are not closed, and later XML
        <top> <num> Number: 301 <title> International Organized Crime <desc> Description: ... </top>
        <topic number="1"> <query>coronavirus origin</query> <question>...</question> </topic>

Only a newline ends a line. Errors are InvalidFile with the file and the line. Fields are joined once, when a corpus is read, by
the policy of the contract. A document remembers where its body starts, for encoders that separate title and body. Judgements
are read by `lexbench.trec.qrels`.
"""

import html
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from lexbench.datasets.stated_columns import IDS, NONE, TEXTS, Columns
from lexbench.datasets.text_files import read_texts, text_ending, visible_files
from lexbench.errors import InvalidFile
from lexbench.storage import rows as tables
from lexbench.storage.reading import lines
from lexbench.storage.rows import MissingColumns, NoColumn, Row, TableColumns, ending, is_frame, part_of_split, text_lines
from lexbench.trec.ids import id_of
from lexbench.trec.qrels import BEIR_HEADER, COLUMNS, QUERY_IDS, by_query, is_table
from lexbench.types import Document, Query

Fields = Mapping[str, str]  # `text`, `title`, `url`, `body`: those that the collection has

_SHAPES = {2: ("id", "text"), 3: ("id", "title", "text"), 4: ("id", "url", "title", "body")}  # of files without a header
_KNOWN = {*IDS, *TEXTS, "title", "url", "headings", "code", "instruction"}
_SPLIT = re.compile(r"(train|dev|test|val|valid|validation|eval|default|all)\b", re.IGNORECASE)
_SAMPLE = 1000  # rows that guesses about columns look at
_NO_TITLE = "-"  # marks a passage without a title in the MS MARCO of RocketQA and Tevatron

ENDINGS = (*tables.TABLES, ".txt", ".xml", ".trec", ".sgml")  # of data files, without the ending of a compressed file

_TOPIC = re.compile(r"<(top|topic)\b([^>]*)>(.*?)(?:</\1>|(?=<\1\b))", re.DOTALL | re.IGNORECASE)  # 1994: some not closed
_NUMBERED = "(?:num|number|id|identifier|qid)"  # an element or an attribute of a topic: TREC's, Touché's and CLEF's
_NUMBER = re.compile(rf"<{_NUMBERED}>\s*(?:Number:)?\s*([^\s<]+)", re.IGNORECASE)
_ATTRIBUTE = re.compile(rf"\b{_NUMBERED}\s*=\s*[\"']([^\"']+)[\"']", re.IGNORECASE)
_TOPIC_TEXTS = [  # a closed element may have others in it; the SGML of TREC does not close them, and the next tag ends the text
    re.compile(rf"<{tag}\b[^>]*>\s*(?:Topic:)?(?:(.*?)</{tag}>|([^<]*))", re.DOTALL | re.IGNORECASE)
    for tag in ("title", "query")
]
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_DOC, _END_OF_DOC = re.compile(r"(?i)<DOC((?:\s[^<>]*)?)>"), re.compile(r"(?i)</DOC>")
_DOC_ID = re.compile(r"(?i)\bid\s*=\s*[\"']([^\"']+)[\"']")  # an attribute, as in Gigaword
_UNREAD = re.compile(r"<(DOCHDR|SCRIPT|STYLE)\b.*?</\1\s*>|<!--.*?-->", re.DOTALL | re.IGNORECASE)  # of web pages
_DOCNO = re.compile(r"<DOCNO>\s*(.*?)\s*</DOCNO>", re.DOTALL | re.IGNORECASE)
_HEADLINES = re.compile(r"<(TITLE|HEADLINE|HL|TTL|TI)>(.*?)</\1>", re.DOTALL | re.IGNORECASE)
_BODY = re.compile(r"<TEXT>(.*?)</TEXT>", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


class Record(NamedTuple):
    """A document or query with the fields that its file has."""

    record_id: str
    fields: dict[str, str]


def _table(split: str | None = None, stated: Columns = NONE) -> TableColumns:
    """Return what is known about tables of documents and queries."""
    return TableColumns(_SHAPES, {*_KNOWN, *stated.names()}, {*IDS, *stated.names()}, partial(by_id, split=split))


def read_records(path: Path, split: str | None = None, stated: Columns = NONE) -> Iterator[Record]:
    """Yield the records of a table, or of TREC's documents if a text file begins with a tag.

    *split* chooses one of several splits in a JSON file. *stated* names columns of a table.
    """
    return (record for _, record in numbered_records(path, split, stated))


def numbered_records(path: Path, split: str | None = None, stated: Columns = NONE) -> Iterator[tuple[int, Record]]:
    """Yield the line number, from 1, and the record of each document or query, like `read_records`.

    *path* may also be a folder of text files, which have numbers, too.
    """
    if path.is_dir():
        yield from (
            (number, Record(name, {"title": title, "text": text}))
            for number, (name, title, text) in enumerate(read_texts(path), 1)
        )
        return
    tagged = _is_tagged(path)
    for number, row in _trec_documents(path) if tagged else tables.rows(path, _table(split, stated)):
        try:
            yield number, record_of(row if tagged else stated.renamed(row))
        except (ValueError, TypeError) as error:
            raise tables.row_error(path, number, error) from None


def by_id(texts: Mapping[str, Any], split: str | None = None, part: str = "records") -> Iterator[Row]:
    """Yield a row for each record in a mapping {id: text}, {id: {"title": ..., "text": ...}}, or either of these by split.

    Raises TypeError or ValueError for anything else; *part* names the mapping.
    """
    if is_by_split(texts):
        of_split = part_of_split(part, texts, split)
        if not isinstance(of_split, Mapping):  # rows
            yield from of_split
            return
        texts = of_split
    for name, value in texts.items():
        if not isinstance(value, Mapping | str | None):
            raise TypeError(f"{part}: the text of {name!r} is {type(value).__name__}; write a text, or a mapping with a text")
        yield {"_id": name, **(value if isinstance(value, Mapping) else {"text": value})}


def is_by_split(texts: Mapping[str, Any], splits: Collection[str] = ()) -> bool:
    """Return whether a mapping has records by split: mappings by id, data frames or rows; *splits* are known names."""
    # {"test": {"q1": "words"}} is by split, and {"q1": {"words": "why"}} is a query without a text: only the names differ.
    of_texts = any(isinstance(one, str) for value in texts.values() if isinstance(value, Mapping) for one in value.values())
    named = not of_texts or all(name in splits or _SPLIT.match(str(name)) for name in texts)
    return bool(texts) and named and all(map(_are_records, texts.values()))


def _are_records(value: Any) -> bool:
    if isinstance(value, Mapping):
        return bool(value) and not _KNOWN & {str(name).lower() for name in value} and all(map(_is_record, value.values()))
    return is_frame(value) or (
        isinstance(value, list | tuple) and bool(value) and all(isinstance(one, Mapping) for one in value)
    )


def _is_record(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, Mapping) and bool({str(name).lower() for name in value} & _KNOWN))


def columns(path: Path, stated: Columns = NONE) -> str:
    """Return the names of the columns of a table, e.g. "id, text"; "" for TREC's documents and topics. Reads the beginning.

    Of a folder of text files it returns their number, and that of other files.
    """
    if path.is_dir():
        every = [bool(text_ending(file)) for file in visible_files(path)]
        texts, more = sum(every), every.count(False)
        return f"{texts:,} text file{'s' * (texts != 1)}" + (f"; not read: {more:,} other" if more else "")
    if _is_tagged(path):
        return ""
    _, row = next(tables.rows(path, _table(stated=stated)), (1, {}))
    known = _KNOWN | stated.names()
    others = {name for names in (IDS, TEXTS) for name in [name for name in names if name in row][1:]}
    unread = [name for name in row if name not in known or name in others]
    untitled = not tables.has_header(path, _table(stated=stated))
    parts = [*(name for name in row if name not in unread), *(["no header"] if untitled else [])]
    return (", ".join(parts) or "no known column") + (f"; not read: {', '.join(unread)}" if unread else "")


def sample(path: Path, kind: str, stated: Columns = NONE) -> list[Row]:
    """Return the first rows of a table of that *kind*, as its file has them; [] for other formats and damaged files.

    If the first line of a CSV or TSV file has no known name, it counts as the header.
    """
    if ending(path) not in tables.TABLES:
        return []
    judged = TableColumns({len(BEIR_HEADER): BEIR_HEADER}, {*COLUMNS, *stated.names()}, {*QUERY_IDS, *stated.names()}, by_query)
    table = judged if kind == "judgements" else _table(stated=stated)
    try:
        return [row for _, row in islice(tables.rows(path, table), _SAMPLE)]
    except MissingColumns:
        return list(islice(tables.with_header(path), _SAMPLE))
    except InvalidFile:
        return []


def record_of(row: Row) -> Record:
    """Return the row of a table as a record: its id, and its texts, of which `text` may have another name.

    Raises TypeError or ValueError if it has no id, or one that no run or qrels file can hold.
    """
    name = next((name for name in IDS if name in row), None)
    if name is None:
        raise NoColumn(f"there is no '_id'; there is: {', '.join(map(str, row))}; expected: _id, text and optionally title")
    record_id = id_of(row[name])
    fields = {key: "" if value is None else value for key, value in row.items() if isinstance(value, str | None)}
    for wrong in ("text", "title", "instruction"):
        if wrong in row and wrong not in fields and str(row[wrong]) != "nan":  # pandas' missing value
            raise TypeError(f"the {wrong} of {record_id!r} is {type(row[wrong]).__name__}; it must be a text")
    if "text" not in fields and (other := next((text for text in TEXTS if text in fields and text != name), None)):
        fields["text"] = fields[other]
    if fields.get("title", "").strip() == _NO_TITLE:
        fields["title"] = ""
    return Record(record_id, fields)


def query_of(query_id: str, fields: Fields) -> Query:
    """Return the query of a record: its text, or else its title, as in TREC. Raises MissingColumns if it has neither."""
    text = fields.get("text", fields.get("title"))
    if text is None:
        raise MissingColumns(f"query {query_id!r} has no text; it has: {', '.join(fields) or 'nothing'}")
    return Query(query_id, text, fields.get("instruction", "").strip())


def read_instructions(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the id of a query and its instruction for each row of a table."""
    for number, (query_id, fields) in numbered_records(path):
        if "instruction" not in fields:
            raise InvalidFile(f"{path}, line {number}: no instruction of {query_id!r}; it has: {', '.join(fields) or 'an id'}")
        yield query_id, fields["instruction"].strip()


def read_queries(path: Path, split: str | None = None, stated: Columns = NONE) -> Iterator[Query]:
    """Yield the queries of a table or of TREC's topics, in the order of the file. Raises InvalidFile if one has no text."""
    if _is_tagged(path) or (".txt" in path.suffixes and b"\t" not in _first_line(path)):
        yield from _trec_topics(path)
        return
    titles = tables.has_header(path, _table(split, stated))
    for number, (query_id, fields) in numbered_records(path, split, stated):
        if "title" in fields and not titles:
            raise InvalidFile(f"{path}: query {query_id!r} has more columns than id and text; keep the one to search for")
        try:
            yield query_of(query_id, fields)
        except MissingColumns as error:
            raise MissingColumns(f"{path}, line {number}: {error}") from None


# ---- tagged files of TREC --------------------------------------------------------------------------------------------------


def _is_tagged(path: Path) -> bool:
    """Return whether a text file begins with a tag."""
    return not is_table(path) and _first_line(path).startswith(b"<")


def has_trec_documents(path: Path) -> bool:
    """Return whether a file of any name begins with a document of TREC; False if it cannot be read."""
    with suppress(InvalidFile, OSError):
        return path.is_file() and _DOC.match(_first_line(path).decode(errors="replace")) is not None
    return False


def is_data(path: Path) -> bool:
    """Return whether a file with the ending .txt is a table or a file of TREC; else it is one text."""
    return _is_tagged(path) or b"\t" in _first_line(path)


def _first_line(path: Path) -> bytes:
    return next((line for _, line in lines(path) if line.strip()), b"").strip()


def _trec_documents(path: Path) -> Iterator[tuple[int, Row]]:
    """Yield each <DOC> of a file: its id, its title if there is one, and <TEXT>, or all other text without tags."""
    kept: list[str] = []
    start, attributes, found = 1, "", False
    inside = False
    for number, line in text_lines(path):
        rest = line
        while found_mark := (_END_OF_DOC if inside else _DOC).search(rest):
            if inside:
                yield start, _trec_document("\n".join([*kept, rest[: found_mark.start()]]), attributes, f"{path}, line {start}")
            else:
                start, attributes, kept, found = number, found_mark[1], [], True
            inside, rest = not inside, rest[found_mark.end() :]
        kept.append(rest)
    if inside or not found:
        raise InvalidFile(f"{path}, line {start}: " + ("<DOC> without </DOC>" if found else "there is no <DOC> in it"))


def _trec_document(text: str, attributes: str, where: str) -> Row:
    """Return the row of a <DOC> with this *text* and *attributes*. Raises InvalidFile, which says *where*, if it has no id."""
    text = _UNREAD.sub(" ", text)
    docno = _DOCNO.search(text) or _DOC_ID.search(attributes)
    if docno is None:
        raise InvalidFile(f"{where}: a <DOC> without <DOCNO>")
    title = next((match[2] for match in _HEADLINES.finditer(text)), "")
    bodies = _BODY.findall(text) or [_HEADLINES.sub("", _DOCNO.sub("", text))]
    return {"_id": docno[1], "title": _plain(title), "text": _plain(" ".join(bodies))}


def _plain(text: str) -> str:
    return " ".join(html.unescape(_TAG.sub(" ", text)).split())


def _trec_topics(path: Path) -> Iterator[Query]:
    """Yield the title of each topic or, if it has none, its query, or its text if it has no elements.

    Raises InvalidFile if there are no topics, one has no number or text, or the file is not UTF-8 or defines entities.
    """
    text = "\n".join(line for _, line in text_lines(path))
    if "<!ENTITY" in text:
        raise InvalidFile(f"{path}: it defines entities (<!ENTITY …>), which are not read; write their texts in their places")
    text = _COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text)  # lines keep their numbers
    text = _CDATA.sub(lambda match: html.escape(match[1]), text)
    found = 0
    for topic in _TOPIC.finditer(text):
        found += 1
        where = f"{path}:{text.count(chr(10), 0, topic.start()) + 1}"
        number = _NUMBER.search(topic[3]) or _ATTRIBUTE.search(topic[2])
        texts = [match[1] or match[2] or "" for pattern in _TOPIC_TEXTS if (match := pattern.search(topic[3]))]
        whole = [] if "<" in topic[3] else [topic[3]]  # e.g. of TREC Clinical Trials
        words = next(filter(None, map(_plain, [*texts, *whole])), "")
        if not number or not words:
            raise InvalidFile(f"{where}: a topic without a {'<title> or <query>' if number else 'number'}")
        yield Query(number[1].strip(), words)
    if not found:
        table = "; in a table, a tab separates id and text" if "<" not in text else ""
        raise InvalidFile(f"{path}: there are no topics in it, neither <top> … </top> nor <topic number=…> … </topic>{table}")


# ---- texts -----------------------------------------------------------------------------------------------------------------


def title_text(fields: Fields) -> str:
    """Return title and text with a space between, like BEIR and Pyserini's "flat" indexes."""
    return f"{fields.get('title', '')} {fields['text']}".strip()


_POLICIES: Mapping[str, tuple[Callable[[Fields], str], str]] = {  # how fields are joined; the body, if there is a title
    "text": (lambda fields: fields["text"], ""),
    "title_text": (title_text, "text"),
    # The words of title_text, and the two can be separated again.
    "title_line_text": (lambda one: f"{one['title']}\n{one['text']}" if one.get("title") else one["text"], "text"),
    # Like the TREC file of MS MARCO's documents that Anserini indexes; then those of 2021, with headings.
    "url_title_body": (lambda fields: "\n".join([fields.get("url", ""), fields.get("title", ""), fields["body"]]), "body"),
    "url_title_headings_body": (
        lambda fields: "\n".join(fields.get(name, "") for name in ("url", "title", "headings", "body")), "body",
    ),
    "code": (lambda fields: fields["code"], ""),  # a function of CodeSearchNet
}  # fmt: skip


def documents(records: Iterable[Record], policy: str) -> Iterator[Document]:
    """Yield the documents of *records*, in order, their fields joined by *policy*.

    Without the field text, a title is all that a document has. Raises MissingColumns for a record that has neither, and if no
    record has a text, but one has a field of an unknown name that may be its text.
    """
    unread: MissingColumns | None = None
    texts = False
    for doc_id, fields in records:
        texts = texts or "text" in fields
        if "text" not in fields and policy.startswith("title_") and fields.get("title", "").strip():
            if unread is None and fields.keys() - _KNOWN:
                unread = _no_field(doc_id, "'text'", fields)
            yield document(doc_id, {**fields, "text": ""}, policy)
        else:
            yield document(doc_id, fields, policy)
    if unread and not texts:
        raise unread


def document(doc_id: str, fields: Fields, policy: str) -> Document:
    """Return a document, its fields joined by *policy*. Raises MissingColumns for a field that the collection does not have."""
    join, name = _POLICIES[policy]
    try:
        joined = join(fields)
    except KeyError as error:
        raise _no_field(doc_id, str(error), fields) from None
    if not name or not fields.get("title", "").strip():
        return Document(doc_id, joined)
    body = fields[name]
    end = body if joined.endswith(body) else body.rstrip()  # a policy may strip the end
    return Document(doc_id, joined, len(joined) - len(end))


def _no_field(doc_id: str, name: str, fields: Fields) -> MissingColumns:
    return MissingColumns(f"document {doc_id!r} has no field {name}; it has: {', '.join(fields) or 'none'}")
