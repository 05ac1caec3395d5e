"""Milvus: dense vectors in a collection on a server, by brute force or a graph; and collections that others built."""

import json
import logging
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import SplitResult

import numpy as np
from numpy.typing import NDArray

from lexbench.engines.kernels.checks import all_finite, fill, no_hits, one_width, same_width
from lexbench.errors import CannotStart, CommandError, LexbenchError, one_line, require, shortened, visible
from lexbench.outside.http_client import check_encrypted, checked_address
from lexbench.outside.running import check_there, kept_name, own_name, server_of, similarity_called
from lexbench.plugins import Engine, Index, RunningIndex
from lexbench.registry import at_search
from lexbench.storage import atomic
from lexbench.storage.artifact_folder import write_server_bytes
from lexbench.types import Hits, Kind

KEY_VARIABLE = "MILVUS_TOKEN"
_FACTS = "collection.json"
_ROWS = 1000  # sent or read at a time
_QUERIES = 64  # searched at a time
_DEEPEST = 16_384  # documents that the server returns per query
_SECONDS = 60  # that a server has for an answer
_AWAY = 2  # the code of a server that does not answer


@dataclass(frozen=True)
class Milvus(Engine):
    """A collection on the server at *url*. A key is only read from the environment variable MILVUS_TOKEN.

    *index* is "FLAT" (every vector is compared) or "HNSW" (a graph with *m* and *ef_construction*; a search keeps *ef_search*
    candidates). Documents of equal scores at the end of a list are those that the server chooses.
    """

    url: str = "http://localhost:19530"
    index: str = "FLAT"
    m: int = 16
    ef_construction: int = 200
    ef_search: int = at_search(128)

    kind: ClassVar[Kind] = Kind.DENSE
    exact: ClassVar[bool] = False
    remote: ClassVar[bool] = True
    requires: ClassVar[tuple[str, ...]] = ("pymilvus",)
    extra: ClassVar[str] = "milvus"

    def __post_init__(self) -> None:
        """Raise CommandError for a malformed address, for impossible settings, and for settings that FLAT does not use."""
        checked_address(self.url, "milvus")
        if self.index not in {"FLAT", "HNSW"} or min(self.m, self.ef_construction, self.ef_search) < 1:
            raise CommandError("milvus: index is FLAT or HNSW; m, ef_construction and ef_search are numbers from 1 up")
        if self.index == "FLAT" and (self.m, self.ef_construction, self.ef_search) != (16, 200, 128):
            raise CommandError('milvus: index="FLAT" does not use m, ef_construction and ef_search; leave them out')

    def build(self, shards: Iterable[NDArray[np.float32]], path: Path) -> None:
        """Load *shards* (n, dimensions) into a collection named by *path*, and index it."""
        name, documents, width = own_name(path, "_"), 0, 0
        with _connected(self.url) as client:
            for shard in shards:
                width = one_width("milvus", width, shard.shape[1])
                all_finite(shard, "a document vector")
                if not documents and len(shard):
                    self._make(client, name, width)
                for start in range(0, len(shard), _ROWS):
                    rows = enumerate(shard[start : start + _ROWS].tolist(), documents + start)
                    client.insert(name, [{"id": position, "v": vector} for position, vector in rows])
                documents += len(shard)
            if documents:
                client.flush(name)
                client.load_collection(name)
                if (there := _count(client, name)) != documents:
                    raise LexbenchError(f"milvus has {there:,} of the {documents:,} documents that it was sent; run it again")
        write_server_bytes(path, 0)
        atomic.write_json(path / _FACTS, {"collection": name, "documents": documents, "width": width})

    def _make(self, client: Any, name: str, width: int) -> None:
        """Make the collection, and drop one that an interrupted build has left."""
        from pymilvus import DataType

        client.drop_collection(name)
        schema = client.create_schema()
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("v", DataType.FLOAT_VECTOR, dim=width)
        index = client.prepare_index_params()
        graph = {"M": self.m, "efConstruction": self.ef_construction} if self.index == "HNSW" else {}
        index.add_index("v", index_type=self.index, metric_type="IP", params=graph)
        client.create_collection(name, schema=schema)
        client.create_index(name, index, sync=False)  # there is nothing to index yet, and the client would wait half a second

    def open(self, path: Path) -> "MilvusIndex":
        """Open the collection. Raises MissingData if the server has lost it."""
        return MilvusIndex(self, path)

    def drop(self, path: Path) -> None:
        """Drop the collection."""
        with _connected(self.url) as client:
            client.drop_collection(kept_name(path, _FACTS, "collection", "_"))

    @classmethod
    def attach(cls, address: SplitResult) -> RunningIndex:
        """Open the field at milvus://HOST:19530/COLLECTION/FIELD."""
        require("probing Milvus", cls.requires, cls.extra)
        return RunningMilvus(address)


class MilvusIndex(Index):
    """An opened collection."""

    def __init__(self, settings: Milvus, path: Path) -> None:
        facts = json.loads((path / _FACTS).read_bytes())
        self._settings, self._name = settings, str(facts["collection"])
        self._documents, self._width = int(facts["documents"]), int(facts["width"])
        if self._documents:
            with _connected(settings.url) as client:
                there = _count(client, self._name)
                if there:
                    client.load_collection(self._name)
            check_there(settings.url, self._name, there, self._documents, path)

    def search(self, queries: NDArray[np.float32], k: int) -> Hits:
        """Return the best *k* documents of each of *queries* (queries, dimensions), 16,384 at most."""
        if self._documents:
            same_width(queries.shape[1], self._width, "dimensions")
        all_finite(queries, "a query vector")
        hits = no_hits(len(queries), min(k, self._documents))
        if hits.docs.shape[1] > _DEEPEST:
            raise LexbenchError(f"milvus returns at most {_DEEPEST:,} documents a query, and {k:,} are asked for")
        if not hits.docs.size:
            return hits
        made = self._settings
        params = {"params": {"ef": max(made.ef_search, hits.docs.shape[1])}} if made.index == "HNSW" else {}
        with _connected(made.url) as client:
            for start in range(0, len(queries), _QUERIES):
                found = client.search(
                    self._name,
                    queries[start : start + _QUERIES].tolist(),
                    anns_field="v",
                    limit=hits.docs.shape[1],
                    search_params=params,
                )
                for row, one in enumerate(found, start):
                    docs = np.array([hit["id"] for hit in one], np.int64)
                    fill(hits, row, docs, np.array([hit["distance"] for hit in one], np.float32))
        return hits


@contextmanager
def _connected(url: str) -> Iterator[Any]:
    """Yield a client of the server at *url*. Its errors become one line."""
    from pymilvus import MilvusClient, MilvusException

    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # it logs a traceback for each error that it raises
    token = os.environ.get(KEY_VARIABLE, "")
    if token:
        check_encrypted(url, KEY_VARIABLE)
    client: Any = None
    try:
        client = MilvusClient(uri=url, token=token, timeout=_SECONDS)
        yield client
    except MilvusException as error:
        said = shortened(visible(one_line(error.message)), 200)
        if error.code == _AWAY:
            raise CannotStart(f"milvus at {url} does not answer ({said}); is it running?") from None
        raise LexbenchError(f"milvus at {url}: {said}") from None
    finally:
        if client is not None:
            client.close()


def _count(client: Any, name: str) -> int:
    """Return the number of documents; 0 if there is no such collection."""
    if not client.has_collection(name):
        return 0
    client.load_collection(name)
    return int(client.query(name, filter="", output_fields=["count(*)"])[0]["count(*)"])


# ---- a collection that others built ----------------------------------------------------------------------------------------


class RunningMilvus(RunningIndex):
    """A field of dense vectors. Filters are Milvus' expressions, e.g. "tenant == 7".

    The server takes settings that it does not know without a word.
    """

    def __init__(self, address: SplitResult) -> None:
        place = address.path.strip("/").split("/")
        if len(place) != 2:  # noqa: PLR2004 - collection and field
            raise CommandError("name the collection and the field: milvus://HOST:19530/COLLECTION/FIELD")
        self._name, self._field = place
        self._url = server_of(address)
        self._opened = _connected(self._url)
        self._client = self._opened.__enter__()
        with self._errors():
            fields = {one["name"]: one for one in self._client.describe_collection(self._name)["fields"]}
            self._key = next(name for name, one in fields.items() if one.get("is_primary"))
            if "dim" not in fields.get(self._field, {}).get("params", {}):
                raise CommandError(f"{self._name} has no dense vectors in {self._field!r}; its fields: {', '.join(fields)}")
            index = next(iter(self._client.list_indexes(self._name, self._field)), "")
            facts = self._client.describe_index(self._name, index) if index else {"metric_type": "COSINE", "index_type": ""}
            self._client.load_collection(self._name)
        self.similarity = similarity_called(str(facts["metric_type"]))
        self.knob = {"HNSW": "ef", "IVF_FLAT": "nprobe"}.get(str(facts["index_type"]), "")
        self.values = (1, 2, 4, 8, 16) if self.knob == "nprobe" else (16, 32, 64, 128, 256)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of the client into one line, and close it then."""
        try:
            yield
        except Exception as error:
            self._opened.__exit__(type(error), error, error.__traceback__)
            raise

    def search(self, query: Any, k: int, settings: Mapping[str, Any], where: str) -> Sequence[str]:
        """Return the ids of the best *k* documents."""
        with self._errors():
            (found,) = self._client.search(
                self._name,
                [query.tolist()],
                anns_field=self._field,
                limit=k,
                filter=where,
                search_params={"params": dict(settings)},
            )
        return [str(hit["id"] if "id" in hit else hit[self._key]) for hit in found]

    def _pages(self, field: str, where: str = "") -> Iterator[list[Any]]:
        """Yield all documents that pass a filter, in blocks."""
        with self._errors():
            pages = self._client.query_iterator(self._name, batch_size=_ROWS, output_fields=[field], filter=where)
            try:
                while page := pages.next():
                    yield page
            finally:
                pages.close()

    def vectors(self) -> Iterator[tuple[Sequence[str], Any]]:
        """Yield the ids and vectors of all documents."""
        for page in self._pages(self._field):
            yield [str(one[self._key]) for one in page], np.array([one[self._field] for one in page], np.float32)

    def passing(self, where: str) -> Collection[str]:
        """Return the ids of the documents that pass a filter."""
        return {str(one[self._key]) for page in self._pages(self._key, where) for one in page}

    def counts(self, field: str) -> Mapping[Any, int]:
        """Return the number of documents with each value of a field."""
        return Counter(one.get(field) for page in self._pages(field) for one in page)

    def close(self) -> None:
        """Close the connections."""
        self._opened.__exit__(None, None, None)
