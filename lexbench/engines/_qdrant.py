"""Qdrant, as three engines use it: inside this process (Qdrant Edge), or a server or cluster by its URL (qdrant-client).

A document's id is its position. Scores are Qdrant's own exact ones; where documents tie at the end of a list, Qdrant is asked
again for all of that score, so that lists are those of our own exact engines.
"""

import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from platform import node
from typing import Any, ClassVar, Protocol

import numpy as np

from lexbench.engines._quiet import quiet
from lexbench.engines._ties import Ask, Found, fill_exactly
from lexbench.engines.kernels.checks import no_hits
from lexbench.errors import CannotStart, CommandError, LexbenchError, MissingData, require
from lexbench.plugins import Engine
from lexbench.registry import runtime
from lexbench.storage import atomic
from lexbench.storage.artifacts import digest
from lexbench.types import Hits, Kind

KEY_VARIABLE = "QDRANT_API_KEY"
_FACTS = "collection.json"
_NAME = "v"  # of the one vector of a point
_POINTS = 1000  # that are sent at a time
_WAIT = 3600.0  # seconds in which a server must have indexed what it was sent

Point = tuple[int, Any]  # a position, and its vector as Qdrant takes it


class Backend(Protocol):
    """A collection of Qdrant, wherever it is."""

    def add(self, points: Sequence[Point]) -> None:
        """Add points."""

    def finish(self) -> None:
        """Make what was added searchable, and wait until it is."""

    def count(self) -> int:
        """Return how many points there are."""

    def search(self, vector: Any, limit: int, least: float | None) -> Found:
        """Return the best *limit* points for a query *vector*, none with a score below *least*."""


@dataclass(frozen=True)
class QdrantSettings(Engine):
    """The settings of the three engines.

    *url*: of a server or cluster, as "http://localhost:6333"; "" keeps the index in the store and searches it in this process.
    An API key is taken from the environment variable QDRANT_API_KEY and nowhere else. *shards* and *replicas* of a collection
    on a server are set when it is made. Search is exact: no graph is used.
    """

    url: str = ""
    shards: int = runtime(1)
    replicas: int = runtime(1)

    remote: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse keys in addresses, which are in recipes and results."""
        if "@" in self.url:
            raise CommandError(f"a url of qdrant has no name and no key in it, for results show it; set {KEY_VARIABLE}")
        if min(self.shards, self.replicas) < 1:
            raise CommandError("qdrant: shards and replicas are 1 or more")

    def write(self, kind: Kind, points: Iterator[Point], path: Path, facts: dict[str, Any]) -> None:
        """Make the collection of *points*, and write what is known of it into *path*; *facts* are filled while points come."""
        backend: Backend | None = None
        count = 0
        block: list[Point] = []

        def send() -> None:
            nonlocal backend, count
            backend = backend or self._make(kind, int(facts["width"]), path)
            backend.add(block)
            count += len(block)
            block.clear()

        for point in points:
            block.append(point)
            if len(block) == _POINTS:
                send()
        if block:
            send()
        if backend is not None:
            backend.finish()
            if (there := backend.count()) != count:
                raise LexbenchError(f"qdrant has {there:,} of the {count:,} points that it was sent; give the command again")
        facts |= {"points": count, "collection": self._name(path) if self.url else ""}
        atomic.write_json(path / _FACTS, facts)

    def _name(self, path: Path) -> str:
        """Return what the collection of an index is called: the same when its building is begun again."""
        return f"lexbench-{digest([node(), str(path.resolve())])}"

    def _make(self, kind: Kind, width: int, path: Path) -> Backend:
        if self.url:
            server = Server(self.url, self._name(path), kind)
            server.make(width, self.shards, self.replicas)
            return server
        return Edge(path / "edge", kind, width)

    def opened(self, kind: Kind, path: Path) -> tuple[Backend | None, dict[str, Any]]:
        """Return the collection, None where it has no points, and its facts; MissingData where the server has lost it."""
        facts = json.loads((path / _FACTS).read_bytes())
        if not facts["points"]:
            return None, facts
        backend: Backend = Server(self.url, facts["collection"], kind) if self.url else Edge(path / "edge", kind)
        if (there := backend.count()) != facts["points"]:
            raise MissingData(
                f"{self.url} has {there:,} of the {facts['points']:,} points of {facts['collection']}: "
                f"remove {path.parent}, and the command that made it makes it again"
            )
        return backend, facts


def searched(backend: Backend | None, vectors: Sequence[Any], k: int, documents: int) -> Hits:
    """Return the best *k* of *documents* for each of the *vectors*, as Qdrant takes them; None finds nothing."""
    hits = no_hits(len(vectors), min(k, documents))
    for row, vector in enumerate(vectors):
        if backend is not None and vector is not None and hits.docs.shape[1]:
            fill_exactly(hits, row, _asking(backend, vector), documents)
    return hits


def _asking(backend: Backend, vector: Any) -> Ask:
    return lambda limit, least: backend.search(vector, limit, least)


def _found(points: Sequence[Any]) -> Found:
    docs = np.fromiter((point.id for point in points), np.int64, len(points))
    return docs, np.fromiter((point.score for point in points), np.float32, len(points))


def _below(least: float | None) -> float | None:
    """Return a threshold that keeps a score of *least*: Qdrant's is exclusive in some versions and inclusive in others."""
    return None if least is None else float(np.nextafter(np.float32(least), np.float32(-np.inf)))


class Edge:
    """A collection in a folder, searched in this process."""

    def __init__(self, path: Path, kind: Kind, width: int = 0) -> None:
        import qdrant_edge

        self._edge: Any = qdrant_edge
        self._kind = kind
        with quiet():
            if not width:
                self._shard = qdrant_edge.EdgeShard.load(str(path))
                return
            # Without its log, which keeps others from opening it: what is not finished is built anew.
            self._shard = qdrant_edge.EdgeShard.create(
                str(path), qdrant_edge.EdgeConfig(wal_enabled=False, **self._form(width))
            )

    def _form(self, width: int) -> dict[str, Any]:
        edge = self._edge
        if self._kind is Kind.SPARSE:
            return {"sparse_vectors": {_NAME: edge.EdgeSparseVectorParams()}}
        many = edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim) if self._kind is Kind.MULTI else None
        return {"vectors": {_NAME: edge.EdgeVectorParams(size=width, distance=edge.Distance.Dot, multivector_config=many)}}

    def _vector(self, vector: Any) -> Any:
        return self._edge.SparseVector(*vector) if self._kind is Kind.SPARSE else vector

    def add(self, points: Sequence[Point]) -> None:
        """Add points."""
        edge = self._edge
        ready = [edge.Point(position, {_NAME: self._vector(vector)}) for position, vector in points]
        with quiet():
            self._shard.update(edge.UpdateOperation.upsert_points(ready))

    def finish(self) -> None:
        """Optimise, and write to the disk."""
        with quiet():
            self._shard.optimize()
            self._shard.flush()

    def count(self) -> int:
        """Return how many points there are."""
        return int(self._shard.count(self._edge.CountRequest()))

    def search(self, vector: Any, limit: int, least: float | None) -> Found:
        """Search exactly."""
        edge = self._edge
        request = edge.QueryRequest(
            limit=limit,
            query=edge.Query.Nearest(self._vector(vector), using=_NAME),
            score_threshold=_below(least),
            params=edge.SearchParams(exact=True),
        )
        return _found(self._shard.query(request))


class Server:
    """A collection on a server."""

    def __init__(self, url: str, name: str, kind: Kind) -> None:
        self._client, self._name, self._kind, self._url = connect(url), name, kind, url

    def make(self, width: int, shards: int, replicas: int) -> None:
        """Make the collection anew, in place of what a build that was cut off may have left."""
        from qdrant_client import models

        settings: dict[str, Any] = {"shard_number": shards, "replication_factor": replicas}
        if self._kind is Kind.SPARSE:
            settings |= {"vectors_config": {}, "sparse_vectors_config": {_NAME: models.SparseVectorParams()}}
        else:
            many = (
                models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM) if self._kind is Kind.MULTI else None
            )
            settings["vectors_config"] = {
                _NAME: models.VectorParams(size=width, distance=models.Distance.DOT, multivector_config=many)
            }
        with self._said():
            self._client.delete_collection(self._name)
            self._client.create_collection(self._name, **settings)

    def _vector(self, vector: Any) -> Any:
        from qdrant_client import models

        if self._kind is Kind.SPARSE:
            return models.SparseVector(indices=vector[0].tolist(), values=vector[1].tolist())
        return vector.tolist()

    def add(self, points: Sequence[Point]) -> None:
        """Send points, and wait until the server has them."""
        from qdrant_client import models

        ready = [models.PointStruct(id=position, vector={_NAME: self._vector(vector)}) for position, vector in points]
        with self._said():
            self._client.upsert(self._name, ready, wait=True)

    def finish(self) -> None:
        """Wait until the server has indexed what it has; LexbenchError where that takes too long."""
        end = time.monotonic() + _WAIT
        with self._said():
            while (status := self._client.get_collection(self._name).status) != "green":
                if time.monotonic() > end:
                    raise LexbenchError(f"{self._url} has not indexed {self._name} in {_WAIT:,.0f} s: its status is {status}")
                time.sleep(1)

    def count(self) -> int:
        """Return how many points there are; 0 where there is no such collection."""
        with self._said():
            return int(self._client.count(self._name).count) if self._client.collection_exists(self._name) else 0

    def search(self, vector: Any, limit: int, least: float | None) -> Found:
        """Search exactly."""
        from qdrant_client import models

        with self._said():
            answer = self._client.query_points(
                self._name,
                query=self._vector(vector),
                using=_NAME,
                limit=limit,
                score_threshold=_below(least),
                search_params=models.SearchParams(exact=True),
                with_payload=False,
            )
        return _found(answer.points)

    def _said(self) -> AbstractContextManager[None]:
        return _one_line(self._url)


@contextmanager
def _one_line(url: str) -> Iterator[None]:
    """Let what the client raises be one line that names the server."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in {"qdrant_client", "httpx", "httpcore"}:
            raise
        reason = " ".join(str(error).split())[:200]
        raise CannotStart(f"qdrant at {url}: {type(error).__name__}: {reason}; is it running, is {KEY_VARIABLE} set?") from None


def connect(url: str) -> Any:
    """Return a client of the server at *url*."""
    require("engine 'qdrant' with a url", ("qdrant_client",), "qdrant")
    from qdrant_client import QdrantClient

    with _one_line(url):
        return QdrantClient(url=url, api_key=os.environ.get(KEY_VARIABLE) or None, timeout=600)
