"""Encoding queries for stored vectors, and exact scores of given documents from these: nothing is searched."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexbench.encodings.shards import read_rows
from lexbench.engines.kernels.checks import same_width
from lexbench.plugins import QueryEncoder, Rescorer
from lexbench.types import MultiVectors, Query
from lexbench.vectors import rows_of

_ROWS = 4096  # documents whose vectors are in memory at a time


@dataclass(frozen=True)
class VectorQueries(QueryEncoder):
    """What a searcher and a rescorer of an `encoder|transform@engine` have in common: they encode queries alike."""

    retriever: Any  # an `Encoded`, whose module imports this one

    def encode(self, queries: Sequence[str]) -> Any:
        """Encode and transform query texts; one vector a query."""
        return self.retriever.as_queries(self.retriever.encoder.encode_query(queries))

    def encode_queries(self, queries: Sequence[Query]) -> Any:
        """Do the same for queries with their ids, for encoders that look vectors up."""
        return self.retriever.encode_queries(queries)


@dataclass(frozen=True)
class VectorRescorer(VectorQueries, Rescorer):
    """The vectors in the folder *path*, with the transforms of an `encoder|transform@engine`, whose index is not needed."""

    path: Path

    def score(self, encoded: Any, docs: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the dot products (queries, n) of each query's vector with those of its documents *docs*; MaxSim of several.

        Those of sparse vectors are added up in float64, so that sums of whole weights are exact before they are rounded.
        """
        scores = np.zeros(docs.shape, np.float32)
        positions = np.unique(docs[docs >= 0])
        for start in range(0, len(positions), _ROWS):
            some = positions[start : start + _ROWS]
            vectors = self.retriever.as_documents(read_rows(self.path, some))
            inside = (docs >= some[0]) & (docs <= some[-1])
            queries, rows = np.nonzero(inside)[0], np.searchsorted(some, docs[inside])
            if isinstance(vectors, MultiVectors):
                scores[inside] = _sums_of_maxima(encoded, vectors, queries, rows)
            else:
                scores[inside] = _products(encoded, vectors)[queries, rows]
        return scores


def _products(queries: Any, documents: Any) -> NDArray[Any]:
    """Return the dot products (queries, documents)."""
    same_width(queries.shape[1], documents.shape[1])
    if isinstance(documents, np.ndarray):
        return np.asarray(queries @ documents.T)
    return np.asarray((queries.astype(np.float64) @ documents.astype(np.float64).T).toarray())


def _sums_of_maxima(
    queries: MultiVectors, documents: MultiVectors, asked: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return the scores (pairs,) of the documents *rows* for the queries *asked*, which ascend; only these are computed."""
    from lexbench.engines.kernels.dense import max_sim_scores

    scores = np.zeros(len(asked), np.float32)
    names, starts = np.unique(asked, return_index=True)
    for name, start, stop in zip(names, starts, [*starts[1:], len(asked)], strict=True):
        sums = max_sim_scores(rows_of(queries, np.array([name])), rows_of(documents, rows[start:stop]))[0]
        scores[start:stop] = np.where(np.isneginf(sums), 0, sums)
    return scores
