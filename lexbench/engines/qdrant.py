"""Qdrant on whole weights, exactly: sparse vectors, in this process or on a server or cluster."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from lexbench.engines._qdrant import LARGEST, QdrantEngine
from lexbench.engines.kernels.checks import impacts, largest_weights
from lexbench.types import Kind


@dataclass(frozen=True)
class Qdrant(QdrantEngine):
    """An inverted index of whole weights: their sums are the same in every engine, so its lists are those of `csr`.

    *url*: of a server or cluster, e.g. "http://localhost:6333"; "" keeps the index in the store and searches it in this
    process. An API key is only read from the environment variable QDRANT_API_KEY. *shards* of a collection on a server
    are set when it is made. Weights above 65,535, and queries whose scores could be above 2**24, are refused.
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
        np.save(path / LARGEST, largest)
