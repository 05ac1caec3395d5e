"""BM25 by Lucene itself, as Anserini sets it up for its "flat" BM25 baselines: `bm25@lucene`.

The index has what Anserini's has: one field of all text, with document and term frequencies, made with Anserini's analyser. It
is written by one thread into one segment in which Lucene's document numbers follow the ids, so Lucene's order of equal scores
is Anserini's (or, with ties="trec_eval", trec_eval's), and numbers are all that a search has to fetch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np

from lexbench.engines._jvm import EXTRA, REQUIRES, java_class
from lexbench.retrievers._bm25_settings import Settings
from lexbench.types import Corpus, Document, Hits

_FIELD = "contents"
# Which of several constructors, where Python's values leave it open.
_OF_TEXT = "(Ljava/lang/String;Ljava/lang/CharSequence;Lorg/apache/lucene/index/IndexableFieldType;)V"
_OF_READER = "(Lorg/apache/lucene/index/IndexReader;)V"

_BUFFER_MB = 256.0  # of postings in memory, before they are written out
_BLOCK = 1024  # documents read at a time where they are wanted backwards
_MOST_CLAUSES = 1 << 20  # Lucene's own limit of 1024 query terms is too few for queries that are documents

_LUCENE = "org.apache.lucene"
_ANALYSER = "io.anserini.analysis.DefaultEnglishAnalyzer"
_QUERIES = "io.anserini.search.query.BagOfWordsQueryGenerator"


class _ScoreDoc(msgspec.Struct):
    doc: int
    score: float


class _TopDocs(msgspec.Struct):
    scoreDocs: tuple[_ScoreDoc, ...]  # noqa: N815 - Lucene's name


@dataclass(frozen=True)
class BM25Lucene(Settings):
    """Lucene in a Java virtual machine within this process; one thread."""

    version: ClassVar[int] = 1
    deterministic: ClassVar[bool] = False  # Lucene writes a random id and the time into each segment
    requires: ClassVar[tuple[str, ...]] = REQUIRES
    extra: ClassVar[str] = EXTRA

    def build(self, corpus: Corpus, path: Path) -> None:
        """Write a Lucene index of *corpus* into *path*; Lucene's memory is bounded by its buffer."""
        writer = java_class(f"{_LUCENE}.index.IndexWriter")(_directory(path), self._writing())
        field = java_class(f"{_LUCENE}.document.Field")(_FIELD, "", _field_type(), signature=_OF_TEXT)
        document = java_class(f"{_LUCENE}.document.Document")()
        document.add(field)
        for text in self._texts(corpus):
            field.setStringValue(text)
            writer.addDocument(document)
        writer.forceMerge(1)
        writer.close()

    def _writing(self) -> Any:
        config = java_class(f"{_LUCENE}.index.IndexWriterConfig")(_analyser())
        config.setSimilarity(self.similarity())
        config.setRAMBufferSizeMB(_BUFFER_MB)
        config.setMergeScheduler(java_class(f"{_LUCENE}.index.SerialMergeScheduler")())
        config.setMergePolicy(java_class(f"{_LUCENE}.index.LogByteSizeMergePolicy")())  # merges neighbours: numbers keep order
        return config

    def _texts(self, corpus: Corpus) -> Iterator[str]:
        """Yield the texts so that the document which is to win ties comes first."""
        if self.lower_position_first:
            yield from (document.text for document in corpus.documents())
        else:
            yield from (document.text for document in _backwards(corpus))

    def similarity(self) -> Any:
        """Return Lucene's BM25 with these parameters."""
        return java_class(f"{_LUCENE}.search.similarities.BM25Similarity")(self.k1, self.b)

    def open(self, path: Path) -> "LuceneSearcher":
        """Open what *build* wrote."""
        return LuceneSearcher(self, path)


class LuceneSearcher:
    """An opened index."""

    def __init__(self, settings: BM25Lucene, path: Path) -> None:
        self._settings = settings
        self._analyser = _analyser()
        self._queries = java_class(_QUERIES)()
        self._json = java_class("com.fasterxml.jackson.databind.ObjectMapper")()
        self._decoder = msgspec.json.Decoder(_TopDocs)
        self._reader = java_class(f"{_LUCENE}.index.DirectoryReader").open(_directory(path))
        index_searcher = java_class(f"{_LUCENE}.search.IndexSearcher")
        index_searcher.setMaxClauseCount(_MOST_CLAUSES)
        self._searcher = index_searcher(self._reader, signature=_OF_READER)
        self._searcher.setSimilarity(settings.similarity())
        self._searcher.setQueryCache(None)

    def encode(self, queries: Sequence[str]) -> list[Any]:
        """Return each query as Lucene's: any of its terms, each weighted by how often it is repeated."""
        return [self._queries.buildQuery(_FIELD, self._analyser, query) for query in queries]

    def search(self, encoded: list[Any], k: int) -> Hits:
        """Return the best *k* documents of each query, of those that have a term of it."""
        documents = self._reader.maxDoc()
        docs = np.full((len(encoded), k), -1, np.int32)
        scores = np.full((len(encoded), k), -np.inf, np.float32)
        for row, query in enumerate(encoded):
            found = self._searcher.search(query, max(1, min(k, documents)))
            # All hits cross from Java in one text: one by one, a thousand would take longer than the search.
            hits = self._decoder.decode(self._json.writeValueAsString(found)).scoreDocs
            docs[row, : len(hits)] = [hit.doc for hit in hits]
            scores[row, : len(hits)] = [hit.score for hit in hits]
        if not self._settings.lower_position_first:
            docs = np.where(docs < 0, docs, documents - 1 - docs)
        return self._settings.settled(Hits(docs, scores))


def _directory(path: Path) -> Any:
    return java_class(f"{_LUCENE}.store.FSDirectory").open(java_class("java.io.File")(str(path)).toPath())


def _analyser() -> Any:
    return java_class(_ANALYSER).newDefaultInstance()


def _field_type() -> Any:
    kind = java_class(f"{_LUCENE}.document.FieldType")()
    kind.setTokenized(True)
    kind.setIndexOptions(java_class(f"{_LUCENE}.index.IndexOptions").DOCS_AND_FREQS)
    kind.freeze()
    return kind


def _backwards(corpus: Corpus) -> Iterator[Document]:
    """Yield the documents from the last position to the first, a block in memory at a time."""
    for stop in range(len(corpus), 0, -_BLOCK):
        yield from reversed(list(corpus.documents(max(stop - _BLOCK, 0), stop)))
