"""OpenSearch or Elasticsearch on whole weights, exactly: sparse vectors as rank_features on a server or cluster."""

import base64
import http.client
import json
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from platform import node
from typing import Any, ClassVar
from urllib.parse import urlsplit
from weakref import finalize

import numpy as np
from scipy import sparse

from lexbench.engines.kernels.checks import fill, largest_weights, no_hits, same_width, sums_fit, whole_weights
from lexbench.errors import CannotStart, CommandError, LexbenchError, MissingData
from lexbench.plugins import Engine, Index
from lexbench.registry import runtime
from lexbench.storage import atomic
from lexbench.storage.artifact_folder import digest
from lexbench.types import Hits, Kind

_MOST = 512  # Lucene keeps 9 significant bits of a feature: up to here every whole number is exact
_CLAUSES = 1024  # terms per query that a server takes by default
_DEEPEST = 100_000  # documents that it returns per query; the default of a server is 10,000
_BULK = 1000  # documents sent at a time
_QUERIES = 64  # queries sent at a time
VARIABLES = ("OPENSEARCH_API_KEY", "OPENSEARCH_USER", "OPENSEARCH_PASSWORD", "OPENSEARCH_CA_CERTS")
_SECONDS = 600  # for one answer
_OK = range(200, 300)
_NOT_FOUND = 404
_FACTS, _LARGEST = "index.json", "largest_weight.npy"


@dataclass(frozen=True)
class OpenSearch(Engine):
    """Each query term is a clause `rank_feature` with `linear`, so that the score is the dot product of the weights.

    *url* is the address of the server. Credentials are only read from the environment: OPENSEARCH_API_KEY, or OPENSEARCH_USER
    and OPENSEARCH_PASSWORD; OPENSEARCH_CA_CERTS names a file of certificates. *shards* are set when the index is made. Weights
    above 512, which Lucene rounds, queries of more than 1,024 terms, and queries whose scores could be above 2**24 are refused.
    `neural_sparse` on `sparse_vector` is not used, because it misses documents.
    """

    url: str = "http://localhost:9200"
    shards: int = runtime(1)

    kind: ClassVar[Kind] = Kind.SPARSE
    exact: ClassVar[bool] = True
    impacts: ClassVar[bool] = True
    remote: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise CommandError for an address that is malformed or contains a key, and for a number of shards below 1."""
        Client(self.url)
        if self.shards < 1:
            raise CommandError(f"{self}: shards is 1 or more")

    def build(self, shards: Iterable[sparse.csr_array], path: Path) -> None:
        """Index *shards* (n, vocabulary) of whole weights up to 512, under a name made from *path*."""
        client, name = Client(self.url), f"lexbench-{digest([node(), str(path.resolve())])}"
        client.ask("DELETE", f"/{name}", accept=_NOT_FOUND)  # left by an interrupted build
        client.ask("PUT", f"/{name}", self._definition())
        facts: dict[str, Any] = {"documents": 0, "width": 0, "index": name, "sent": 0}
        largest = np.zeros(0, np.float32)
        for shard in shards:
            matrix = whole_weights(shard, "opensearch", most=_MOST)
            largest = largest_weights(largest, matrix)
            facts["sent"] += _send(client, name, matrix, facts["documents"])
            facts["documents"] += matrix.shape[0]
            facts["width"] = matrix.shape[1]
        client.ask("PUT", f"/{name}/_settings", {"index": {"refresh_interval": "1s"}})
        client.ask("POST", f"/{name}/_refresh")
        if (there := _count(client, name)) != facts["sent"]:
            raise LexbenchError(f"{self.url} has {there:,} of the {facts['sent']:,} documents that it was sent; run it again")
        np.save(path / _LARGEST, largest)
        atomic.write_json(path / _FACTS, facts)

    def _definition(self) -> dict[str, Any]:
        """Return the settings and fields of an index: `v` has the weights, `p` the position."""
        index = {
            "number_of_shards": self.shards,
            "number_of_replicas": 0,
            "max_result_window": _DEEPEST,
            "refresh_interval": "-1",  # off while the index is filled
        }
        fields = {"v": {"type": "rank_features"}, "p": {"type": "integer"}}
        return {"settings": {"index": index}, "mappings": {"_source": {"enabled": False}, "properties": fields}}

    def open(self, path: Path) -> "OpenSearchIndex":
        """Open the index. Raises MissingData if the server has lost it."""
        return OpenSearchIndex(self.url, path)


class OpenSearchIndex(Index):
    """An opened index."""

    def __init__(self, url: str, path: Path) -> None:
        facts = json.loads((path / _FACTS).read_bytes())
        self._client, self._name = Client(url), str(facts["index"])
        self._documents, self._width = int(facts["documents"]), int(facts["width"])
        self._largest = np.load(path / _LARGEST)
        self.transfer = 0.0  # of searches in which the server states how long it worked
        if (there := _count(self._client, self._name)) != facts["sent"]:
            raise MissingData(
                f"{url} has {there:,} of the {facts['sent']:,} documents of {self._name}: remove {path.parent}, "
                "and the command that made it makes it again"
            )

    def search(self, queries: sparse.csr_array, k: int) -> Hits:
        """Return the best *k* documents of each of *queries* (queries, vocabulary) of whole weights, 100,000 at most."""
        if self._documents:
            same_width(queries.shape[1], self._width)
        matrix = whole_weights(queries, "opensearch")
        hits = no_hits(queries.shape[0], min(k, self._documents))
        if not self._documents:
            return hits
        sums_fit(matrix, self._largest, "opensearch")
        if hits.docs.shape[1] > _DEEPEST:
            raise LexbenchError(f"opensearch returns at most {_DEEPEST:,} documents a query, and {k:,} are asked for")
        rows = [row for row, terms in enumerate(np.diff(matrix.indptr)) if terms]
        for start in range(0, len(rows), _QUERIES):
            self._fill(hits, rows[start : start + _QUERIES], matrix)
        return hits

    def _fill(self, hits: Hits, rows: list[int], matrix: sparse.csr_array) -> None:
        """Search for some *rows* of the queries at once, and write the answers into *hits*."""
        lines: list[Any] = []
        for row in rows:
            own = slice(matrix.indptr[row], matrix.indptr[row + 1])
            terms, weights = matrix.indices[own].tolist(), matrix.data[own].tolist()
            if len(terms) > _CLAUSES:
                raise LexbenchError(
                    f"opensearch takes queries of {_CLAUSES:,} terms, and there is one of {len(terms):,}; "
                    f"keep the largest, e.g. encoder|prune_query({_CLAUSES})@opensearch"
                )
            lines += [{"index": self._name}, _request(terms, weights, hits.docs.shape[1])]
        begin = time.perf_counter()
        answers = self._client.ask("POST", "/_msearch", lines)
        if "took" in answers:  # milliseconds that the server worked
            self.transfer += max(0.0, time.perf_counter() - begin - answers["took"] / 1000)
        for row, answer in zip(rows, answers["responses"], strict=True):
            if "error" in answer or answer.get("timed_out") or answer.get("_shards", {}).get("failed"):
                raise LexbenchError(f"opensearch at {self._client.url}: a search failed: {json.dumps(answer)[:200]}")
            found = answer["hits"]["hits"]
            docs = np.array([hit["sort"][1] for hit in found], np.int64)
            fill(hits, row, docs, np.array([hit["sort"][0] for hit in found], np.float32))


def _request(terms: list[int], weights: list[int], k: int) -> dict[str, Any]:
    """Return the search for one query; the server orders ties by position."""
    clauses = [
        {"rank_feature": {"field": f"v.{term}", "boost": weight, "linear": {}}}
        for term, weight in zip(terms, weights, strict=True)
    ]
    return {
        "size": k,
        "query": {"bool": {"should": clauses}},
        "sort": [{"_score": "desc"}, {"p": "asc"}],
        "track_total_hits": False,
    }


def _send(client: "Client", name: str, matrix: sparse.csr_array, first: int) -> int:
    """Send the documents of one shard that have weights, *first* being the position of its first; return their number."""
    rows = np.flatnonzero(np.diff(matrix.indptr)).tolist()
    for at in range(0, len(rows), _BULK):
        lines: list[Any] = []
        for row in rows[at : at + _BULK]:
            own = slice(matrix.indptr[row], matrix.indptr[row + 1])
            weights = dict(zip(matrix.indices[own].tolist(), matrix.data[own].tolist(), strict=True))
            lines += [{"index": {"_id": str(first + row)}}, {"p": first + row, "v": weights}]
        if (answer := client.ask("POST", f"/{name}/_bulk", lines)).get("errors"):
            wrong = next(item for item in answer["items"] if "error" in item["index"])
            raise LexbenchError(f"opensearch at {client.url} refused a document: {json.dumps(wrong)[:200]}")
    return len(rows)


def _count(client: "Client", name: str) -> int:
    """Return how many documents an index has; 0 if there is no index of that name."""
    answer = client.ask("GET", f"/{name}/_count", accept=_NOT_FOUND)
    return int(answer["count"]) if answer else 0


# ---- the client ------------------------------------------------------------------------------------------------------------


class Client:
    """A small client, JSON over HTTP: one connection per thread, opened again if the server has closed it."""

    def __init__(self, url: str, what: str = "opensearch") -> None:
        """Check the *url* of the server, e.g. https://search.example.org:9200, without a name or a key; nothing is sent yet.

        Error messages call the server *what*.
        """
        self._what = what
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise CommandError(f"opensearch(url={url!r}): write it like https://localhost:9200")
        if parts.username or parts.password:
            raise CommandError(f"results show the url of opensearch, so write no name and no key in it; set {VARIABLES[0]}")
        self.url = url.rstrip("/")
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"} | _authorisation()
        self._connect: Callable[[], http.client.HTTPConnection]
        self._connect = partial(http.client.HTTPConnection, parts.hostname, parts.port, timeout=_SECONDS)
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=os.environ.get(VARIABLES[3]) or None)
            self._connect = partial(http.client.HTTPSConnection, parts.hostname, parts.port, timeout=_SECONDS, context=context)
        self._local = threading.local()

    @property
    def _connection(self) -> http.client.HTTPConnection:
        """The connection of this thread."""
        if not hasattr(self._local, "connection"):
            self._local.connection = self._connect()
            finalize(self, self._local.connection.close)
        connection: http.client.HTTPConnection = self._local.connection
        return connection

    def ask(self, method: str, path: str, body: Any = None, *, accept: int | None = None) -> Any:
        """Return the JSON answer, None if its status is *accept*. A list as *body* is sent as one line per item.

        Raises CannotStart if no server answers, and LexbenchError if the answer is an error.
        """
        lines: Iterable[Any] = body if isinstance(body, list) else () if body is None else [body]
        content = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()
        headers = self._headers | ({"Content-Type": "application/x-ndjson"} if isinstance(body, list) else {})
        status, text = self._exchange(method, f"{self._prefix}{path}", content, headers)
        if status == accept:
            return None
        try:
            answer = json.loads(text) if text else {}
        except ValueError:
            answer = {"error": text[:200].decode(errors="replace")}
        if status not in _OK:
            raise LexbenchError(f"{self._what} at {self.url}: {method} {path}: {status}: {_reason(answer)}")
        return answer

    def _exchange(self, method: str, path: str, content: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """Return the status and body of the answer."""
        for again in (True, False):
            try:
                self._connection.request(method, path, content or None, headers)
                response = self._connection.getresponse()
                return response.status, response.read()
            except (http.client.HTTPException, OSError) as error:
                self._connection.close()
                # A server closes connections that were idle for long. Every request here can be sent twice.
                if not (again and isinstance(error, http.client.RemoteDisconnected | BrokenPipeError | ConnectionResetError)):
                    raise CannotStart(f"{self._what} at {self.url} does not answer ({error}); is it running?") from None
        raise AssertionError


def _authorisation() -> dict[str, str]:
    """Return the header with the credentials of the environment."""
    key, user, password = (os.environ.get(variable) for variable in VARIABLES[:3])
    if key:
        return {"Authorization": f"ApiKey {key}"}
    if user:
        return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password or ''}".encode()).decode()}
    return {}


def _reason(answer: Any) -> str:
    """Return the message of a server's error, shortened."""
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    if isinstance(error, dict):
        causes = error.get("root_cause") or [error]
        error = causes[0].get("reason", error) if isinstance(causes[0], dict) else error
    return " ".join(str(error).split())[:200]
