"""BM25 without Java, with Lucene's scores: same terms, same lossy document lengths, same float32 arithmetic.

S. E. Robertson et al., "Okapi at TREC-3", 1994, in the variant of Lucene (C. Kamphuis et al., "Which BM25 do you mean?", ECIR
2020). The defaults are Anserini's. A query term counts as often as it is repeated.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, cycle, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.engines.kernels.checks import in_threads, map_bytes, read_facts
from lexbench.errors import CommandError
from lexbench.plugins import Rescorer, Searcher
from lexbench.registry import at_search, optional, runtime
from lexbench.retrievers._bm25_settings import ANSERINI, BM25Settings, RepeatedText
from lexbench.tokenization import ANALYZERS, chunks
from lexbench.tokenization.word_break import words
from lexbench.types import Corpus, Hits

if TYPE_CHECKING:  # these import numba, which is slow to import and not needed to read results
    from lexbench.retrievers._bm25_index import IndexWriter, Submit
    from lexbench.retrievers._bm25_terms import Started, TermsOfTexts

LAYOUT = 2  # version of the index files; raise it when older indexes would be misread
_MOST_CHUNKS = 1 << 19  # remembered, about 120 MB
_LONGEST_CHUNK = 64  # characters of a chunk that is remembered: Chinese has no white space
_COMPILED = 10_000  # documents from which on the compiled analysis is used: compiling takes seconds, once
_BLOCK = 1 << 21  # characters analysed at a time: few enough for long documents, and enough that threads seldom wait
_POSITION = np.uint64(0xFFFFFFFF)  # bits of a key that hold the position


class QueryTerms(NamedTuple):
    """Queries as numbered terms, each term once per query; terms that no document has are left out."""

    starts: NDArray[np.int64]  # (queries + 1,) the terms of query q are terms[starts[q]:starts[q + 1]]
    terms: NDArray[np.int32]  # (query terms,)
    weights: NDArray[np.float32]  # (query terms,) idf times how often the query has the term


class _TermNumbers(dict[str, tuple[int, ...]]):
    """The term numbers of each chunk of text between white space. Text repeats itself, so most chunks are looked up."""

    def __init__(self, number: Callable[[str], int | None], analyzer: str) -> None:
        self._number = number
        self._analyze = ANALYZERS[analyzer]

    def __missing__(self, chunk: str) -> tuple[int, ...]:
        numbers = tuple(self.analysed(chunk))
        if len(chunk) <= _LONGEST_CHUNK:
            if len(self) >= _MOST_CHUNKS:
                self.clear()
            self[chunk] = numbers
        return numbers

    def analysed(self, text: str) -> list[int]:
        """Return the term numbers of *text* without looking up or remembering chunks."""
        terms = (term for chunk in chunks(text) for term in self._analyze(chunk))
        return [number for term in terms if (number := self._number(term)) is not None]

    def numbers(self, text: str) -> "chain[int]":
        """Return the term numbers of *text* in order, with repetitions."""
        return chain.from_iterable(map(self.__getitem__, chunks(text)))


@dataclass(frozen=True)
class BM25(BM25Settings):
    """BM25 over an inverted index on disk, searched by a compiled loop; *threads* index, and search different queries.

    *analyzer* turns texts into terms: "english" is Anserini's, with stop words and stemming. "unicode" knows no language: it
    splits words as Unicode says, and scripts without spaces into pairs of characters.
    """

    ties: str = at_search(ANSERINI)
    threads: int = runtime(1)
    analyzer: str = optional("english")

    family: ClassVar[str] = "bm25"
    version: ClassVar[int] = 2  # 2: ties as Anserini breaks them also for scores from 32 up
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise CommandError for impossible values."""
        super().__post_init__()
        if self.threads < 1:
            raise CommandError(f"bm25(threads={self.threads}) cannot be: give a number above 0")
        if self.analyzer not in ANALYZERS:
            raise CommandError(
                f'bm25(analyzer="{self.analyzer}") is unknown; there is {", ".join(ANALYZERS)}, and those of Lucene for '
                f'languages: bm25(analyzer="fi")@lucene'
            )

    def index_identity(self) -> dict[str, Any]:
        """Return the digests of the files, and the layout: an index with another layout is built again."""
        return self.identity() | {"layout": LAYOUT}

    def build(self, corpus: Corpus, path: Path) -> None:
        """Write the index of *corpus* into *path*, in memory that grows only with the vocabulary."""
        from lexbench.retrievers._bm25_index import IndexWriter, run_now

        vocabulary: defaultdict[str, int] = defaultdict()
        vocabulary.default_factory = vocabulary.__len__  # a new term gets the next number
        numbers = _TermNumbers(vocabulary.__getitem__, self.analyzer)
        documents = self.contents(corpus, corpus.documents(), path)
        with ThreadPoolExecutor(self.threads) as pool:  # this thread reads documents and analyses new words meanwhile
            submit = run_now if self.threads == 1 else pool.submit
            writer = IndexWriter(path, threads=self.threads, submit=submit)
            if len(corpus) < _COMPILED:
                for document in documents:
                    terms = chain.from_iterable([*numbers.numbers(text)] * times for text, times in document)
                    writer.add(found := np.fromiter(terms, np.int32), np.array([len(found)]))
            else:
                _add_blocks(documents, self._tables(vocabulary.__getitem__, numbers), writer, submit)
            writer.finish(LAYOUT)
        (path / "terms.txt").write_bytes("".join(f"{term}\n" for term in vocabulary).encode())

    def _tables(self, number: Callable[[str], int], numbers: _TermNumbers) -> "list[TermsOfTexts]":
        """Return tables that number the terms of texts: one, or one more than threads, so that no thread waits for a block."""
        from lexbench.retrievers._bm25_terms import TermsOfTexts

        # Several tables do not know of each other: a chunk that is new to one is often known, so Python remembers it.
        of_chunk = numbers.analysed if self.threads == 1 else numbers.__getitem__
        count = 1 if self.threads == 1 else self.threads + 1
        return [TermsOfTexts(self.analyzer, number, of_chunk) for _ in range(count)]

    def open(self, opened: Path) -> "BM25Searcher":
        """Open the index, and compile the search if it has not been compiled on this machine before."""
        return BM25Searcher(self, opened)

    def scorer(self, opened: Path) -> "BM25Searcher":
        """Open the index: scoring given documents reads only their postings."""
        return self.open(opened)

    def single_terms(self, searcher: "BM25Searcher", query: str) -> tuple[dict[str, tuple[QueryTerms, float]], list[str]]:
        """Return a query of each term of *query* alone, encoded, with its weight; and the terms that no document has.

        A single term counts as often as *query* repeats it.
        """
        analyze = ANALYZERS[self.analyzer]
        # The stem of a stem can be another word, so an English term is searched by a word that has this stem.
        # Other terms analyse to themselves.
        split = words if self.analyzer == "english" else analyze
        pairs = [(term, part) for chunk in chunks(query) for part in split(chunk) for term in analyze(part)]
        counts, spelled = Counter(term for term, _ in pairs), dict(pairs)
        singles, unknown = {}, []
        for term, count in counts.items():
            alone = searcher.encode([spelled[term]])
            if len(alone.terms):
                single = alone._replace(weights=(alone.weights * np.float32(count)).astype(np.float32))
                singles[term] = single, float(single.weights[0])
            else:
                unknown.append(term)
        return singles, unknown


def _add_blocks(
    documents: Iterator[list[RepeatedText]], tables: "list[TermsOfTexts]", writer: "IndexWriter", submit: "Submit"
) -> None:
    """Add *documents* to *writer* by a compiled loop, a block per table at the same time; blocks are finished in order."""
    turns = cycle(tables)
    waiting: deque[tuple[TermsOfTexts, _Block, Future[Started]]] = deque()

    def finish() -> None:
        table, block, started = waiting.popleft()
        terms, lengths = table.finish(started.result(), block.times)
        before = np.concatenate([[0], np.cumsum(lengths)])[np.cumsum([0, *block.counts])]  # terms before each document
        writer.add(terms, np.diff(before))

    for block in _blocks(documents):
        if len(waiting) == len(tables):
            finish()
        table = next(turns)
        waiting.append((table, block, submit(table.start, block.texts)))
    while waiting:
        finish()


class _Block(NamedTuple):
    """What to index of some documents."""

    texts: list[str]  # of all documents
    times: list[int]  # how often each text counts
    counts: list[int]  # texts of each document


def _blocks(documents: Iterator[list[RepeatedText]]) -> Iterator[_Block]:
    """Yield blocks of _BLOCK characters; the last has the rest."""
    block, size = _Block([], [], []), 0
    for document in documents:  # flat lists: many small ones would keep the garbage collector busy
        for text, times in document:
            block.texts.append(text)
            block.times.append(times)
            size += len(text)
        block.counts.append(len(document))
        if size >= _BLOCK:
            yield block
            block, size = _Block([], [], []), 0
    yield block


class BM25Searcher(Searcher, Rescorer):
    """An opened index, which finds documents and scores given ones."""

    def __init__(self, settings: BM25, path: Path) -> None:
        from lexbench.retrievers import _bm25_search

        self._loops: Any = _bm25_search
        self._settings = settings
        self._flip = _POSITION if settings.lower_position_first else np.uint64(0)
        facts = read_facts(path, "bm25", LAYOUT)
        arrays = (np.load(path / f"{name}.npy") for name in ("sizes", "lengths", "classes", "length_classes"))
        sizes, lengths, classes, used = arrays
        average = facts["occurrences"] / facts["nonempty"] if facts["nonempty"] else 1.0
        norms = _bm25_search.inverse_norms(used, average, settings.k1, settings.b)
        self._index = map_bytes(path / "postings.bin"), np.cumsum(lengths, dtype=np.int64) - lengths, sizes, classes, norms
        self._documents = len(classes)
        self._idf = _bm25_search.idf(sizes, facts["nonempty"])
        terms = (path / "terms.txt").read_bytes().decode().split("\n")[:-1]
        self._numbers = _TermNumbers(dict(zip(terms, range(len(terms)), strict=True)).get, settings.analyzer)
        self.search(self.encode([""]), 1)  # compiles

    def encode(self, queries: Sequence[str]) -> QueryTerms:
        """Return the terms of *queries* that a document has, with their weights."""
        counted = [Counter(self._numbers.numbers(query)) for query in queries]
        starts = np.cumsum([0, *map(len, counted)])
        terms = np.fromiter(chain.from_iterable(counted), np.int32)
        counts = np.fromiter(chain.from_iterable(count.values() for count in counted), np.float32)
        return QueryTerms(starts, terms, counts * self._idf[terms])

    def search(self, encoded: QueryTerms, k: int) -> Hits:
        """Return the best *k* documents of each query; only documents with a query term are found."""
        best = np.zeros((len(encoded.starts) - 1, k), np.uint64)
        bounds = np.linspace(0, len(best), self._settings.threads + 1).astype(int).tolist()
        in_threads(lambda part: self._search(encoded, best, *part), list(pairwise(bounds)), self._settings.threads)
        best[:, ::-1].sort(axis=1)
        scores = (best >> np.uint64(32)).astype(np.uint32).view(np.float32)
        docs = ((best & _POSITION) ^ self._flip).astype(np.int64)
        none = best == 0
        return self._settings.settled(
            Hits(np.where(none, -1, docs).astype(np.int32), np.where(none, -np.float32(np.inf), scores))
        )

    def score(self, encoded: QueryTerms, docs: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the scores (queries, n) of the documents *docs*, like `search` before it lowers ties."""
        sums = np.zeros(docs.shape)
        order = np.argsort(docs, axis=1)
        ascending = np.take_along_axis(docs, order, axis=1)
        for row, (start, stop) in enumerate(zip(encoded.starts[:-1].tolist(), encoded.starts[1:].tolist(), strict=True)):
            query = encoded.terms[start:stop], encoded.weights[start:stop]
            self._loops.score(*self._index, *query, ascending[row], sums[row])
        scores = np.empty(docs.shape, np.float32)
        np.put_along_axis(scores, order, sums.astype(np.float32), axis=1)
        return scores

    def _search(self, encoded: QueryTerms, best: NDArray[np.uint64], start: int, stop: int) -> None:
        """Fill the rows of *best* (queries, k) from *start* to *stop*."""
        queries = encoded.starts[start : stop + 1], encoded.terms, encoded.weights
        share = self._loops.SHARE if best.shape[1] * self._loops.MANY <= self._documents else 0.0
        self._loops.search(*self._index, *queries, share, self._flip, best[start:stop])
