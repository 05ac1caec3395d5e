"""Qdrant on dense vectors, exactly: every product, in this process or on a server or cluster."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.engines._qdrant import Point, QdrantSettings, searched
from lexbench.engines.kernels.checks import all_finite, one_width, same_width
from lexbench.plugins import Index
from lexbench.types import Hits, Kind


@dataclass(frozen=True)
class QdrantDense(QdrantSettings):
    """Dot products of float32, without a graph; a last bit may differ from those of `flat`, which adds in another order.

    *url*: of a server or cluster, as "http://localhost:6333"; "" keeps the index in the store and searches it in this process.
    An API key is taken from the environment variable QDRANT_API_KEY and nowhere else. *shards* and *replicas* of a collection
    on a server are set when it is made.
    """

    kind: ClassVar[Kind] = Kind.DENSE
    exact: ClassVar[bool] = True
    version: ClassVar[int] = 1
    deterministic: ClassVar[bool] = False
    requires: ClassVar[tuple[str, ...]] = ("qdrant_edge",)
    extra: ClassVar[str] = "qdrant"

    def build(self, shards: Iterable[NDArray[np.float32]], path: Path) -> None:
        """Index (n, dimensions) shards; LexbenchError for shards of different widths, and for values that are no numbers."""
        facts: dict[str, Any] = {"documents": 0, "width": 0}

        def points() -> Iterator[Point]:
            for shard in shards:
                all_finite(shard, "a document vector")
                facts["width"] = one_width("qdrant_dense", facts["width"], shard.shape[1])
                first = facts["documents"]
                facts["documents"] += len(shard)
                yield from ((first + row, vector) for row, vector in enumerate(shard))

        self.write(self.kind, points(), path, facts)

    def open(self, path: Path) -> "QdrantDenseIndex":
        """Open the folder, or the collection on the server; MissingData where the server has lost it."""
        return QdrantDenseIndex(self, path)


class QdrantDenseIndex(Index):
    """An opened index."""

    def __init__(self, settings: QdrantDense, path: Path) -> None:
        self._backend, facts = settings.opened(settings.kind, path)
        self._documents, self._width = int(facts["documents"]), int(facts["width"])

    def search(self, queries: NDArray[np.float32], k: int) -> Hits:
        """Return the *k* largest dot products of each of *queries* (queries, dimensions)."""
        if self._documents:
            same_width(queries.shape[1], self._width, "dimensions")
        all_finite(queries, "a query vector")
        return searched(self._backend, list(queries), k, self._documents)
