"""Qdrant on whole weights, exactly: sparse vectors, in this process or on a server or cluster."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from lexbench.engines._qdrant import Point, QdrantSettings, searched
from lexbench.engines._ties import largest_weights, sums_fit
from lexbench.engines.kernels.checks import impacts, same_width
from lexbench.plugins import Index
from lexbench.types import Hits, Kind

_LARGEST = "largest_weight.npy"


@dataclass(frozen=True)
class Qdrant(QdrantSettings):
    """An inverted index of whole weights: their sums are the same in every engine, so its lists are those of `csr`.

    *url*: of a server or cluster, as "http://localhost:6333"; "" keeps the index in the store and searches it in this process.
    An API key is taken from the environment variable QDRANT_API_KEY and nowhere else. *shards* and *replicas* of a collection
    on a server are set when it is made. Weights above 65,535, and queries whose scores could be above 2**24, are refused.
    """

    kind: ClassVar[Kind] = Kind.SPARSE
    exact: ClassVar[bool] = True
    impacts: ClassVar[bool] = True
    version: ClassVar[int] = 1
    deterministic: ClassVar[bool] = False
    requires: ClassVar[tuple[str, ...]] = ("qdrant_edge",)
    extra: ClassVar[str] = "qdrant"

    def build(self, shards: Iterable[sparse.csr_array], path: Path) -> None:
        """Index whole weights up to 65,535, as (n, vocabulary) shards; LexbenchError where a weight is anything else."""
        facts: dict[str, Any] = {"documents": 0, "width": 0}
        largest = np.zeros(0, np.float32)

        def points() -> Iterator[Point]:
            nonlocal largest
            for shard in shards:
                matrix = impacts(shard, "qdrant")
                largest = largest_weights(largest, matrix)
                first, facts["width"] = facts["documents"], matrix.shape[1]
                facts["documents"] += matrix.shape[0]
                for row, vector in enumerate(_rows(matrix)):
                    if vector is not None:
                        yield first + row, vector

        self.write(self.kind, points(), path, facts)
        np.save(path / _LARGEST, largest)

    def open(self, path: Path) -> "QdrantIndex":
        """Open the folder, or the collection on the server; MissingData where the server has lost it."""
        return QdrantIndex(self, path)


class QdrantIndex(Index):
    """An opened index."""

    def __init__(self, settings: Qdrant, path: Path) -> None:
        self._backend, facts = settings.opened(settings.kind, path)
        self._documents, self._width = int(facts["documents"]), int(facts["width"])
        self._largest = np.load(path / _LARGEST)

    def search(self, queries: sparse.csr_array, k: int) -> Hits:
        """Return the best *k* documents of each of *queries* (queries, vocabulary) of whole weights."""
        if self._documents:
            same_width(queries.shape[1], self._width)
        matrix = impacts(queries, "qdrant")
        if self._documents:
            sums_fit(matrix, self._largest, "qdrant")
        return searched(self._backend, list(_rows(matrix)), k, self._documents)


def _rows(matrix: sparse.csr_array) -> Iterator[Any]:
    """Yield terms and weights of each row, None for an empty one."""
    weights = matrix.data.astype(np.float32)
    for start, stop in pairwise(matrix.indptr.tolist()):
        yield (matrix.indices[start:stop], weights[start:stop]) if stop > start else None
