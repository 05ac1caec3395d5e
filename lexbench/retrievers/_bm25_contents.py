"""What BM25 indexes of each document: its text; that and an expansion; or words, each as often as a file says."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from lexbench.datasets.expansion import Expansions
from lexbench.errors import InvalidFile, LexbenchError
from lexbench.storage.artifacts import write_remarks
from lexbench.trec.ids import lookup
from lexbench.types import Corpus, Document
from lexbench.vector_formats.blocks import Row, Vocabulary, blocks_of_rows, json_rows
from lexbench.vector_formats.vector_table import VectorTable

_BLOCK = 2048  # documents looked up at a time
_IDS = 1 << 16
_MOST = (1 << 16) - 1  # of one word in one document; more is a slip, which would fill the memory


class RepeatedText(NamedTuple):
    """Some text of a document, as if it stood there so many times."""

    text: str
    times: int = 1


class Contents(Protocol):
    """Where the parts of documents come from."""

    def of(self, documents: list[Document]) -> Iterator[list[RepeatedText]]:
        """Yield the parts of each document, in order."""
        ...


class Texts:
    """The documents as they are."""

    def of(self, documents: list[Document]) -> Iterator[list[RepeatedText]]:
        """Yield the text of each."""
        return ([RepeatedText(document.text)] for document in documents)


class Expanded:
    """The documents with what the file *path* adds to them behind the text."""

    def __init__(self, path: Path) -> None:
        self._expansions = Expansions(path)
        self.ids = self._expansions.ids

    def of(self, documents: list[Document]) -> Iterator[list[RepeatedText]]:
        """Yield text and expansion of each; one without an expansion is its text."""
        found = self._expansions.find([document.doc_id for document in documents])
        for document, expansion in zip(documents, found, strict=True):
            yield [RepeatedText(document.text)] + ([RepeatedText(expansion)] if expansion else [])


class TermWeights:
    """Words and how often they count, from a file of JSON lines {"id": …, "vector": {"word": whole number}}.

    DeepCT (Dai & Callan, 2019) has learned term frequencies, round(100 y), in place of a document's own. While this lives the
    numbers are in temporary files of eight bytes a word, and the ids in memory. InvalidFile names the line of a number that is
    no frequency.
    """

    def __init__(self, path: Path) -> None:
        words = Vocabulary()
        self._path = path
        rows = blocks_of_rows(path, _checked(path, json_rows(path)), words, whole=False)
        self._weights = VectorTable(rows, lambda: words.tokens, path)
        self.ids = self._weights.ids
        if not len(self.ids):
            raise InvalidFile(f"{path}: there are no term weights in it")

    def of(self, documents: list[Document]) -> Iterator[list[RepeatedText]]:
        """Yield the words of each; LexbenchError where the file does not have all documents."""
        wanted = [document.doc_id for document in documents]
        found = self._weights.find(wanted, f"{self._path} has no term weights of document")
        for start, stop in zip(found.indptr[:-1].tolist(), found.indptr[1:].tolist(), strict=True):
            terms, times = found.indices[start:stop].tolist(), found.data[start:stop].astype(int).tolist()
            yield [RepeatedText(self._weights.tokens[term], count) for term, count in zip(terms, times, strict=True)]


def _checked(path: Path, rows: Iterable[Row]) -> Iterator[Row]:
    for row in rows:
        for term, weight in row.vector.items():
            if not 0 <= weight <= _MOST or weight != int(weight):
                raise InvalidFile(
                    f"{path}:{row.line}: the weight {weight:g} of {term!r} is no term frequency, a whole number from 0 to "
                    f"{_MOST}; DeepCT's are round(100 * weight): write these"
                )
        yield row


def parts(contents: Contents, documents: Iterator[Document]) -> Iterator[list[RepeatedText]]:
    """Yield the parts of *documents*, some of which are in memory at a time."""
    while block := list(islice(documents, _BLOCK)):
        yield from contents.of(block)


def contents(corpus: Corpus, expansions: str | None, term_weights: str | None, index: Path) -> Contents:
    """Return where the parts of the documents of *corpus* come from, with a remark in *index* if not all have something.

    LexbenchError where the file is about none of them.
    """
    path = Path(expansions or term_weights or "")
    if not (expansions or term_weights):
        return Texts()
    source = Expanded(path) if expansions else TermWeights(path)
    matched = _matched(corpus.doc_ids, source.ids)
    if not matched:
        theirs, ours = source.ids[0].decode(), corpus.doc_ids[0].decode()
        raise LexbenchError(
            f"{path} is of another corpus: it has ids like {theirs!r}, and the documents have ids like {ours!r}"
        )
    remarks = []
    if expansions and matched < len(corpus):
        remarks.append(f"{path.name} has no expansion of {len(corpus) - matched:,} of the {len(corpus):,} documents")
    if matched < len(source.ids):
        remarks.append(f"{path.name} has {len(source.ids) - matched:,} ids that no document has")
    write_remarks(index, remarks)
    return source


def _matched(ours: NDArray[np.bytes_], theirs: NDArray[np.bytes_]) -> int:
    """Return how many of *ours*, which are distinct, are in the table *theirs*."""
    return sum(int((lookup(theirs, ours[at : at + _IDS]) >= 0).sum()) for at in range(0, len(ours), _IDS))
