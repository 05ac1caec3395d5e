"""OpenSearch or Elasticsearch on whole weights, exactly: sparse vectors as rank_features on a server or cluster."""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from platform import node
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from lexbench.engines._rest import NOT_FOUND, Client
from lexbench.engines._ties import largest_weights, sums_fit
from lexbench.engines.kernels.checks import fill, impacts, no_hits, same_width
from lexbench.errors import CommandError, LexbenchError, MissingData
from lexbench.plugins import Engine, Index
from lexbench.registry import runtime
from lexbench.storage import atomic
from lexbench.storage.artifacts import digest
from lexbench.types import Hits, Kind

_MOST = 512  # Lucene keeps 9 significant bits of a feature: up to here every whole number is exact
_CLAUSES = 1024  # terms of a query that a server takes by default
_DEEPEST = 100_000  # documents that it returns for a query; a server has 10,000 where nothing is said
_BULK = 1000  # documents that are sent at a time
_QUERIES = 64  # queries that are sent at a time
_FACTS, _LARGEST = "index.json", "largest_weight.npy"


@dataclass(frozen=True)
class OpenSearch(Engine):
    """Each term of a query is a clause `rank_feature` with `linear`, so that the score is the dot product of the weights.

    *url*: of the server. Who asks is said by the environment and nowhere else: OPENSEARCH_API_KEY, or OPENSEARCH_USER and
    OPENSEARCH_PASSWORD; OPENSEARCH_CA_CERTS names a file of certificates. *shards* and *replicas* are set when the index is
    made. Weights above 512, which Lucene rounds, queries of more than 1,024 terms, and those whose scores could be above 2**24
    are refused. Not `neural_sparse` on `sparse_vector`, which leaves documents out.
    """

    url: str = "http://localhost:9200"
    shards: int = runtime(1)
    replicas: int = runtime(0)

    kind: ClassVar[Kind] = Kind.SPARSE
    exact: ClassVar[bool] = True
    impacts: ClassVar[bool] = True
    remote: ClassVar[bool] = True
    version: ClassVar[int] = 1
    deterministic: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse an address that is none, or has a key in it."""
        Client(self.url)
        if self.shards < 1 or self.replicas < 0:
            raise CommandError(f"{self}: shards is 1 or more, replicas 0 or more")

    def build(self, shards: Iterable[sparse.csr_array], path: Path) -> None:
        """Index whole weights up to 512, as (n, vocabulary) shards, under a name that *path* decides."""
        client, name = Client(self.url), f"lexbench-{digest([node(), str(path.resolve())])}"
        client.ask("DELETE", f"/{name}", accept=NOT_FOUND)  # what a build that was cut off has left
        client.ask("PUT", f"/{name}", self._definition())
        facts: dict[str, Any] = {"documents": 0, "width": 0, "index": name, "sent": 0}
        largest = np.zeros(0, np.float32)
        for shard in shards:
            matrix = impacts(shard, "opensearch", most=_MOST)
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
        """Return the settings and the fields of an index: `v` has the weights, `p` the position."""
        index = {
            "number_of_shards": self.shards,
            "number_of_replicas": self.replicas,
            "max_result_window": _DEEPEST,
            "refresh_interval": "-1",  # while it is filled
        }
        fields = {"v": {"type": "rank_features"}, "p": {"type": "integer"}}
        return {"settings": {"index": index}, "mappings": {"_source": {"enabled": False}, "properties": fields}}

    def open(self, path: Path) -> "OpenSearchIndex":
        """Open what `build` wrote; MissingData where the server has lost it."""
        return OpenSearchIndex(self.url, path)


class OpenSearchIndex(Index):
    """An opened index."""

    def __init__(self, url: str, path: Path) -> None:
        facts = json.loads((path / _FACTS).read_bytes())
        self._client, self._name = Client(url), str(facts["index"])
        self._documents, self._width = int(facts["documents"]), int(facts["width"])
        self._largest = np.load(path / _LARGEST)
        self.transfer = 0.0  # as far as servers say what they took
        if (there := _count(self._client, self._name)) != facts["sent"]:
            raise MissingData(
                f"{url} has {there:,} of the {facts['sent']:,} documents of {self._name}: remove {path.parent}, "
                "and the command that made it makes it again"
            )

    def search(self, queries: sparse.csr_array, k: int) -> Hits:
        """Return the best *k* documents of each of *queries* (queries, vocabulary) of whole weights, 100,000 at most."""
        if self._documents:
            same_width(queries.shape[1], self._width)
        matrix = impacts(queries, "opensearch")
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
        """Ask for some *rows* of the queries at once, and write what comes back into *hits*."""
        lines: list[Any] = []
        for row in rows:
            own = slice(matrix.indptr[row], matrix.indptr[row + 1])
            terms, weights = matrix.indices[own].tolist(), matrix.data[own].tolist()
            if len(terms) > _CLAUSES:
                raise LexbenchError(
                    f"opensearch takes queries of {_CLAUSES:,} terms, and there is one of {len(terms):,}; "
                    f"keep the largest, as in encoder|prune_query({_CLAUSES})@opensearch"
                )
            lines += [{"index": self._name}, _request(terms, weights, hits.docs.shape[1])]
        begin = time.perf_counter()
        answers = self._client.ask("POST", "/_msearch", lines)
        if "took" in answers:  # milliseconds of the server's own
            self.transfer += max(0.0, time.perf_counter() - begin - answers["took"] / 1000)
        for row, answer in zip(rows, answers["responses"], strict=True):
            if "error" in answer or answer.get("timed_out") or answer.get("_shards", {}).get("failed"):
                raise LexbenchError(f"opensearch at {self._client.url}: a search failed: {json.dumps(answer)[:200]}")
            found = answer["hits"]["hits"]
            docs = np.array([hit["sort"][1] for hit in found], np.int64)
            fill(hits, row, docs, np.array([hit["sort"][0] for hit in found], np.float32))


def _request(terms: list[int], weights: list[int], k: int) -> dict[str, Any]:
    """Return the search for one query; the server itself puts equal scores in order of position."""
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


def _send(client: Client, name: str, matrix: sparse.csr_array, first: int) -> int:
    """Send the documents of one shard that have weights; return how many these are."""
    lines: list[Any] = []
    sent = 0

    def flush() -> None:
        if lines and (answer := client.ask("POST", f"/{name}/_bulk", lines)).get("errors"):
            wrong = next(item for item in answer["items"] if "error" in item["index"])
            raise LexbenchError(f"opensearch at {client.url} refused a document: {json.dumps(wrong)[:200]}")
        lines.clear()

    for row, (terms, weights) in enumerate(_rows(matrix)):
        if terms:
            lines += [{"index": {"_id": str(first + row)}}, {"p": first + row, "v": dict(zip(terms, weights, strict=True))}]
            sent += 1
        if len(lines) >= 2 * _BULK:
            flush()
    flush()
    return sent


def _rows(matrix: sparse.csr_array) -> Iterator[tuple[list[int], list[int]]]:
    for start, stop in pairwise(matrix.indptr.tolist()):
        yield matrix.indices[start:stop].tolist(), matrix.data[start:stop].tolist()


def _count(client: Client, name: str) -> int:
    """Return how many documents an index has; 0 where there is none of that name."""
    answer = client.ask("GET", f"/{name}/_count", accept=NOT_FOUND)
    return int(answer["count"]) if answer else 0
