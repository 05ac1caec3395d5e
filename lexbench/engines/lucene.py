"""Exact sparse search on whole weights by Lucene, with the scores of Anserini's impact indexes.

A weight is the frequency of a term in a document, and the score adds up query weight times frequency (Anserini's
ImpactSimilarity). Anserini repeats every term as often as its weight; here Lucene reads the frequency beside the term ("7|255",
DelimitedTermFrequencyTokenFilter), so that building time grows with the postings and not with the sum of all weights. The
postings are the same. Lucene's document numbers are our positions, so it orders ties by position.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from lexbench.engines.kernels.checks import no_hits, whole_weights
from lexbench.engines.kernels.java import EXTRA, LUCENE, REQUIRES, LuceneReader, LuceneWriter, java_class
from lexbench.errors import LexbenchError
from lexbench.plugins import Engine, Index
from lexbench.registry import at_search
from lexbench.types import Hits, Kind

_FIELD = "v"
_SIMILARITY = "io.anserini.search.similarity.ImpactSimilarity"
_MOST_OF_DOCUMENT = 2**31 - 1  # Lucene keeps the length of a document, the sum of its weights, in a Java int
_EVERY_HIT = 2**31 - 1


@dataclass(frozen=True)
class Lucene(Engine):
    """Lucene in a Java virtual machine within this process; one segment, one thread.

    With *prune* Lucene skips documents that cannot be among the best k (its IndexSearcher.search(query, k), as Anserini calls
    it); without, it adds up all postings. Answers are the same; which is faster depends on the vectors and on k.

    Weights of documents and queries must be whole numbers from 0 to 65,535. Documents whose weights add up to 2**31 are
    refused. Scores are float32, so they are exact below 2**24.
    """

    prune: bool = at_search(False)

    kind: ClassVar[Kind] = Kind.SPARSE
    deterministic: ClassVar[bool] = False  # Lucene writes a random id and the time into each segment
    impacts: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    requires: ClassVar[tuple[str, ...]] = REQUIRES
    extra: ClassVar[str] = EXTRA

    def build(self, shards: Iterable[sparse.csr_array], path: Path) -> None:
        """Write a Lucene index of *shards* (n, vocabulary) into *path*; one shard and Lucene's buffer are in memory.

        Raises LexbenchError for weights that Lucene cannot hold.
        """
        writer = LuceneWriter(path, _FIELD, _analyser(), java_class(_SIMILARITY)())
        for shard in shards:
            for text in _texts(whole_weights(shard, "lucene")):
                writer.add(text)
        writer.finish()

    def open(self, path: Path) -> "LuceneIndex":
        """Open the index in *path*."""
        return LuceneIndex(self, path)


class LuceneIndex(Index):
    """An opened index."""

    def __init__(self, settings: Lucene, path: Path) -> None:
        self._prune = settings.prune
        self._reader = LuceneReader(path, java_class(_SIMILARITY)())
        white_space = java_class(f"{LUCENE}.analysis.core.WhitespaceAnalyzer")()
        self._parser = java_class(f"{LUCENE}.queryparser.classic.QueryParser")(_FIELD, white_space)
        # Lucene 9 makes managers of collectors by a method, Lucene 10 by their class; both take the same arguments.
        older = getattr(java_class(f"{LUCENE}.search.TopScoreDocCollector"), "createSharedManager", None)
        self._manager = older or java_class(f"{LUCENE}.search.TopScoreDocCollectorManager")

    def prepare(self, queries: sparse.csr_array) -> list[Any]:
        """Return Lucene's query for each of *queries* (queries, vocabulary); None for one without weights."""
        matrix = whole_weights(queries, "lucene")
        terms, weights, starts = matrix.indices.tolist(), matrix.data.tolist(), matrix.indptr.tolist()
        rows = (slice(start, stop) for start, stop in pairwise(starts))
        # One text per query is one call from Python to Java; a call per term would take longer than the search.
        texts = (" ".join(f"{t}^{w}" for t, w in zip(terms[row], weights[row], strict=True)) for row in rows)
        return [self._parser.parse(text) if text else None for text in texts]

    def retrieve(self, prepared: list[Any], k: int) -> list[Any]:
        """Return Lucene's TopDocs of the best *k* for each prepared query that is not None: Lucene's part of a search."""
        search = self._reader.searcher.search
        queries = (query for query in prepared if query is not None)
        return [search(query, k if self._prune else self._manager(k, None, _EVERY_HIT)) for query in queries]

    def search(self, queries: sparse.csr_array, k: int) -> Hits:
        """Return the *k* largest dot products of each of *queries* (queries, vocabulary); hits share a term with the query."""
        hits = no_hits(queries.shape[0], min(k, self._reader.documents))
        for row, query in enumerate(self.prepare(queries)):
            if query is not None and hits.docs.shape[1]:
                self._reader.fill(hits, row, self.retrieve([query], hits.docs.shape[1])[0])
        return hits


def _texts(matrix: sparse.csr_array) -> Iterator[str]:
    """Yield each row as words "term|weight". Raises LexbenchError for a document that Lucene cannot hold."""
    lengths = np.asarray(matrix.sum(axis=1, dtype=np.int64))
    if lengths.max(initial=0) > _MOST_OF_DOCUMENT:
        raise LexbenchError(
            f"lucene takes documents whose weights add up to {_MOST_OF_DOCUMENT:,} at most, and there is {lengths.max():,}; "
            "quantise to smaller weights, e.g. encoder|quantize(100)@lucene"
        )
    words = [f"{term}|{weight}" for term, weight in zip(matrix.indices.tolist(), matrix.data.tolist(), strict=True)]
    for start, stop in pairwise(matrix.indptr.tolist()):
        yield " ".join(words[start:stop])


def _analyser() -> Any:
    """Return the analyser that splits at white space and reads the number after "|" as the frequency of a term."""
    settings = java_class("java.util.HashMap")
    builder = java_class(f"{LUCENE}.analysis.custom.CustomAnalyzer").builder()
    builder.withTokenizer("whitespace", settings())
    builder.addTokenFilter("delimitedTermFrequency", settings())
    return builder.build()
