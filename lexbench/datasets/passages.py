"""Passages of long documents: a corpus whose documents are windows of another's.

A passage is a window of so many tokens, words or sentences; the next begins *stride* of them later, and the last is the first
that reaches the end. A document that is no longer than a window is one passage, its text untouched; an empty one, too. The id
of a passage is that of its document, `#` and its number from 0, as in MS MARCO's segmented collections ("D1555982#0").

    documents.npy   int32 (passages,): the position of the document that each passage is of, ascending

beside the files of a corpus, see `lexbench.datasets.corpus`.
"""

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.datasets import sentences
from lexbench.datasets.corpus import StoredCorpus, write_corpus
from lexbench.errors import LexbenchError
from lexbench.plugins import TokenSpans
from lexbench.types import Corpus, Document

DOCUMENTS = "documents.npy"
TITLES = ("first", "each")
_AT_ONCE = 64  # documents that are cut at a time
_IDS = 1 << 16  # ids that are compared at a time
_WORD = re.compile(r"\S+")

Units = Callable[[Sequence[str]], Sequence[TokenSpans]]  # finds the tokens, words or sentences of texts


class Windows(NamedTuple):
    """How documents are cut."""

    size: int  # units of a passage
    stride: int  # units from where one begins to where the next does; at most the size
    most: int = 0  # passages of a document, the first so many; 0: all
    titles: str = "first"  # "first": texts are cut as they are; "each": a document's title stands before each of its passages
    title_counts: bool = False  # whether the title is part of the size, of which it then takes at most half


def words(texts: Sequence[str]) -> list[TokenSpans]:
    """Return what is between white space in each text."""
    return [_whole([match.span() for match in _WORD.finditer(text)]) for text in texts]


def sentences_of(texts: Sequence[str]) -> list[TokenSpans]:
    """Return the sentences of each text."""
    return [_whole(sentences.spans(text)) for text in texts]


def _whole(spans: "Sequence[tuple[int, int]] | NDArray[np.int32]") -> TokenSpans:
    """Return *spans* as units each of which is a word of its own."""
    return TokenSpans(np.array(spans, np.int32).reshape(-1, 2), np.arange(len(spans), dtype=np.int32))


# ---- cutting ---------------------------------------------------------------------------------------------------------------


def bounds(units: TokenSpans, characters: int, size: int, stride: int, most: int = 0) -> list[tuple[int, int]]:
    """Return the first character of each passage of a text of so many *characters*, and the first behind it.

    A passage begins at a word: where *stride* units lie behind the beginning of the one before, or before these as far as the
    word that they are in reaches back. It ends where its *size* is full, as a model would cut it.
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
        first = beginning if beginning > first else target


def passages(documents: Sequence[Document], windows: Windows, units: Units) -> Iterator[list[Document]]:
    """Yield the passages of each of *documents*."""
    if windows.titles == "first":
        found = units([document.text for document in documents])
        yield from (_of_text(document, windows, spans) for document, spans in zip(documents, found, strict=True))
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
        pieces = bounds(bodies[number], len(document.body), size, min(windows.stride, size), windows.most)
        yield [_passage(document, i, head + document.body[a:b], len(head)) for i, (a, b) in enumerate(pieces)]


def _of_text(document: Document, windows: Windows, spans: TokenSpans) -> list[Document]:
    """Return the passages of a text whose title is part of it."""
    pieces = bounds(spans, len(document.text), windows.size, windows.stride, windows.most)
    return [_passage(document, i, document.text[a:b], 0 if i else min(document.body_at, b)) for i, (a, b) in enumerate(pieces)]


def _passage(document: Document, number: int, text: str, body_at: int) -> Document:
    return Document(f"{document.doc_id}#{number}", text, body_at)


# ---- the corpus ------------------------------------------------------------------------------------------------------------


def write_passages(corpus: Corpus, path: Path, windows: Windows, units: Units) -> None:
    """Write the passages of *corpus*, a corpus themselves, into the existing folder *path*."""
    counts = array("i")

    def cut() -> Iterator[Document]:
        left = corpus.documents()
        while documents := list(islice(left, _AT_ONCE)):
            for pieces in passages(documents, windows, units):
                counts.append(len(pieces))
                yield from pieces

    stored = write_corpus(cut(), path)
    documents = np.repeat(np.arange(len(counts), dtype=np.int32), np.frombuffer(counts, np.int32))
    _check_order(stored, corpus, documents)
    np.save(path / DOCUMENTS, documents)


def _check_order(stored: StoredCorpus, corpus: Corpus, documents: NDArray[np.int32]) -> None:
    """Raise LexbenchError unless passage i is of the document at position documents[i].

    Both are in the order of their bytes, which is the same but where an id is another one and then a byte before `#`.
    """
    for start in range(0, len(documents), _IDS):
        block = slice(start, start + _IDS)
        named = [passage.rpartition(b"#")[0] for passage in stored.doc_ids[block].tolist()]
        expected = corpus.doc_ids[documents[block]].tolist()
        if wrong := next(((a, b) for a, b in zip(named, expected, strict=True) if a != b), None):
            first, second = (name.decode() for name in sorted(wrong))
            raise LexbenchError(
                f"the ids {first!r} and {second!r} would mix their passages, {first}#0 and {second}#0, in the order of ids; "
                "rename one of the documents"
            )
