"""Topics of TREC, as its files have had them since 1992: SGML with tags that are not closed, later XML.

    <top> <num> Number: 301 <title> International Organized Crime <desc> Description: … </top>
    <topic number="1"> <query>coronavirus origin</query> <question>…</question> </topic>

A query is the topic's title or, where there is none, its query: what systems are given if nobody says otherwise. Where a file
begins with no tag its lines are read as `id<TAB>text`, as Anserini writes topics.
"""

import html
import re
from collections.abc import Iterator
from pathlib import Path

from lexbench.datasets.records import read_records
from lexbench.errors import InvalidFile
from lexbench.storage.reading import lines
from lexbench.types import Query

_TOPIC = re.compile(r"<(top|topic)\b([^>]*)>(.*?)(?:</\1>|(?=<\1\b))", re.DOTALL | re.IGNORECASE)  # 1994: some not closed
_NUMBER = re.compile(r"<num>\s*(?:Number:)?\s*([^\s<]+)|\bnumber\s*=\s*[\"']([^\"']+)[\"']", re.IGNORECASE)
_TEXTS = [re.compile(rf"<{tag}>\s*(?:Topic:)?(.*?)(?:<|$)", re.DOTALL | re.IGNORECASE) for tag in ("title", "query")]


def rows(path: Path) -> Iterator[Query]:
    """Yield the queries of a .jsonl or .tsv file, in its order.

    InvalidFile where one has no text, or, as titles and descriptions beside each other, more columns than id and text.
    """
    for query_id, fields in read_records(path):
        if "text" not in fields:
            raise InvalidFile(f"{path}: query {query_id!r} has no text")
        if "title" in fields and ".jsonl" not in path.suffixes:
            raise InvalidFile(f"{path}: query {query_id!r} has more columns than id and text; keep what is searched for")
        yield Query(query_id, fields["text"])


def topics(path: Path) -> Iterator[Query]:
    """Yield the topics of a file, in its order; InvalidFile where there is none, or one has no number or no text."""
    text = b"\n".join(line for _, line in lines(path)).decode(errors="surrogateescape")
    if not text.lstrip().startswith("<") and "\t" in text:
        yield from rows(path)
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
        raise InvalidFile(f"{path}: there are no topics in it, as <top> … </top> or <topic number=…> … </topic>")
