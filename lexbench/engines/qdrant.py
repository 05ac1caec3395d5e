"""Qdrant on vectors of any kind, exactly, on a server or cluster; and collections on a server that others built.

A document's id is its position. Scores are Qdrant's own exact ones. If documents tie at the end of a list, Qdrant is asked
again for all of that score, so that lists equal those of our own exact engines.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import SplitResult, parse_qs

import numpy as np

from lexbench.engines.kernels.checks import (
    Found,
    all_finite,
    fill_exactly,
    largest_weights,
    no_hits,
    one_width,
    same_width,
    sums_fit,
    whole_weights,
)
from lexbench.errors import CannotStart, CommandError, LexbenchError, echoed, one_line, require, shortened
from lexbench.outside.filters import RANGES, Condition, conditions
from lexbench.outside.http_client import check_encrypted, checked_address
from lexbench.outside.running import as_json, check_there, csr_rows, kept_name, own_name, server_of, similarity_called
from lexbench.plugins import Engine, Index, RunningIndex
from lexbench.registry import runtime
from lexbench.storage import atomic
from lexbench.storage.artifact_folder import write_server_bytes
from lexbench.types import Hits, Kind

KEY_VARIABLE = "QDRANT_API_KEY"
_FACTS, _LARGEST = "collection.json", "largest_weight.npy"  # the largest weight of each term is of sparse vectors
_NAME = "v"  # of the one vector of a point
_POINTS = 1000  # sent at a time
_SECONDS = 60  # that a server has to answer one query
_WAIT = 3600.0  # seconds in which a server must have indexed what it was sent

Point = tuple[int, Any]  # a position, and its vector in Qdrant's form


@dataclass(frozen=True)
class Qdrant(Engine):
    """Search is exact: no graph is used.

    *url* is the address of a server or cluster. An API key is only read from the environment variable QDRANT_API_KEY. *shards*
    of a collection are set when it is made.

    Sparse vectors have whole weights: their sums are the same in every engine, so the lists are those of `csr`. Weights above
    65,535, and queries whose scores could be above 2**24, are refused. Dense vectors and vectors per token (MaxSim) are
    float32; the last bit of a score may differ from that of `flat` and `maxsim`. A document without terms or tokens is never
    found.
    """

    url: str = "http://localhost:6333"
    shards: int = runtime(1)

    kind: ClassVar[Kind] = Kind.SPARSE  # an instance has its own, see `for_kind`
    kinds: ClassVar[tuple[Kind, ...]] = (Kind.SPARSE, Kind.DENSE, Kind.MULTI)
    impacts: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    remote: ClassVar[bool] = True
    requires: ClassVar[tuple[str, ...]] = ("qdrant_client",)
    extra: ClassVar[str] = "qdrant"

    def __post_init__(self) -> None:
        """Raise CommandError for a malformed address, one with a key in it, and for a number of shards below 1."""
        checked_address(self.url, "qdrant")
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

        name = own_name(path)
        server, made = Server(self.url, name, self.kind), False
        sent, waiting = 0, points()
        while block := list(islice(waiting, _POINTS)):
            if not made:  # the width is known now
                server.make(int(facts["width"]), self.shards)
                made = True
            server.add(block)
            sent += len(block)
        if made:
            server.finish()
            if (there := server.count()) != sent:
                raise LexbenchError(f"qdrant has {there:,} of the {sent:,} points that it was sent; give the command again")
        facts |= {"points": sent, "collection": name}
        np.save(path / _LARGEST, largest)
        write_server_bytes(path, 0)
        atomic.write_json(path / _FACTS, facts)

    def open(self, path: Path) -> "QdrantIndex":
        """Open the collection on the server. Raises MissingData if the server has lost it."""
        return QdrantIndex(self, path)

    def drop(self, path: Path) -> None:
        """Delete the collection."""
        Server(self.url, kept_name(path, _FACTS, "collection"), self.kind).delete()

    @classmethod
    def attach(cls, address: SplitResult) -> RunningIndex:
        """Open the collection at qdrant://HOST:6333/COLLECTION, or in a folder of the client: qdrant:///FOLDER/COLLECTION.

        ?vector=NAME names one of several vectors.
        """
        require("probing Qdrant", cls.requires, cls.extra)
        return RunningQdrant(address)


class QdrantIndex(Index):
    """An opened index."""

    def __init__(self, settings: Qdrant, path: Path) -> None:
        facts = json.loads((path / _FACTS).read_bytes())
        self._settings = settings
        self._documents, self._width = int(facts["documents"]), int(facts["width"])
        self._largest = np.load(path / _LARGEST)  # (vocabulary,) of sparse vectors
        self._server: Server | None = None  # if there is no point
        if facts["points"]:
            name = facts["collection"]
            self._server = Server(settings.url, name, settings.kind)
            check_there(settings.url, name, self._server.count(), facts["points"], path)

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
            if self._server is not None and vector is not None and hits.docs.shape[1]:
                fill_exactly(hits, row, partial(self._server.search, vector), self._documents)
        return hits


def _found(points: Sequence[Any]) -> Found:
    """Return the positions and scores of *points*."""
    docs = np.fromiter((point.id for point in points), np.int64, len(points))
    return docs, np.fromiter((point.score for point in points), np.float32, len(points))


def _below(least: float | None) -> float | None:
    """Return a threshold that keeps a score of *least*: Qdrant's is exclusive in some versions and inclusive in others."""
    return None if least is None else float(np.nextafter(np.float32(least), np.float32(-np.inf)))


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

    def delete(self) -> None:
        """Delete the collection, if there is one."""
        with client_errors(self._url):
            self._client.delete_collection(self._name)

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


# ---- a collection that others built ----------------------------------------------------------------------------------------


class RunningQdrant(RunningIndex):
    """A collection on a server, or in a folder of the client, which is searched exactly.

    Filters are those of the server in JSON, or simple ones, e.g. "tenant = 7".
    """

    def __init__(self, address: SplitResult) -> None:
        from qdrant_client import QdrantClient, models

        folder, _, self._name = address.path.rpartition("/")
        self._using = parse_qs(address.query).get("vector", [""])[0]
        if not address.netloc and not Path(folder).is_dir():  # the client would make it
            raise CannotStart(f"{folder} is no folder; write qdrant:///FOLDER/COLLECTION, or qdrant://HOST:6333/COLLECTION")
        self._models, self._place = models, address.netloc or folder
        with client_errors(self._place):
            self._client: Any = connect(server_of(address), _SECONDS) if address.netloc else QdrantClient(path=folder)
        with client_errors(self._place):
            params: Any = self._client.get_collection(self._name).config.params
        dense: Any = params.vectors.get(self._using) if isinstance(params.vectors, dict) else params.vectors
        self._sparse = dense is None and self._using in (params.sparse_vectors or {})
        if dense is None and not self._sparse:
            known = [*(params.vectors if isinstance(params.vectors, dict) else ()), *(params.sparse_vectors or {})]
            raise CommandError(
                f"{self._name} has the vectors {', '.join(known)}; name one: ?vector={known[0] if known else 'NAME'}"
            )
        self.similarity = "dot" if self._sparse else similarity_called(str(dense.distance.value))
        self.parallel = bool(address.netloc)
        self.knob = "hnsw_ef" if address.netloc and not self._sparse else ""

    def _vector(self, query: Any) -> Any:
        if not self._sparse:
            return query.tolist()
        return self._models.SparseVector(indices=query.indices.tolist(), values=query.data.tolist())

    def search(self, query: Any, k: int, settings: Mapping[str, Any], where: str) -> Sequence[str]:
        """Return the ids of the best *k* points."""
        with client_errors(self._place):
            answer = self._client.query_points(
                self._name,
                query=self._vector(query),
                using=self._using or None,
                limit=k,
                query_filter=self._filter(where),
                search_params=self._models.SearchParams(**settings) if settings else None,
                with_payload=False,
            )
        return [str(point.id) for point in answer.points]

    def _pages(self, **settings: Any) -> Iterator[list[Any]]:
        """Yield all points, in blocks."""
        offset: Any = None
        while True:
            with client_errors(self._place):
                points, offset = self._client.scroll(self._name, limit=_POINTS, offset=offset, **settings)
            yield points
            if offset is None:
                return

    def vectors(self) -> Iterator[tuple[Sequence[str], Any]]:
        """Yield the ids and vectors of all points."""
        for points in self._pages(with_payload=False, with_vectors=True):
            found = [(str(one.id), one.vector[self._using] if self._using else one.vector) for one in points]
            rows = [row for _, row in found]
            sparse_rows = [(np.array(row.indices), np.array(row.values, np.float32)) for row in rows] if self._sparse else []
            yield [name for name, _ in found], csr_rows(sparse_rows) if self._sparse else np.array(rows, np.float32)

    def passing(self, where: str) -> Collection[str]:
        """Return the ids of the points that pass a filter."""
        pages = self._pages(with_payload=False, with_vectors=False, scroll_filter=self._filter(where))
        return {str(one.id) for points in pages for one in points}

    def counts(self, field: str) -> Mapping[Any, int]:
        """Return the number of points with each value of a field of the payload."""
        pages = self._pages(with_payload=[field], with_vectors=False)
        return Counter((one.payload or {}).get(field) for points in pages for one in points)

    def _filter(self, where: str) -> Any:
        """Return a filter as the client's object."""
        if not where:
            return None
        made = self._models
        try:
            if where.lstrip().startswith("{"):
                return made.Filter(**as_json(where))
            known = conditions(where)
            wanted = {"must": [_clause(made, one) for one in known if one.operator != "!="]}
            return made.Filter(**wanted, must_not=[_clause(made, one) for one in known if one.operator == "!="])
        except (TypeError, ValueError) as error:
            raise CommandError(f"filter {echoed(where)}: {shortened(one_line(str(error)), 150)}") from None

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _clause(models: Any, condition: Condition) -> Any:
    """Return a condition as the client's object."""
    field, operator, value = condition
    if operator in RANGES:
        return models.FieldCondition(key=field, range=models.Range(**{RANGES[operator]: value}))
    return models.FieldCondition(key=field, match=models.MatchValue(value=value))


@contextmanager
def client_errors(place: str) -> Iterator[None]:
    """Turn errors of the client into one line that names the server or folder *place*."""
    try:
        yield
    except Exception as error:
        package = type(error).__module__.partition(".")[0]
        if package not in {"qdrant_client", "httpx", "httpcore", "pydantic_core"} and not isinstance(
            error, ValueError | RuntimeError
        ):
            raise
        hint = f"is it running, is the name right, is {KEY_VARIABLE} set?"
        raise CannotStart(f"qdrant at {place}: {type(error).__name__}: {one_line(str(error))[:200]}; {hint}") from None


def connect(url: str, timeout: int = 600) -> Any:
    """Return a client of the server at *url*, which may take *timeout* seconds for an answer.

    Raises CannotStart if the key would be sent to another machine without encryption.
    """
    from qdrant_client import QdrantClient

    key = os.environ.get(KEY_VARIABLE) or None
    if key:
        check_encrypted(url, KEY_VARIABLE)
    with client_errors(url):
        return QdrantClient(url=url, api_key=key, timeout=timeout, check_compatibility=False)
