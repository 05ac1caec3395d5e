"""Scores of given documents from the stored vectors of a corpus: those documents' alone are read, and nothing is searched."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexbench.encodings.shards import read_rows
from lexbench.engines._top_k import same_width
from lexbench.retrievers._query_vectors import QueryVectors

_ROWS = 4096  # documents whose vectors are in memory at a time


@dataclass(frozen=True)
class StoredVectors(QueryVectors):
    """The vectors in the folder *path*, with the transforms of an `encoder|transform@engine`, whose index is not needed."""

    path: Path

    def score(self, encoded: Any, docs: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the dot products (queries, n) of each query's vector with those of its documents *docs*.

        Those of sparse vectors are added up in float64, so that sums of whole weights are exact before they are rounded.
        """
        scores = np.zeros(docs.shape, np.float32)
        wanted = np.unique(docs[docs >= 0])
        for start in range(0, len(wanted), _ROWS):
            some = wanted[start : start + _ROWS]
            products = _products(encoded, self.retriever.as_documents(read_rows(self.path, some)))
            inside = (docs >= some[0]) & (docs <= some[-1])
            scores[inside] = products[np.nonzero(inside)[0], np.searchsorted(some, docs[inside])]
        return scores


def _products(queries: Any, documents: Any) -> NDArray[Any]:
    """Return the dot products (queries, documents)."""
    same_width(queries.shape[1], documents.shape[1])
    if isinstance(documents, np.ndarray):
        return np.asarray(queries @ documents.T)
    return np.asarray((queries.astype(np.float64) @ documents.astype(np.float64).T).toarray())
