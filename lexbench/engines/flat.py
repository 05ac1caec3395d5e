"""Exact dense search: every product, a block at a time, over memory-mapped vectors."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.engines import _matrix_file
from lexbench.engines.kernels.checks import all_finite, no_hits, same_width
from lexbench.plugins import Engine, Index
from lexbench.types import Hits, Kind

_QUERIES = 4096  # searched in one pass over the index: more would hardly be faster, and take more memory


@dataclass(frozen=True)
class FlatIndex(Index):
    """Document vectors on disk, row i at position i."""

    vectors: NDArray[Any]  # (documents, dimensions), float32 or float16, memory-mapped

    def search(self, queries: NDArray[np.float32], k: int) -> Hits:
        """Return the *k* largest dot products of each of *queries* (queries, dimensions); float32 as BLAS adds them up.

        Memory: 16 MB of products, at most 17 bytes x 4,096 x k of candidates, and the hits. Raises LexbenchError for queries of
        another width, or with values that are not finite.
        """
        from lexbench.engines.kernels.dense import best

        if len(self.vectors):
            same_width(queries.shape[1], self.vectors.shape[1], "dimensions")
        all_finite(queries, "a query vector")
        hits = no_hits(len(queries), min(k, len(self.vectors)))
        for start in range(0, len(queries), _QUERIES):
            batch = slice(start, start + _QUERIES)
            hits.docs[batch], hits.scores[batch] = best([self.vectors], queries[batch], hits.docs.shape[1])
        return hits


@dataclass(frozen=True)
class Flat(Engine):
    """Every document vector is multiplied with every query vector; nothing is approximate.

    With *storage* float16 the index is half as large, and scores are those of the rounded document vectors; products and sums
    are float32 in both cases. BLAS chooses its number of threads (OMP_NUM_THREADS and the like). Up to 16 queries are
    multiplied by a loop of ours in one thread, which is twice as fast as BLAS in one.
    """

    storage: str = "float32"

    kind: ClassVar[Kind] = Kind.DENSE
    exact: ClassVar[bool] = True
    version: ClassVar[int] = 2
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise CommandError for an unknown storage."""
        _matrix_file.check_storage("flat", self.storage)

    def build(self, shards: Iterable[NDArray[np.float32]], path: Path) -> None:
        """Write the vectors of *shards* (n, dimensions) into *path*.

        Raises LexbenchError for shards of different widths, and for values that are not finite in the storage's type.
        """
        _matrix_file.write("flat", self.storage, shards, path)

    def open(self, path: Path) -> FlatIndex:
        """Map the vectors into memory, and compile the search if it has not been compiled on this machine before."""
        vectors = _matrix_file.mapped(path)
        if len(vectors):
            for count in (1, _QUERIES):  # our loop, and BLAS
                FlatIndex(vectors[:1]).search(np.zeros((count, vectors.shape[1]), np.float32), 1)
        return FlatIndex(vectors)
