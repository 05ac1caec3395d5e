"""Elasticsearch: the engine `opensearch` on a server of the other make, and indexes of it that others built."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import SplitResult

from lexbench.engines.opensearch import OpenSearch, RunningOpenSearch, named_weights
from lexbench.plugins import RunningIndex


@dataclass(frozen=True)
class Elasticsearch(OpenSearch):
    """Searches exactly as `opensearch` does, and reads the same environment variables."""

    @classmethod
    def attach(cls, address: SplitResult) -> RunningIndex:
        """Open the index at elasticsearch://HOST:9200/INDEX/FIELD."""
        return RunningElasticsearch(address)


class RunningElasticsearch(RunningOpenSearch):
    """A field of an index: dense vectors for kNN, or a `sparse_vector`, whose setting `prune` leaves out frequent terms."""

    knob = "num_candidates"
    called: ClassVar[str] = "elasticsearch"
    dense_type: ClassVar[str] = "dense_vector"
    sparse_types: ClassVar[tuple[str, ...]] = ("sparse_vector",)

    def _space(self) -> str:
        return str(self._facts.get("similarity", "cosine"))

    def _near(self, query: Any, k: int, settings: Mapping[str, Any], filters: list[Any]) -> dict[str, Any]:
        return {"knn": {"field": self._field, "query_vector": query.tolist(), "k": k, **settings, "filter": filters}}

    def _sparse_query(self, query: Any, settings: Mapping[str, Any], filters: list[Any]) -> dict[str, Any]:
        weights = {"field": self._field, "query_vector": named_weights(query), **settings}
        return {"query": {"bool": {"must": [{"sparse_vector": weights}], "filter": filters}}}
