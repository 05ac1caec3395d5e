"""Passages of long documents: a corpus whose documents are windows of another corpus.

A passage is a window of a number of tokens, words or sentences. The next one begins *stride* of them later, and the last one is
the first that reaches the end. The id of a passage is the id of its document, `#` and its number from 0, as in MS MARCO's
segmented collections ("D1555982#0"). In addition to the files of a corpus (`lexbench.datasets.corpus`), the folder has

    documents.npy   int32 (passages,): the position of the document of each passage, ascending

Sentences are found by rule, in any script that marks their end.
"""

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.datasets.corpus import StoredCorpus, write_corpus
from lexbench.errors import LexbenchError
from lexbench.plugins import TokenSpans
from lexbench.types import Corpus, Document

DOCUMENTS = "documents.npy"
TITLES = ("first", "each")
_DOCUMENTS_AT_ONCE = 64
_IDS_AT_ONCE = 1 << 16
_WORD = re.compile(r"\S+")

Units = Callable[[Sequence[str]], Sequence[TokenSpans]]  # finds the tokens, words or sentences of texts


class Windows(NamedTuple):
    """How documents are cut into passages."""

    size: int  # units per passage
    stride: int  # units from the beginning of a passage to that of the next one; at most the size
    most: int = 0  # passages per document, the first ones; 0: all
    titles: str = "first"  # "first": only the first passage has the title; "each": each passage begins with it
    title_counts: bool = False  # whether the title is part of the size, of which it then takes at most half


def words(texts: Sequence[str]) -> list[TokenSpans]:
    """Return the words of each text, separated by white space."""
    return [_units([match.span() for match in _WORD.finditer(text)]) for text in texts]


def sentences(texts: Sequence[str]) -> list[TokenSpans]:
    """Return the sentences of each text."""
    return [_units(_sentence_spans(text)) for text in texts]


def _units(spans: Sequence[tuple[int, int]]) -> TokenSpans:
    """Return *spans* (start, end) as units. Each unit is one word, so a passage can begin at every word."""
    return TokenSpans(np.array(spans, np.int32).reshape(-1, 2), np.arange(len(spans), dtype=np.int32))


def passage_bounds(units: TokenSpans, characters: int, size: int, stride: int, most: int = 0) -> list[tuple[int, int]]:
    """Return where each passage of a text of so many *characters* starts and stops.

    A passage begins at the start of a word, *stride* units after the beginning of the previous passage, or fewer if that unit
    is inside a word. It ends after *size* units, even inside a word, like a text that a model truncates.
    """
    spans, count = units.spans, len(units.spans)
    found: list[tuple[int, int]] = []
    first = 0
    while True:
        stop = first + size
        last = stop >= count
        found.append((int(spans[first, 0]) if found else 0, characters if last else int(spans[stop - 1, 1])))
        if last or len(found) == most:
            return found
        target = first + stride
        beginning = int(np.searchsorted(units.words, units.words[target]))
        first = beginning if beginning > first else target  # a word longer than the stride is cut inside


def passages(documents: Sequence[Document], windows: Windows, units: Units) -> Iterator[list[Document]]:
    """Yield the passages of each of *documents*."""
    if windows.titles == "first":
        found = units([document.text for document in documents])
        for document, spans in zip(documents, found, strict=True):
            pieces = passage_bounds(spans, len(document.text), windows.size, windows.stride, windows.most)
            yield [
                _passage(document, i, document.text[a:b], 0 if i else min(document.body_at, b))
                for i, (a, b) in enumerate(pieces)
            ]
        return
    titles = [document.text[: document.body_at] for document in documents]
    bodies = units([document.body for document in documents])
    heads = units(titles) if windows.title_counts else None
    for number, (document, title) in enumerate(zip(documents, titles, strict=True)):
        size, head = windows.size, title
        if heads is not None:
            taken = min(len(heads[number].spans), size // 2)
            size -= taken
            if taken < len(heads[number].spans):
                head = title[: heads[number].spans[taken - 1, 1]] + " "
        pieces = passage_bounds(bodies[number], len(document.body), size, min(windows.stride, size), windows.most)
        yield [_passage(document, i, head + document.body[a:b], len(head)) for i, (a, b) in enumerate(pieces)]


def _passage(document: Document, number: int, text: str, body_at: int) -> Document:
    return Document(f"{document.doc_id}#{number}", text, body_at)


# A sentence ends after a mark and its closing quotes and brackets, if white space follows; after a full-width mark anything may
# follow. A mark before a lower-case letter ("Why?" he asked) ends none, nor does a full stop after a single letter (J. Smith).
# The marks are those of Latin, Armenian, Arabic, Indic, Burmese and Ethiopic scripts.
_MARKS = ".!?\u2026\u0589\u061f\u06d4\u0964\u0965\u104a\u104b\u1362\u1367\u1368"
_WIDE = "\u3002\uff01\uff1f\uff61"  # Chinese and Japanese
_CLOSING = "\"'\u201d\u2019\u00bb)\\]\u300d\u300f\uff09\u3011"
_ENDS = re.compile(rf"[{_MARKS}]+[{_CLOSING}]*(?=\s)|[{_WIDE}]+[{_CLOSING}]*|(?=\n[ \t\r]*\n)")
_ABBREVIATIONS = {
    "al", "approx", "ca", "cf", "dept", "dr", "e.g", "eds", "eq", "eqs", "fig", "figs", "i.e", "mr", "mrs", "ms", "mt", "nos",
    "p", "pp", "prof", "ref", "refs", "st", "vol", "vs",
}  # fmt: skip
_ALWAYS_END = ("", *_WIDE)  # an empty line, and full-width marks
_LETTER = re.compile(r"\w")
_NEXT = re.compile(r"\s*(\S?)")
_LAST_WORD = re.compile(r"[\w.]+$")


def _sentence_spans(text: str) -> list[tuple[int, int]]:
    """Return where the sentences of *text* start and stop, without white space around them; none for a blank text."""
    found, start = [], 0
    for match in _ENDS.finditer(text):
        if match.group()[:1] not in _ALWAYS_END and _goes_on(text, match.start(), match.end()):
            continue
        if not _LETTER.search(text, start, match.end()):  # the dots of a table of contents
            continue
        found.append((start, match.end()))
        start = match.end()
    found.append((start, len(text)))
    spans = (_stripped(text, first, last) for first, last in found)
    return [(first, last) for first, last in spans if first < last]


def _goes_on(text: str, stop: int, end: int) -> bool:
    """Return whether the sentence continues after the mark at *stop*, whose quotes and brackets end at *end*."""
    if _NEXT.match(text, end).group(1).islower():  # type: ignore[union-attr]  # it matches anywhere
        return True
    if text[stop] != ".":
        return False
    word = _LAST_WORD.search(text, max(0, stop - 12), stop)
    return word is not None and (word.group().lower() in _ABBREVIATIONS or (len(word.group()) == 1 and word.group().isalpha()))


def _stripped(text: str, first: int, last: int) -> tuple[int, int]:
    """Return the bounds of text[first:last] without white space at its ends."""
    inner = text[first:last]
    return first + len(inner) - len(inner.lstrip()), last - len(inner) + len(inner.rstrip())


def write_passages(corpus: Corpus, path: Path, windows: Windows, units: Units) -> None:
    """Write the passages of *corpus* as a corpus into the existing folder *path*."""
    counts = array("i")

    def cut() -> Iterator[Document]:
        left = corpus.documents()
        while documents := list(islice(left, _DOCUMENTS_AT_ONCE)):
            for pieces in passages(documents, windows, units):
                counts.append(len(pieces))
                yield from pieces

    stored = write_corpus(cut(), path)
    documents = np.repeat(np.arange(len(counts), dtype=np.int32), np.frombuffer(counts, np.int32))
    _check_order(stored, corpus, documents)
    np.save(path / DOCUMENTS, documents)


def _check_order(stored: StoredCorpus, corpus: Corpus, documents: NDArray[np.int32]) -> None:
    """Raise LexbenchError unless passage i is of the document at position documents[i].

    Both corpora are ordered by the bytes of their ids. The orders agree unless an id is another one followed by a byte below
    `#`.
    """
    for start in range(0, len(documents), _IDS_AT_ONCE):
        block = slice(start, start + _IDS_AT_ONCE)
        named = [passage.rpartition(b"#")[0] for passage in stored.doc_ids[block].tolist()]
        expected = corpus.doc_ids[documents[block]].tolist()
        if wrong := next(((a, b) for a, b in zip(named, expected, strict=True) if a != b), None):
            first, second = (name.decode() for name in sorted(wrong))
            raise LexbenchError(
                f"the ids {first!r} and {second!r} would mix their passages, {first}#0 and {second}#0, in the order of ids; "
                "rename one of the documents"
            )
