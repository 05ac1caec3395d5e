"""Shared by `bm25` and `bm25@lucene`: their settings, the texts to index of each document, and the order of ties."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lexbench.datasets.expansion import Expansions
from lexbench.errors import CommandError, InvalidFile, LexbenchError, MissingData
from lexbench.plugins import Retriever
from lexbench.registry import at_search, runtime
from lexbench.storage.artifact_folder import write_notes
from lexbench.storage.reading import cached_file_digest
from lexbench.trec.ids import lookup
from lexbench.trec.runs import strictly_decreasing
from lexbench.types import Corpus, Document, Hits
from lexbench.vector_formats.blocks import VectorRow, Vocabulary, blocks_of_rows, json_rows
from lexbench.vector_formats.lookup import VectorTable

ANSERINI, TREC_EVAL = "anserini", "trec_eval"
_FILES = ("expansions", "term_weights")
_BLOCK = 2048  # documents looked up at a time
_IDS = 1 << 16  # ids looked up at a time
_LARGEST = (1 << 16) - 1  # weight of a word in a document; more is a mistake, which would fill the memory


@dataclass(frozen=True)
class BM25Settings(Retriever):
    """The parameters of BM25, with Anserini's values.

    Short documents often have equal scores, so the order of ties decides published figures: in NFCorpus it moves nDCG@10 by
    0.0012. With *ties* "anserini" documents come in the order that trec_eval gives Anserini's run files
    (`_bm25_search.anserini_order`), and scores are lowered to the next float32 numbers in that order. With "trec_eval" equal
    scores stay equal, and the harness puts the larger id first.

    *expansions* is a file of text that is added to documents (docT5query), see `lexbench.datasets.expansion`. *term_weights* is
    a file of term frequencies that replace those of the documents (DeepCT), JSON lines {"id": …, "vector": {"word": whole
    number}}; the words are analysed like texts. Search DeepCT's with k1=10 and b=0.9.
    """

    k1: float = at_search(0.9)
    b: float = at_search(0.4)
    ties: str = ANSERINI
    expansions: str | None = runtime(None)  # the digest of the file is in the key, its place is not
    term_weights: str | None = runtime(None)

    def __post_init__(self) -> None:
        """Raise CommandError for impossible values."""
        if not (0 <= self.k1 < np.inf and 0 <= self.b <= 1):
            raise CommandError(f"bm25(k1={self.k1}, b={self.b}) cannot be: k1 is a number from 0 up, b is from 0 to 1")
        if self.ties not in (ANSERINI, TREC_EVAL):
            raise CommandError(f'bm25(ties="{self.ties}") is unknown; ties are "{ANSERINI}" or "{TREC_EVAL}"')
        if self.expansions and self.term_weights:
            raise CommandError("bm25(expansions=…, term_weights=…) cannot be: term weights replace the texts; give one of them")
        for name in _FILES:
            if (given := getattr(self, name)) and not Path(given).is_file():
                raise MissingData(f"bm25({name}={given!r}): there is no such file")

    def identity(self) -> dict[str, str]:
        """Return the digests of the files that are given."""
        return {name: cached_file_digest(Path(given)) for name in _FILES if (given := getattr(self, name))}

    @property
    def absent_is_zero(self) -> bool:
        """Whether documents that a search does not return share no term with the query: always."""
        return True

    @property
    def lower_position_first(self) -> bool:
        """Whether a search returns the lower position first among equal scores; positions descend by id."""
        return self.ties == TREC_EVAL

    def settled(self, hits: Hits) -> Hits:
        """Return *hits* in the order of *ties*, with scores that keep it however they are sorted.

        *hits* descend by score; of equal scores the higher position comes first, unless `lower_position_first`.
        """
        if self.lower_position_first:
            return hits
        from lexbench.retrievers._bm25_search import anserini_order  # compiled

        columns = np.empty(hits.docs.shape, np.int64)
        anserini_order(hits.scores, hits.docs, columns)
        docs, scores = np.take_along_axis(hits.docs, columns, axis=1), np.take_along_axis(hits.scores, columns, axis=1)
        there = docs >= 0
        offsets = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        scores[there] = strictly_decreasing(offsets, scores[there])
        return Hits(docs, scores)

    def contents(self, corpus: Corpus, documents: Iterator[Document], index: Path) -> "Iterator[list[RepeatedText]]":
        """Return an iterator over the texts to index of each of *documents*: those of *corpus*, in any order.

        Writes a note into the folder *index* if the file of expansions or term weights lacks some documents. Raises
        LexbenchError if it lacks all.
        """
        if self.expansions:
            expansions = Expansions(Path(self.expansions))
            _check_ids(Path(self.expansions), corpus, expansions.ids, index, all_needed=False)
            return _in_blocks(documents, lambda block: _expanded(expansions, block))
        if self.term_weights:
            weights = TermWeightFile(Path(self.term_weights))
            _check_ids(Path(self.term_weights), corpus, weights.ids, index, all_needed=True)
            return _in_blocks(documents, weights.words)
        return ([RepeatedText(document.text)] for document in documents)


class RepeatedText(NamedTuple):
    """A text of a document that counts *times* times."""

    text: str
    times: int = 1


_Contents: TypeAlias = Iterable[list[RepeatedText]]  # of each document


def _in_blocks(documents: Iterator[Document], contents: Callable[[list[Document]], _Contents]) -> Iterator[list[RepeatedText]]:
    """Yield the contents of *documents*, which are looked up a block at a time."""
    while block := list(islice(documents, _BLOCK)):
        yield from contents(block)


def _expanded(expansions: Expansions, documents: list[Document]) -> _Contents:
    """Yield the text of each document, then its expansion if there is one."""
    found = expansions.find([document.doc_id for document in documents])
    for document, expansion in zip(documents, found, strict=True):
        yield [RepeatedText(document.text)] + ([RepeatedText(expansion)] if expansion else [])


class TermWeightFile:
    """Words and how often they count, from a file of JSON lines {"id": …, "vector": {"word": whole number}}.

    DeepCT (Dai & Callan, 2019) replaces term frequencies by learned ones, round(100 y). The numbers are in temporary files,
    eight bytes per word, and the ids in memory. Raises InvalidFile with the line if a number is not a frequency.
    """

    def __init__(self, path: Path) -> None:
        words = Vocabulary()
        self._path = path
        rows = blocks_of_rows(path, _checked(path, json_rows(path)), words, whole=False)
        self._weights = VectorTable(rows, words, path)
        self.ids = self._weights.ids
        if not len(self.ids):
            raise InvalidFile(f"{path}: there are no term weights in it")

    def words(self, documents: list[Document]) -> _Contents:
        """Yield the words of each document. Raises LexbenchError if the file does not have all documents."""
        wanted = [document.doc_id for document in documents]
        found = self._weights.find(wanted, f"{self._path} has no term weights of document")
        for start, stop in zip(found.indptr[:-1].tolist(), found.indptr[1:].tolist(), strict=True):
            terms, times = found.indices[start:stop].tolist(), found.data[start:stop].astype(int).tolist()
            yield [RepeatedText(self._weights.tokens[term], count) for term, count in zip(terms, times, strict=True)]


def _checked(path: Path, rows: Iterable[VectorRow]) -> Iterator[VectorRow]:
    """Yield *rows*. Raises InvalidFile if a weight is not a term frequency."""
    for row in rows:
        for term, weight in row.vector.items():
            if not 0 <= weight <= _LARGEST or weight != int(weight):
                raise InvalidFile(
                    f"{path}:{row.line}: the weight {weight:g} of {term!r} is no term frequency, a whole number from 0 to "
                    f"{_LARGEST}; DeepCT's are round(100 * weight): write these"
                )
        yield row


def _check_ids(path: Path, corpus: Corpus, ids: NDArray[np.bytes_], index: Path, *, all_needed: bool) -> None:
    """Write notes about *ids* of the file *path* that differ from those of *corpus*. Raises LexbenchError if all differ."""
    ours = corpus.doc_ids
    matched = sum(int((lookup(ids, ours[at : at + _IDS]) >= 0).sum()) for at in range(0, len(ours), _IDS))
    if not matched:
        raise LexbenchError(
            f"{path} is of another corpus: it has ids like {ids[0].decode()!r}, and the documents have ids like "
            f"{ours[0].decode()!r}"
        )
    notes = []
    if not all_needed and matched < len(corpus):
        notes.append(f"{path.name} has no expansion of {len(corpus) - matched:,} of the {len(corpus):,} documents")
    if matched < len(ids):
        notes.append(f"{path.name} has {len(ids) - matched:,} ids that no document has")
    write_notes(index, notes)
