"""Servers and programs with an index of dense vectors, as `lexbench probe` searches them, and the vectors that they hold."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qs, urlsplit

import numpy as np
from numpy.typing import NDArray

from lexbench.encodings.shards import read_shard
from lexbench.engines.opensearch import Client
from lexbench.engines.qdrant import client_errors, connect
from lexbench.errors import CannotStart, CommandError, InvalidFile, LexbenchError, require
from lexbench.programs import Program
from lexbench.types import Kind
from lexbench.vectors import kind_of

Block: TypeAlias = tuple[Sequence[str], NDArray[np.float32]]  # ids and vectors (documents, dimensions)
Search: TypeAlias = Callable[[Sequence[float], int, Mapping[str, int]], Sequence[str]]  # query, k, knob -> ids, best first

_READ = 1000  # vectors at a time
_TIMEOUT = 60  # seconds that a program or Qdrant has for an answer
_FORM = '{"docs": [["d1", 3.2], …]}'  # of an answer
_SPACES = {  # the names of Qdrant, OpenSearch and Elasticsearch
    "dot": ("dot", "innerproduct", "dot_product", "max_inner_product"),
    "cosine": ("cosine", "cosinesimil"),
    "l2": ("euclid", "l2", "l2_norm"),
}
SIMILARITIES = tuple(_SPACES)


@dataclass(frozen=True)
class Target:
    """An index: how to search it, and its vectors, which are None if it does not give them."""

    search: Search
    blocks: Callable[[], Iterator[Block]] | None = None
    similarity: str | None = None  # one of SIMILARITIES
    knob: str = ""  # the usual one
    values: tuple[int, ...] = (16, 32, 64, 128, 256)
    parallel: bool = True  # whether it takes several queries at a time


@contextmanager
def opened(address: str) -> Iterator[Target]:
    """Open the index at *address*.

        qdrant://HOST:6333/COLLECTION, or qdrant:///FOLDER/COLLECTION (the client's local mode); ?vector=NAME names a vector
        opensearch://HOST:9200/INDEX/FIELD and elasticsearch://…; opensearch+https:// and so on for TLS
        http://…      POST {"vector": […], "k": 10, KNOB: value}; the answer is {"docs": [[id, score], …]}
        a command     the same, one line of JSON per query on stdin and stdout

    Raises CommandError for another address, CannotStart if nothing answers there.
    """
    parts = urlsplit(address)
    kind, _, secure = parts.scheme.partition("+")
    if "://" not in address:
        with closing(_program(address)) as program:
            yield Target(lambda vector, k, knob: program.ask({"vector": vector, "k": k, **knob}, _FORM, _ids), parallel=False)
        return
    if parts.username:
        raise CommandError("an address has no name and no key in it; set QDRANT_API_KEY or OPENSEARCH_API_KEY")
    base = f"{secure or 'http'}://{parts.netloc}"
    if kind == "qdrant":
        with _qdrant(base, parts.netloc, parts.path, parse_qs(parts.query).get("vector", [""])[0]) as target:
            yield target
    elif kind in ("opensearch", "elasticsearch"):
        yield _elastic(Client(base), kind, parts.path.strip("/").split("/"))
    elif kind in ("http", "https"):
        client, path = Client(f"{kind}://{parts.netloc}", "the server"), parts.path + (f"?{parts.query}" if parts.query else "")

        def search(vector: Sequence[float], k: int, knob: Mapping[str, int]) -> list[str]:
            answer = client.ask("POST", path or "/", {"vector": vector, "k": k, **knob})
            try:
                return _ids(answer)
            except (TypeError, LookupError):
                raise LexbenchError(f"{address}: the answer is not {_FORM}: {json.dumps(answer)[:80]}") from None

        yield Target(search)
    else:
        raise CommandError(f"{address!r}: begin with qdrant://, opensearch://, elasticsearch:// or http://, or give a command")


def _similarity(name: str) -> str:
    """Return the one of SIMILARITIES that a server calls *name*. Raises CommandError for any other."""
    found = next((ours for ours, theirs in _SPACES.items() if name.lower() in theirs), None)
    if found is None:
        raise CommandError(f"the index compares vectors by {name!r}; lexbench knows: {', '.join(SIMILARITIES)}")
    return found


def _ids(answer: Any) -> list[str]:
    """Return the ids of an answer. Raises TypeError or LookupError for one of another form."""
    return [str(row[0] if isinstance(row, list) else row) for row in answer["docs"]]


@contextmanager
def _qdrant(base: str, host: str, path: str, using: str) -> Iterator[Target]:
    """Open a collection on a server, or with an empty *host* in a folder; *using* names one of several vectors."""
    require("probing Qdrant", ("qdrant_client",), "qdrant")
    from qdrant_client import QdrantClient, models

    folder, _, name = path.rpartition("/")
    if not host and not Path(folder).is_dir():  # the client would make it
        raise CannotStart(f"{folder} is no folder; write qdrant:///FOLDER/COLLECTION, or qdrant://HOST:6333/COLLECTION")
    with client_errors(host or folder, ValueError, RuntimeError):  # no such collection, folder in use
        client = connect(base, _TIMEOUT) if host else QdrantClient(path=folder)
        info: Any = client.get_collection(name).config.params.vectors
        info = info.get(using) if isinstance(info, dict) else info

    def blocks() -> Iterator[Block]:
        offset: Any = None
        while True:
            page: Any = client.scroll(name, limit=_READ, offset=offset, with_payload=False, with_vectors=True)
            points, offset = page
            vectors = [point.vector[using] if using else point.vector for point in points]
            yield [str(point.id) for point in points], np.array(vectors, np.float32)
            if offset is None:
                return

    def search(vector: Sequence[float], k: int, knob: Mapping[str, Any]) -> list[str]:
        params = models.SearchParams(**knob) if knob else None
        near: Any = {"query": list(vector), "using": using or None, "limit": k, "search_params": params}
        return [str(point.id) for point in client.query_points(name, with_payload=False, **near).points]

    similarity = _similarity(str(info.distance.value)) if info else None
    knob = "hnsw_ef" if host else ""  # a local folder is searched exactly
    with closing(client), client_errors(host or folder):
        yield Target(search, blocks if info else None, similarity, knob, parallel=bool(host))


def _elastic(client: Client, kind: str, place: Sequence[str]) -> Target:
    """Return an index of OpenSearch or Elasticsearch, whose client is *client* and whose index and field are *place*."""
    if len(place) != 2:  # noqa: PLR2004 - index and field
        raise CommandError(f"name the index and the field: {kind}://HOST:9200/INDEX/FIELD")
    index, field = place
    ours = kind == "opensearch"
    fields = next(iter(client.ask("GET", f"/{index}/_mapping").values()))["mappings"].get("properties", {})
    if fields.get(field, {}).get("type") != ("knn_vector" if ours else "dense_vector"):
        raise CommandError(f"{index} has no vectors in {field!r}; its fields: {', '.join(fields) or 'none'}")
    facts = {"similarity": "cosine"} | fields[field]
    space = facts.get("space_type") or facts.get("method", {}).get("space_type", "l2") if ours else facts["similarity"]

    def blocks() -> Iterator[Block]:
        body = {"size": _READ, "_source": [field], "sort": ["_doc"]}
        answer = client.ask("POST", f"/{index}/_search?scroll=5m", body)
        while hits := answer["hits"]["hits"]:
            kept = [hit for hit in hits if field in hit.get("_source", {})]
            if kept:
                yield [hit["_id"] for hit in kept], np.array([hit["_source"][field] for hit in kept], np.float32)
            answer = client.ask("POST", "/_search/scroll", {"scroll": "5m", "scroll_id": answer["_scroll_id"]})

    def search(vector: Sequence[float], k: int, knob: Mapping[str, int]) -> list[str]:
        if ours:
            near: dict[str, Any] = {"vector": vector, "k": k, "method_parameters": dict(knob)}
            body: dict[str, Any] = {"query": {"knn": {field: near}}}
        else:
            body = {"knn": {"field": field, "query_vector": vector, "k": k, **knob}}
        answer = client.ask("POST", f"/{index}/_search", {**body, "size": k, "_source": False})
        return [hit["_id"] for hit in answer["hits"]["hits"]]

    return Target(search, blocks, _similarity(str(space)), "ef_search" if ours else "num_candidates")


def _program(text: str) -> Program:
    """Start a program that answers one query at a time. Raises CannotStart if it does not start."""
    try:
        return Program(repr(text), shlex.split(text), _TIMEOUT)
    except (CannotStart, ValueError) as error:
        raise CannotStart(f"{error}; a server's address begins with http://") from None


def file_blocks(path: Path, ids: Path | None) -> Callable[[], Iterator[Block]]:
    """Return the vectors of a .npy file or a folder of encodings in the store, with the *ids* in a file, or row numbers.

    Raises InvalidFile if they are no matrix, or if there are more or fewer ids.
    """
    names = ids.read_text(encoding="utf-8").split() if ids else None

    def matrices() -> Iterator[NDArray[Any]]:
        if path.is_dir():
            yield from (read_shard(shard) for shard in sorted(path.glob("shard-*.safetensors")))
            return
        whole = read_matrix(path)
        yield from (whole[start : start + _READ] for start in range(0, len(whole), _READ))

    def blocks() -> Iterator[Block]:
        start = 0
        for matrix in matrices():
            stop = start + matrix.shape[0]
            if kind_of(matrix) is not Kind.DENSE:
                raise InvalidFile(f"{path}: the vectors are not dense")
            if names and stop > len(names):
                raise InvalidFile(f"{ids} has {len(names):,} ids, and {path} has more vectors")
            yield names[start:stop] if names else [str(row) for row in range(start, stop)], np.asarray(matrix, np.float32)
            start = stop

    return blocks


def read_matrix(path: Path) -> NDArray[Any]:
    """Return the matrix in a .npy file, mapped. Raises InvalidFile for anything else."""
    try:
        matrix: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InvalidFile(f"{path}: not a .npy file of vectors ({error})") from None
    if matrix.ndim != 2:  # noqa: PLR2004 - a matrix
        raise InvalidFile(f"{path}: shape {matrix.shape}; vectors are a matrix (documents, dimensions)")
    return matrix
