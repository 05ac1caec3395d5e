"""Qdrant on whole weights, exactly: sparse vectors, in this process or on a server or cluster."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from lexbench.engines._qdrant import QdrantEngine, QdrantIndex
from lexbench.engines.kernels.checks import impacts, largest_weights, sums_fit
from lexbench.types import Hits, Kind

_LARGEST = "largest_weight.npy"


@dataclass(frozen=True)
class Qdrant(QdrantEngine):
    """An inverted index of whole weights: their sums are the same in every engine, so its lists are those of `csr`.

    *url*: of a server or cluster, e.g. "http://localhost:6333"; "" keeps the index in the store and searches it in this
    process. An API key is only read from the environment variable QDRANT_API_KEY. *shards* and *replicas* of a collection on a
    server are set when it is made. Weights above 65,535, and queries whose scores could be above 2**24, are refused.
    """

    name: ClassVar[str] = "qdrant"
    kind: ClassVar[Kind] = Kind.SPARSE
    impacts: ClassVar[bool] = True

    def rows(self, vectors: sparse.csr_array, what: str) -> Iterator[Any]:  # noqa: ARG002 - both are refused in the same words
        """Yield the terms and weights of each row, None for an empty one. Raises LexbenchError as `impacts` does."""
        matrix = impacts(vectors, "qdrant")
        weights = matrix.data.astype(np.float32)
        for start, stop in pairwise(matrix.indptr.tolist()):
            yield (matrix.indices[start:stop], weights[start:stop]) if stop > start else None

    def build(self, shards: Iterable[sparse.csr_array], path: Path) -> None:
        """Index *shards* (n, vocabulary) of whole weights up to 65,535. Raises LexbenchError for any other weight."""
        largest = np.zeros(0, np.float32)

        def watched() -> Iterator[sparse.csr_array]:
            nonlocal largest
            for shard in shards:
                largest = largest_weights(largest, impacts(shard, "qdrant"))
                yield shard

        super().build(watched(), path)
        np.save(path / _LARGEST, largest)

    def open(self, path: Path) -> "SparseQdrantIndex":
        """Open the folder, or the collection on the server. Raises MissingData if the server has lost it."""
        return SparseQdrantIndex(self, path)


class SparseQdrantIndex(QdrantIndex):
    """An opened index of whole weights."""

    def __init__(self, settings: Qdrant, path: Path) -> None:
        super().__init__(settings, path)
        self._largest = np.load(path / _LARGEST)

    def search(self, queries: sparse.csr_array, k: int) -> Hits:
        """Return the best *k* documents of each of *queries* (queries, vocabulary) of whole weights."""
        if self._documents and queries.shape[1] == self._width:
            sums_fit(impacts(queries, "qdrant"), self._largest, "qdrant")
        return super().search(queries, k)
