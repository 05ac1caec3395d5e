"""Qdrant on dense vectors, exactly: every product, in this process or on a server or cluster."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.engines._qdrant import QdrantEngine
from lexbench.engines.kernels.checks import all_finite
from lexbench.types import Kind


@dataclass(frozen=True)
class QdrantDense(QdrantEngine):
    """Dot products of float32, without a graph; a last bit may differ from those of `flat`, which adds in another order.

    *url*: of a server or cluster, e.g. "http://localhost:6333"; "" keeps the index in the store and searches it in this
    process. An API key is only read from the environment variable QDRANT_API_KEY. *shards* of a collection on a server
    are set when it is made.
    """

    name: ClassVar[str] = "qdrant_dense"
    kind: ClassVar[Kind] = Kind.DENSE

    def rows(self, vectors: NDArray[np.float32], what: str) -> Iterator[Any]:
        """Yield each row. Raises LexbenchError for values that are not finite."""
        all_finite(vectors, what)
        return iter(vectors)
