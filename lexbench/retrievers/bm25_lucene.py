"""BM25 by Lucene itself, set up like Anserini's "flat" BM25 baselines: `bm25@lucene`.

The index is like Anserini's: one field of all text, with document and term frequencies, made with Anserini's analyser. One
thread writes it into one segment in which Lucene's document numbers follow the ids. So Lucene orders equal scores like Anserini
(or, with ties="trec_eval", like trec_eval), and a search only has to fetch numbers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from lexbench.engines.kernels.checks import no_hits
from lexbench.engines.kernels.java import EXTRA, LUCENE, REQUIRES, LuceneReader, LuceneWriter, java_class
from lexbench.errors import CommandError
from lexbench.plugins import Searcher
from lexbench.registry import optional
from lexbench.retrievers._bm25_settings import BM25Settings
from lexbench.types import Corpus, Document, Hits

_FIELD = "contents"
_BLOCK = 1024  # documents read at a time when they are read backwards
_ENGLISH = "io.anserini.analysis.DefaultEnglishAnalyzer"
_OF_LANGUAGES = "io.anserini.analysis.AnalyzerMap"  # Lucene's, as Anserini chooses them: FinnishAnalyzer, CJKAnalyzer, ...
_LANGUAGES = (
    "ar", "bn", "da", "de", "es", "fa", "fi", "fr", "hi", "hu", "id", "it", "ja", "ko", "nl", "no", "pl", "pt", "ru", "sv",
    "te", "th", "tr", "uk", "zh",
)  # fmt: skip
_QUERIES = "io.anserini.search.query.BagOfWordsQueryGenerator"


@dataclass(frozen=True)
class BM25Lucene(BM25Settings):
    """Lucene in a Java virtual machine within this process; one thread.

    *analyzer* is "english", Anserini's own, or the code of a language, e.g. "fi", for the analyser of Lucene that Anserini
    uses.
    """

    analyzer: str = optional("english")

    family: ClassVar[str] = "bm25"
    version: ClassVar[int] = 2  # 2: ties as Anserini breaks them also for scores from 32 up
    deterministic: ClassVar[bool] = False  # Lucene writes a random id and the time into each segment
    requires: ClassVar[tuple[str, ...]] = REQUIRES
    extra: ClassVar[str] = EXTRA

    def __post_init__(self) -> None:
        """Raise CommandError for impossible values, and for a language without an analyser in Anserini."""
        super().__post_init__()
        if self.analyzer not in ("english", *_LANGUAGES):
            raise CommandError(
                f'bm25(analyzer="{self.analyzer}")@lucene is unknown; there is english, {", ".join(_LANGUAGES)}; for other '
                'languages write bm25(analyzer="unicode"), without Lucene'
            )

    def build(self, corpus: Corpus, path: Path) -> None:
        """Write a Lucene index of *corpus* into *path*; Lucene's buffer bounds the memory."""
        writer = LuceneWriter(path, _FIELD, _analyser(self.analyzer), self.similarity(), lengths=True)
        # Lucene gets documents in the order in which they win ties.
        documents = corpus.documents() if self.lower_position_first else _backwards(corpus)
        for document in self.contents(corpus, documents, path):
            writer.add(" ".join(" ".join([text] * times) for text, times in document))
        writer.finish()

    def similarity(self) -> Any:
        """Return Lucene's BM25 with these parameters."""
        return java_class(f"{LUCENE}.search.similarities.BM25Similarity")(self.k1, self.b)

    def open(self, opened: Path) -> "LuceneSearcher":
        """Open the index."""
        return LuceneSearcher(self, opened)


class LuceneSearcher(Searcher):
    """An opened index of Lucene."""

    def __init__(self, settings: BM25Lucene, path: Path) -> None:
        self._settings = settings
        self._analyser = _analyser(settings.analyzer)
        self._queries = java_class(_QUERIES)()
        self._reader = LuceneReader(path, settings.similarity())

    def encode(self, queries: Sequence[str]) -> list[Any]:
        """Return Lucene's query for each text: any of its terms, each weighted by how often it is repeated."""
        return [self._queries.buildQuery(_FIELD, self._analyser, query) for query in queries]

    def search(self, encoded: list[Any], k: int) -> Hits:
        """Return the best *k* documents of each query; only documents with a query term are found."""
        documents = self._reader.documents
        hits = no_hits(len(encoded), k)
        for row, query in enumerate(encoded):
            self._reader.fill(hits, row, self._reader.searcher.search(query, max(1, min(k, documents))))
        if not self._settings.lower_position_first:  # the index was written backwards
            hits = hits._replace(docs=np.where(hits.docs < 0, hits.docs, documents - 1 - hits.docs))
        return self._settings.settled(hits)


def _analyser(name: str) -> Any:
    """Return the Lucene analyser that the setting `analyzer` names."""
    if name == "english":
        return java_class(_ENGLISH).newDefaultInstance()
    return java_class(_OF_LANGUAGES).getLanguageSpecificAnalyzer(name)


def _backwards(corpus: Corpus) -> Iterator[Document]:
    """Yield the documents from the last position to the first, a block in memory at a time."""
    for stop in range(len(corpus), 0, -_BLOCK):
        yield from reversed(list(corpus.documents(max(stop - _BLOCK, 0), stop)))
