"""lexbench and beir: our retrievers in beir's EvaluateRetrieval, and beir's retrieval models among our systems.

    EvaluateRetrieval(lexbench.interop.beir.searcher("bm25(k1=0.9)")).retrieve(corpus, queries)
    lexbench.run("beir", {"mine": beir.retrieval.models.SentenceBERT(folder)})   # recognised by its methods
    lexbench.run("beir", {"mine": lexbench.interop.beir.encoder(model, similarity="dot")})

Nothing of beir is imported, because it only needs certain methods. Checked with beir 2.2.0.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lexbench.contracts import Contract, Protocol, SourceFacts, TextPolicy
from lexbench.datasets.dataset import Dataset, Topics
from lexbench.datasets.memory import Memory
from lexbench.errors import CommandError
from lexbench.progress import Progress, Silent
from lexbench.runner import systems, tuning
from lexbench.runner.adapters import beir_encoder as encoder
from lexbench.runner.search import DatasetRunner, read_run
from lexbench.runner.systems import System
from lexbench.storage.store import Store
from lexbench.trec.runs import Run, strictly_decreasing
from lexbench.types import Query

__all__ = ["Search", "encoder", "searcher"]

_IN_MEMORY = Contract(
    schema=1,
    id="beir/in-memory",
    version=0,  # there is no published contract
    name="in memory",
    description="The corpus and the queries that beir passes.",
    corpus="beir/in-memory",
    source=SourceFacts(loader="files"),
    text=TextPolicy(document="title_text"),
    protocol=Protocol(self_match="drop"),  # like DenseRetrievalExactSearch and BM25Search
)


def searcher(retriever: Any, store: str | Path | None = None, progress: Progress | None = None) -> "Search":
    """Return a retriever for beir's EvaluateRetrieval.

    *retriever* is any system that `lexbench.run` takes. Corpora, encodings, indexes and runs are kept in *store* (default: the
    user's) and reused. Raises CommandError or CannotStart before any work.
    """
    system = systems.system(retriever)
    if system.retriever.finished:
        raise CommandError(f"{system.name} has no index to search, so beir cannot use it; give a retriever, e.g. 'bm25'")
    if any(tuning.rules(system.retriever)):
        raise CommandError(f"{system.name}: beir has no queries to choose weights on; type weights=[…]")
    return Search(system, Store(Path(store)) if store else Store(), progress or Silent())


@dataclass(frozen=True)
class Search:
    """A system of ours with the `search` of beir's BaseSearch."""

    system: System
    store: Store
    progress: Progress

    def search(
        self,
        corpus: Mapping[str, Mapping[str, str]],
        queries: Mapping[str, str],
        top_k: int,
        score_function: str | None = None,  # noqa: ARG002 - a system has its own
        **_options: Any,
    ) -> dict[str, dict[str, float]]:
        """Return the best *top_k* documents of each query, {query: {document: score}}, best first.

        Like in beir, title and text are joined by a space, and a document with the query's own id is left out. Equal scores are
        lowered by the smallest step, so that every tool sees our order.
        """
        by_id = sorted(queries.items(), key=lambda item: item[0].encode())
        topics = Topics(tuple(Query(query_id, text) for query_id, text in by_id), (), 0)
        dataset = Dataset(_IN_MEMORY, Memory(_IN_MEMORY, {"corpus": corpus}), topics)
        self.system.retriever.check_depth(top_k)
        self.store.prepare()
        runner = DatasetRunner(dataset, self.store, self.progress)
        try:
            lists = _lists(read_run(runner.run(self.system, top_k).folder).run)
        finally:
            if not self.system.reusable:
                runner.forget()
        return {query_id: lists.get(query_id, {}) for query_id in queries}


def _lists(run: Run) -> dict[str, dict[str, float]]:
    """Return the scores by query and document, the best first."""
    scores = strictly_decreasing(run).tolist()
    ids = [doc_id.decode() for doc_id in run.table[run.docs].tolist()]
    bounds = zip(run.query_ids, run.offsets[:-1].tolist(), run.offsets[1:].tolist(), strict=True)
    return {query_id: dict(zip(ids[start:stop], scores[start:stop], strict=True)) for query_id, start, stop in bounds}
