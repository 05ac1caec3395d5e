"""Qdrant on vectors of any kind, exactly: inside this process (Qdrant Edge), or on a server or cluster (qdrant-client).

A document's id is its position. Scores are Qdrant's own exact ones. If documents tie at the end of a list, Qdrant is asked
again for all of that score, so that lists equal those of our own exact engines.
"""

import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from platform import node
from typing import Any, ClassVar, Self

import numpy as np

from lexbench.engines.kernels.checks import (
    Found,
    all_finite,
    fill_exactly,
    largest_weights,
    no_hits,
    one_width,
    quiet,
    same_width,
    sums_fit,
    whole_weights,
)
from lexbench.errors import CannotStart, CommandError, LexbenchError, MissingData, one_line, require
from lexbench.plugins import Engine, Index
from lexbench.registry import runtime
from lexbench.storage import atomic
from lexbench.storage.artifact_folder import digest
from lexbench.types import Hits, Kind

KEY_VARIABLE = "QDRANT_API_KEY"
_FACTS, _LARGEST = "collection.json", "largest_weight.npy"  # the largest weight of each term is of sparse vectors
_NAME = "v"  # of the one vector of a point
_POINTS = 1000  # sent at a time
_WAIT = 3600.0  # seconds in which a server must have indexed what it was sent

Point = tuple[int, Any]  # a position, and its vector in Qdrant's form


@dataclass(frozen=True)
class Qdrant(Engine):
    """Search is exact: no graph is used.

    *url* is the address of a server or cluster, e.g. "http://localhost:6333"; with "" the index is in the store and searched in
    this process. An API key is only read from the environment variable QDRANT_API_KEY. *shards* of a collection on a server are
    set when it is made.

    Sparse vectors have whole weights: their sums are the same in every engine, so the lists are those of `csr`. Weights above
    65,535, and queries whose scores could be above 2**24, are refused. Dense vectors and vectors per token (MaxSim) are
    float32; the last bit of a score may differ from that of `flat` and `maxsim`. A document without terms or tokens is never
    found.
    """

    url: str = ""
    shards: int = runtime(1)

    kind: ClassVar[Kind] = Kind.SPARSE  # an instance has its own, see `for_kind`
    kinds: ClassVar[tuple[Kind, ...]] = (Kind.SPARSE, Kind.DENSE, Kind.MULTI)
    impacts: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    remote: ClassVar[bool] = True
    requires: ClassVar[tuple[str, ...]] = ("qdrant_edge",)
    extra: ClassVar[str] = "qdrant"

    def __post_init__(self) -> None:
        """Raise CommandError for an address with a key in it, because results show it, and for a number of shards below 1."""
        if "@" in self.url:
            raise CommandError(f"results show the url of qdrant, so write no name and no key in it; set {KEY_VARIABLE}")
        if self.shards < 1:
            raise CommandError("qdrant: shards is 1 or more")

    def for_kind(self, kind: Kind) -> Self:
        """Return a copy for vectors of *kind*."""
        copy = replace(self)
        object.__setattr__(copy, "kind", kind)
        object.__setattr__(copy, "impacts", kind is Kind.SPARSE)
        return copy

    def rows(self, vectors: Any, what: str) -> Iterator[Any]:
        """Yield each of *vectors* (n, width) in Qdrant's form, None for an empty one.

        Raises LexbenchError for values that Qdrant cannot hold; the message calls a dense vector *what*.
        """
        if self.kind is Kind.SPARSE:
            matrix = whole_weights(vectors, "qdrant")
            weights = matrix.data.astype(np.float32)
            for start, stop in pairwise(matrix.indptr.tolist()):
                yield (matrix.indices[start:stop], weights[start:stop]) if stop > start else None
        elif self.kind is Kind.DENSE:
            all_finite(vectors, what)
            yield from vectors
        else:
            all_finite(vectors.values, what)
            for start, stop in pairwise(vectors.offsets.tolist()):
                yield vectors.values[start:stop] if stop > start else None

    def build(self, shards: Iterable[Any], path: Path) -> None:
        """Index *shards* (n, width). Raises LexbenchError for shards of different widths, and for impossible values."""
        facts: dict[str, Any] = {"documents": 0, "width": 0}
        largest = np.zeros(0, np.float32)

        def points() -> Iterator[Point]:
            nonlocal largest
            for shard in shards:
                facts["width"] = one_width("qdrant", facts["width"], shard.shape[1])
                if self.kind is Kind.SPARSE:
                    largest = largest_weights(largest, whole_weights(shard, "qdrant"))
                vectors = enumerate(self.rows(shard, "a document vector"), facts["documents"])
                yield from ((position, vector) for position, vector in vectors if vector is not None)
                facts["documents"] += shard.shape[0]

        backend: Edge | Server | None = None  # made when the width is known
        sent, waiting = 0, points()
        while block := list(islice(waiting, _POINTS)):
            backend = backend or self._make(int(facts["width"]), path)
            backend.add(block)
            sent += len(block)
        if backend is not None:
            backend.finish()
            if (there := backend.count()) != sent:
                raise LexbenchError(f"qdrant has {there:,} of the {sent:,} points that it was sent; give the command again")
        facts |= {"points": sent, "collection": self._collection(path) if self.url else ""}
        np.save(path / _LARGEST, largest)
        atomic.write_json(path / _FACTS, facts)

    def open(self, path: Path) -> "QdrantIndex":
        """Open the folder, or the collection on the server. Raises MissingData if the server has lost it."""
        return QdrantIndex(self, path)

    def _collection(self, path: Path) -> str:
        """Return the name of the collection for *path*: the same if building is started again."""
        return f"lexbench-{digest([node(), str(path.resolve())])}"

    def _make(self, width: int, path: Path) -> "Edge | Server":
        """Make and return a new, empty collection."""
        if self.url:
            server = Server(self.url, self._collection(path), self.kind)
            server.make(width, self.shards)
            return server
        return Edge(path / "edge", self.kind, width)


class QdrantIndex(Index):
    """An opened index."""

    def __init__(self, settings: Qdrant, path: Path) -> None:
        facts = json.loads((path / _FACTS).read_bytes())
        self._settings = settings
        self._documents, self._width = int(facts["documents"]), int(facts["width"])
        self._largest = np.load(path / _LARGEST)  # (vocabulary,) of sparse vectors
        self._backend: Edge | Server | None = None  # if there is no point
        if facts["points"]:
            name, kind = facts["collection"], settings.kind
            self._backend = Server(settings.url, name, kind) if settings.url else Edge(path / "edge", kind)
            if (there := self._backend.count()) != facts["points"]:
                raise MissingData(
                    f"{settings.url} has {there:,} of the {facts['points']:,} points of {name}: "
                    f"remove {path.parent}, and the command that made it makes it again"
                )

    def search(self, queries: Any, k: int) -> Hits:
        """Return the best *k* documents of each of *queries* (queries, width); an empty one finds nothing.

        Raises LexbenchError if a sum of whole weights could be too large for float32.
        """
        if self._documents:
            same_width(queries.shape[1], self._width, "terms" if self._settings.kind is Kind.SPARSE else "dimensions")
        if self._documents and self._settings.kind is Kind.SPARSE:
            sums_fit(whole_weights(queries, "qdrant"), self._largest, "qdrant")
        hits = no_hits(queries.shape[0], min(k, self._documents))
        for row, vector in enumerate(self._settings.rows(queries, "a query vector")):
            if self._backend is not None and vector is not None and hits.docs.shape[1]:
                fill_exactly(hits, row, partial(self._backend.search, vector), self._documents)
        return hits


def _found(points: Sequence[Any]) -> Found:
    """Return the positions and scores of *points*."""
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
            form: dict[str, Any] = {"sparse_vectors": {_NAME: qdrant_edge.EdgeSparseVectorParams()}}
            if kind is not Kind.SPARSE:
                many = qdrant_edge.MultiVectorConfig(qdrant_edge.MultiVectorComparator.MaxSim) if kind is Kind.MULTI else None
                params: dict[str, Any] = {"size": width, "distance": qdrant_edge.Distance.Dot, "multivector_config": many}
                form = {"vectors": {_NAME: qdrant_edge.EdgeVectorParams(**params)}}
            # Without a log, which would keep others from opening it: an unfinished index is built again.
            self._shard = qdrant_edge.EdgeShard.create(str(path), qdrant_edge.EdgeConfig(wal_enabled=False, **form))

    def _vector(self, vector: Any) -> Any:
        """Return Qdrant's object for a vector."""
        return self._edge.SparseVector(*vector) if self._kind is Kind.SPARSE else vector

    def add(self, points: Sequence[Point]) -> None:
        """Add points."""
        edge = self._edge
        ready = [edge.Point(position, {_NAME: self._vector(vector)}) for position, vector in points]
        with quiet():
            self._shard.update(edge.UpdateOperation.upsert_points(ready))

    def finish(self) -> None:
        """Optimise the index, and write it to disk."""
        with quiet():
            self._shard.optimize()
            self._shard.flush()

    def count(self) -> int:
        """Return the number of points."""
        return int(self._shard.count(self._edge.CountRequest()))

    def search(self, vector: Any, limit: int, least: float | None) -> Found:
        """Return the best *limit* points for a query *vector*, exactly, none with a score below *least*."""
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

    def make(self, width: int, shards: int) -> None:
        """Make the collection, and delete one that an interrupted build has left."""
        from qdrant_client import models

        settings: dict[str, Any] = {"shard_number": shards}
        if self._kind is Kind.SPARSE:
            settings |= {"vectors_config": {}, "sparse_vectors_config": {_NAME: models.SparseVectorParams()}}
        else:
            largest = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
            many = largest if self._kind is Kind.MULTI else None
            params = models.VectorParams(size=width, distance=models.Distance.DOT, multivector_config=many)
            settings["vectors_config"] = {_NAME: params}
        with client_errors(self._url):
            self._client.delete_collection(self._name)
            self._client.create_collection(self._name, **settings)

    def _vector(self, vector: Any) -> Any:
        """Return Qdrant's object for a vector."""
        from qdrant_client import models

        if self._kind is Kind.SPARSE:
            return models.SparseVector(indices=vector[0].tolist(), values=vector[1].tolist())
        return vector.tolist()

    def add(self, points: Sequence[Point]) -> None:
        """Send points, and wait until the server has them."""
        from qdrant_client import models

        ready = [models.PointStruct(id=position, vector={_NAME: self._vector(vector)}) for position, vector in points]
        with client_errors(self._url):
            self._client.upsert(self._name, ready, wait=True)

    def finish(self) -> None:
        """Wait until the server has indexed all points. Raises LexbenchError if that takes too long."""
        end = time.monotonic() + _WAIT
        with client_errors(self._url):
            while (status := self._client.get_collection(self._name).status) != "green":
                if time.monotonic() > end:
                    raise LexbenchError(f"{self._url} has not indexed {self._name} in {_WAIT:,.0f} s: its status is {status}")
                time.sleep(1)

    def count(self) -> int:
        """Return the number of points; 0 if there is no such collection."""
        with client_errors(self._url):
            return int(self._client.count(self._name).count) if self._client.collection_exists(self._name) else 0

    def search(self, vector: Any, limit: int, least: float | None) -> Found:
        """Return the best *limit* points for a query *vector*, exactly, none with a score below *least*."""
        from qdrant_client import models

        with client_errors(self._url):
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


@contextmanager
def client_errors(place: str, *more: type[Exception]) -> Iterator[None]:
    """Turn errors of the client, and those of the types *more*, into one line that names the server or folder *place*."""
    try:
        yield
    except Exception as error:
        package = type(error).__module__.partition(".")[0]
        if package not in {"qdrant_client", "httpx", "httpcore"} and not isinstance(error, more):
            raise
        hint = f"is it running, is the name right, is {KEY_VARIABLE} set?"
        raise CannotStart(f"qdrant at {place}: {type(error).__name__}: {one_line(str(error))[:200]}; {hint}") from None


def connect(url: str, timeout: int = 600) -> Any:
    """Return a client of the server at *url*, which may take *timeout* seconds for an answer."""
    require("engine 'qdrant' with a url", ("qdrant_client",), "qdrant")
    from qdrant_client import QdrantClient

    with client_errors(url):
        return QdrantClient(url=url, api_key=os.environ.get(KEY_VARIABLE) or None, timeout=timeout)
