"""OpenSearch or Elasticsearch on whole weights, exactly: sparse vectors as rank_features on a server or cluster."""

import base64
import json
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import SplitResult

import numpy as np
from scipy import sparse

from lexbench.engines.kernels.checks import fill, largest_weights, no_hits, same_width, sums_fit, whole_weights
from lexbench.errors import CannotStart, CommandError, LexbenchError
from lexbench.outside.filters import RANGES, Condition, conditions
from lexbench.outside.http_client import MISSING, HttpClient, partial_sign
from lexbench.outside.running import (
    as_json,
    check_there,
    csr_rows,
    kept_name,
    own_name,
    repeated_note,
    server_of,
    similarity_called,
)
from lexbench.plugins import Engine, Index, RunningIndex
from lexbench.registry import runtime
from lexbench.storage import atomic
from lexbench.storage.artifact_folder import write_server_bytes
from lexbench.types import Hits, Kind

_MOST = 512  # Lucene keeps 9 significant bits of a feature: up to here every whole number is exact
_CLAUSES = 1024  # terms per query that a server takes by default
_DEEPEST = 100_000  # documents that it returns per query; the default of a server is 10,000
_BULK = 1000  # documents sent at a time
_QUERIES = 64  # queries sent at a time
VARIABLES = ("OPENSEARCH_API_KEY", "OPENSEARCH_USER", "OPENSEARCH_PASSWORD", "OPENSEARCH_CA_CERTS")
_SECONDS = 600  # for one answer
_BUSY = 429  # the status of a document that the server has no room for at the moment
_ATTEMPTS = 8  # to send a document
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
        connect(self.url)
        if self.shards < 1:
            raise CommandError(f"{self}: shards is 1 or more")

    def build(self, shards: Iterable[sparse.csr_array], path: Path) -> None:
        """Index *shards* (n, vocabulary) of whole weights up to 512, under a name made from *path*."""
        client, name = connect(self.url), own_name(path)
        client.ask("DELETE", f"/{name}", accept=MISSING)  # left by an interrupted build
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
        write_server_bytes(path, 0)
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

    def drop(self, path: Path) -> None:
        """Delete the index on the server."""
        connect(self.url).ask("DELETE", f"/{kept_name(path, _FACTS, 'index')}", accept=MISSING)

    @classmethod
    def attach(cls, address: SplitResult) -> RunningIndex:
        """Open the index at opensearch://HOST:9200/INDEX/FIELD."""
        return RunningOpenSearch(address)


class OpenSearchIndex(Index):
    """An opened index."""

    def __init__(self, url: str, path: Path) -> None:
        facts = json.loads((path / _FACTS).read_bytes())
        self._client, self._name = connect(url), str(facts["index"])
        self._documents, self._width = int(facts["documents"]), int(facts["width"])
        self._largest = np.load(path / _LARGEST)
        self.transfer = 0.0  # of searches in which the server states how long it worked
        check_there(url, self._name, _count(self._client, self._name), facts["sent"], path)

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
        said = self._client.ask("POST", "/_msearch", lines)
        took, answers = self._client.understood(
            said, lambda found: (found.get("took"), list(zip(rows, found["responses"], strict=True))), "one answer per query"
        )
        if took is not None:  # milliseconds that the server worked
            self.transfer += max(0.0, time.perf_counter() - begin - took / 1000)
        for row, answer in answers:
            if "error" in answer or partial_sign(answer):
                raise LexbenchError(f"opensearch at {self._client.url}: a search failed: {json.dumps(answer)[:200]}")
            fill(hits, row, *self._client.understood(answer, _positions, "hits with positions"))


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


def _positions(answer: Any) -> tuple[Any, Any]:
    """Return the positions and scores of the hits of an answer."""
    found = [hit["sort"] for hit in answer["hits"]["hits"]]
    return np.array([place for _, place in found], np.int64), np.array([score for score, _ in found], np.float32)


def _send(client: HttpClient, name: str, matrix: sparse.csr_array, first: int) -> int:
    """Send the documents of one shard that have weights, *first* being the position of its first; return their number."""
    rows = np.flatnonzero(np.diff(matrix.indptr)).tolist()
    for at in range(0, len(rows), _BULK):
        documents = {}
        for row in rows[at : at + _BULK]:
            own = slice(matrix.indptr[row], matrix.indptr[row + 1])
            weights = dict(zip(matrix.indices[own].tolist(), matrix.data[own].tolist(), strict=True))
            documents[str(first + row)] = {"p": first + row, "v": weights}
        _send_block(client, name, documents)
    return len(rows)


def _failed(answer: Any) -> list[tuple[str, int, Any]]:
    """Return the id, status and error of each document that the server did not take."""
    items = [one["index"] for one in answer["items"]] if answer["errors"] else []
    return [(str(one["_id"]), int(one["status"]), one["error"]) for one in items if "error" in one]


def _send_block(client: HttpClient, name: str, documents: dict[str, Any]) -> None:
    """Send *documents* by id; send those again for which the server had no room. Raises LexbenchError if it refuses one."""
    for attempt in range(_ATTEMPTS):
        lines = [line for name_, one in documents.items() for line in ({"index": {"_id": name_}}, one)]
        failed = client.ask("POST", f"/{name}/_bulk", lines, read=_failed, form="items")
        if wrong := next((one for one in failed if one[1] != _BUSY), None):
            raise LexbenchError(f"opensearch at {client.url} refused document {wrong[0]}: {json.dumps(wrong[2])[:200]}")
        documents = {name_: documents[name_] for name_, *_ in failed}
        if not documents:
            return
        time.sleep(min(0.5 * 2**attempt, 60))
    raise CannotStart(
        f"opensearch at {client.url} had no room for {len(documents):,} documents, {_ATTEMPTS} times; is it overloaded?"
    )


def _count(client: HttpClient, name: str) -> int:
    """Return how many documents an index has; 0 if there is no index of that name."""
    answer = client.ask("GET", f"/{name}/_count", accept=MISSING)
    return 0 if answer is None else int(client.understood(answer, lambda found: found["count"], "a count"))


# ---- the server ------------------------------------------------------------------------------------------------------------


def connect(url: str, called: str = "opensearch") -> HttpClient:
    """Return a client with the credentials of the environment. Raises CommandError for a malformed address."""
    certificates = os.environ.get(VARIABLES[3]) or None
    variable = VARIABLES[0] if os.environ.get(VARIABLES[0]) else VARIABLES[2]
    return HttpClient(
        url, called, secrets=_authorisation, variable=variable, timeout=_SECONDS, certificates=certificates, known=True
    )


def _authorisation() -> dict[str, str]:
    """Return the header with the credentials of the environment."""
    key, user, password = (os.environ.get(variable) for variable in VARIABLES[:3])
    if key:
        return {"Authorization": f"ApiKey {key}"}
    if user:
        return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password or ''}".encode()).decode()}
    return {}


# ---- an index that others built --------------------------------------------------------------------------------------------


class RunningOpenSearch(RunningIndex):
    """A field of an index: vectors for k-NN, or weights of terms."""

    knob = "ef_search"
    called: ClassVar[str] = "opensearch"
    dense_type: ClassVar[str] = "knn_vector"
    sparse_types: ClassVar[tuple[str, ...]] = ("rank_features", "sparse_vector")

    def __init__(self, address: SplitResult) -> None:
        place = address.path.strip("/").split("/")
        if len(place) != 2:  # noqa: PLR2004 - index and field
            raise CommandError(f"name the index and the field: {self.called}://HOST:9200/INDEX/FIELD")
        self._client = connect(server_of(address), self.called)
        self._index, self._field = place
        path = f"/{self._index}/_mapping"
        fields = self._client.ask("GET", path, read=_fields, form="a mapping")
        self._facts = fields.get(self._field, {})
        kind = self._facts.get("type")
        if kind not in (self.dense_type, *self.sparse_types):
            raise CommandError(f"{self._index} has no vectors in {self._field!r}; its fields: {', '.join(fields) or 'none'}")
        self._sparse = kind != self.dense_type
        self.knob = "" if self._sparse else self.knob
        self.similarity = "dot" if self._sparse else similarity_called(self._space())

    def _space(self) -> str:
        """Return the server's name for the similarity."""
        return str(self._facts.get("space_type") or self._facts.get("method", {}).get("space_type", "l2"))

    def vectors(self) -> Iterator[tuple[Sequence[str], Any]]:
        """Yield the ids and vectors of all documents that have one. Terms of sparse vectors must be numbers."""
        for hits in self._scroll({"_source": [self._field]}):
            kept = [hit for hit in hits if self._field in hit.get("_source", {})]
            if kept:
                rows = [hit["_source"][self._field] for hit in kept]
                yield [str(hit["_id"]) for hit in kept], _sparse_rows(rows) if self._sparse else np.array(rows, np.float32)

    def _scroll(self, body: Mapping[str, Any]) -> Iterator[list[Any]]:
        """Yield all hits of a search, in blocks."""
        form, first = "hits", {"size": _BULK, "sort": ["_doc"], **body}
        hits, scroll = self._client.ask("POST", f"/{self._index}/_search?scroll=5m", first, read=_page, form=form)
        while hits:
            yield hits
            more = {"scroll": "5m", "scroll_id": scroll}
            hits, scroll = self._client.ask("POST", "/_search/scroll", more, read=_page, form=form)

    def passing(self, where: str) -> Collection[str]:
        """Return the ids of the documents that pass a filter."""
        body = {"_source": False, "query": {"bool": {"filter": [self._filter(where)]}}}
        return {str(hit["_id"]) for hits in self._scroll(body) for hit in hits}

    def counts(self, field: str) -> Mapping[Any, int]:
        """Return the number of documents with each of the most frequent values of a field."""
        body = {"size": 0, "aggs": {"values": {"terms": {"field": field, "size": _BULK}}}}
        counted: dict[Any, int] = self._client.ask(
            "POST", f"/{self._index}/_search", body, read=_counts, form="counts of values"
        )
        return counted

    def search(self, query: Any, k: int, settings: Mapping[str, Any], where: str) -> Sequence[str]:
        """Return the ids of the best *k* documents."""
        filters = [self._filter(where)] if where else []
        body = self._sparse_query(query, settings, filters) if self._sparse else self._near(query, k, settings, filters)
        request = {**body, "size": k, "_source": False}
        found: list[str] = self._client.ask("POST", f"/{self._index}/_search", request, read=_ids, form="hits")
        return found

    def _near(self, query: Any, k: int, settings: Mapping[str, Any], filters: list[Any]) -> dict[str, Any]:
        """Return a search of dense vectors."""
        near: dict[str, Any] = {"vector": query.tolist(), "k": k}
        if settings:
            near["method_parameters"] = dict(settings)
        if filters:
            near["filter"] = filters[0]
        return {"query": {"knn": {self._field: near}}}

    def _sparse_query(self, query: Any, settings: Mapping[str, Any], filters: list[Any]) -> dict[str, Any]:
        """Return a search of sparse vectors."""
        weights: dict[str, Any] = {"query_tokens": named_weights(query)}
        if settings:
            weights["method_parameters"] = dict(settings)
        return {"query": {"bool": {"must": [{"neural_sparse": {self._field: weights}}], "filter": filters}}}

    def _filter(self, where: str) -> Any:
        """Return a filter as the server's JSON. It may be JSON already."""
        if where.lstrip().startswith("{"):
            return as_json(where)
        return {"bool": {"filter": [_clause(one) for one in conditions(where)]}}

    def notes(self) -> Sequence[str]:
        """Return a note if the server was busy."""
        return repeated_note(self._client.repeated)


def _fields(answer: Any) -> dict[str, Any]:
    """Return the fields of the first index of a mapping."""
    return dict(next(iter(answer.values()))["mappings"].get("properties", {}))


def _page(answer: Any) -> tuple[list[Any], str]:
    """Return the hits of a page, and the name of the next one."""
    return list(answer["hits"]["hits"]), str(answer["_scroll_id"])


def _ids(answer: Any) -> list[str]:
    """Return the ids of hits."""
    return [str(hit["_id"]) for hit in answer["hits"]["hits"]]


def _counts(answer: Any) -> dict[Any, int]:
    """Return the number of documents by value."""
    return {one["key"]: int(one["doc_count"]) for one in answer["aggregations"]["values"]["buckets"]}


def _clause(condition: Condition) -> dict[str, Any]:
    """Return a condition as the server's JSON."""
    field, operator, value = condition
    if operator in RANGES:
        return {"range": {field: {RANGES[operator]: value}}}
    same = {"term": {field: value}}
    return same if operator == "=" else {"bool": {"must_not": [same]}}


def named_weights(query: Any) -> dict[str, float]:
    """Return the weights of a sparse query (1, vocabulary) by the numbers of their terms, as texts."""
    return dict(zip(map(str, query.indices.tolist()), query.data.tolist(), strict=True))


def _sparse_rows(rows: Sequence[Mapping[str, float]]) -> Any:
    """Return sparse vectors (n, highest term) from weights by term. Raises CommandError for terms that are no numbers."""
    try:
        return csr_rows([(np.array(list(map(int, row))), np.array(list(row.values()), np.float32)) for row in rows])
    except ValueError:
        raise CommandError("the terms in the index are words; type --vectors with vectors whose terms are numbers") from None
