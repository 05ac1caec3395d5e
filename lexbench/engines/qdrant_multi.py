"""Qdrant on a vector a token, exactly: MaxSim over all documents, in this process or on a server or cluster."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

from lexbench.engines._qdrant import Point, QdrantSettings, searched
from lexbench.engines.kernels.checks import all_finite, one_width, same_width
from lexbench.plugins import Index
from lexbench.types import Hits, Kind, MultiVectors


@dataclass(frozen=True)
class QdrantMulti(QdrantSettings):
    """Late interaction in float32; a last bit may differ from that of `maxsim`. A document without tokens is never found.

    *url*: of a server or cluster, as "http://localhost:6333"; "" keeps the index in the store and searches it in this process.
    An API key is taken from the environment variable QDRANT_API_KEY and nowhere else. *shards* and *replicas* of a collection
    on a server are set when it is made.
    """

    kind: ClassVar[Kind] = Kind.MULTI
    exact: ClassVar[bool] = True
    version: ClassVar[int] = 1
    deterministic: ClassVar[bool] = False
    requires: ClassVar[tuple[str, ...]] = ("qdrant_edge",)
    extra: ClassVar[str] = "qdrant"

    def build(self, shards: Iterable[MultiVectors], path: Path) -> None:
        """Index shards; LexbenchError for shards of different widths, and for values that are no numbers."""
        facts: dict[str, Any] = {"documents": 0, "width": 0}

        def points() -> Iterator[Point]:
            for shard in shards:
                all_finite(shard.values, "a document vector")
                facts["width"] = one_width("qdrant_multi", facts["width"], shard.shape[1])
                first = facts["documents"]
                facts["documents"] += shard.shape[0]
                yield from ((first + row, vectors) for row, vectors in enumerate(_rows(shard)) if vectors is not None)

        self.write(self.kind, points(), path, facts)

    def open(self, path: Path) -> "QdrantMultiIndex":
        """Open the folder, or the collection on the server; MissingData where the server has lost it."""
        return QdrantMultiIndex(self, path)


class QdrantMultiIndex(Index):
    """An opened index."""

    def __init__(self, settings: QdrantMulti, path: Path) -> None:
        self._backend, facts = settings.opened(settings.kind, path)
        self._documents, self._width = int(facts["documents"]), int(facts["width"])

    def search(self, queries: MultiVectors, k: int) -> Hits:
        """Return the best *k* documents of each of *queries*; a query without tokens finds nothing."""
        if self._documents:
            same_width(queries.shape[1], self._width, "dimensions")
        all_finite(queries.values, "a query vector")
        return searched(self._backend, list(_rows(queries)), k, self._documents)


def _rows(vectors: MultiVectors) -> Iterator[Any]:
    """Yield the vectors (tokens, dimensions) of each text, None for one without tokens."""
    for start, stop in pairwise(vectors.offsets.tolist()):
        yield vectors.values[start:stop] if stop > start else None
