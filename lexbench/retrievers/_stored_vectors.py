"""Scores of given documents from the stored vectors of a corpus: those documents' alone are read, and nothing is searched."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexbench.encodings.shards import read_rows
from lexbench.encodings.vectors import rows_of
from lexbench.engines.kernels.checks import same_width
from lexbench.retrievers._query_vectors import QueryVectors
from lexbench.types import MultiVectors

_ROWS = 4096  # documents whose vectors are in memory at a time


@dataclass(frozen=True)
class StoredVectors(QueryVectors):
    """The vectors in the folder *path*, with the transforms of an `encoder|transform@engine`, whose index is not needed."""

    path: Path

    def score(self, encoded: Any, docs: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the dot products (queries, n) of each query's vector with those of its documents *docs*; MaxSim of several.

        Those of sparse vectors are added up in float64, so that sums of whole weights are exact before they are rounded.
        """
        scores = np.zeros(docs.shape, np.float32)
        wanted = np.unique(docs[docs >= 0])
        for start in range(0, len(wanted), _ROWS):
            some = wanted[start : start + _ROWS]
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
    from lexbench.engines.kernels.maxsim import max_sim_scores

    scores = np.zeros(len(asked), np.float32)
    names, starts = np.unique(asked, return_index=True)
    for name, start, stop in zip(names, starts, [*starts[1:], len(asked)], strict=True):
        found = max_sim_scores(rows_of(queries, np.array([name])), rows_of(documents, rows[start:stop]))[0]
        scores[start:stop] = np.where(np.isneginf(found), 0, found)
    return scores
