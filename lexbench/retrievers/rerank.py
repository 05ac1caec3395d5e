"""A retriever finds candidates, and a reranker that reads query and document together orders them.

The *retrieve and rerank* of Shen et al., "LexMAE: Lexicon-Bottlenecked Pretraining for Large-Scale Retrieval" (ICLR 2023),
Table 9. A reranker cannot add documents that the retriever does not find, so a result reports the recall of the candidates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.arrays.fusion import top_k, union
from lexbench.artifacts.corpora import StoredTexts
from lexbench.artifacts.searches import Search
from lexbench.datasets.corpus import StoredCorpus
from lexbench.engines.kernels.checks import as_scores
from lexbench.errors import CommandError
from lexbench.plugins import CUT_PAIRS, Reranker, Searcher, has
from lexbench.registry import at_search
from lexbench.retrievers._fusion import CandidateRanker, OpenedMembers, members_work, search_without
from lexbench.retrievers.ensemble import Ensemble
from lexbench.storage.node import Node
from lexbench.types import Hits, Query

_PAIRS = 1500  # scored between two stored parts of a run; another number needs another version


@dataclass(frozen=True)
class Rerank(CandidateRanker):
    """The best *k* documents of the one member, ranked only by the *reranker*'s scores; no others are returned.

    Of equal scores the lower position comes first. On a dataset that drops a query's own document, it is not a candidate.
    `search` includes the time that scoring takes.
    """

    members: tuple[Any, ...] = ()
    reranker: Reranker | None = field(default=None, metadata={"search": True})
    k: int = at_search(100)

    family: ClassVar[str] = "reranker"
    version: ClassVar[int] = 2  # 2: the query's own document is left out before there are candidates
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings."""
        if len(self.members) != 1 or not isinstance(self.reranker, Reranker):
            raise CommandError(
                'rerank takes a retriever and a reranker, e.g. rerank(bm25, cross_encoder(model="FOLDER"), k=100)'
            )
        self.check_candidates()
        (first,) = self.members
        if not has(first, "open"):
            raise CommandError(f"rerank: {type(first).__name__} has no index to search, so there are no candidates to rerank")
        if isinstance(first, Ensemble):
            first.check_depth(self.k)

    def parts(self, corpus: StoredTexts) -> dict[str, Node[Any]]:
        """Return the search of the retriever, and the corpus, whose texts are read."""
        return {"first": Search(corpus, self.members[0]), "corpus": corpus}

    def open(self, opened: Mapping[str, Any]) -> "RerankSearcher":
        """Return the retriever with the reranker."""
        assert self.reranker is not None  # `__post_init__` refuses it
        return RerankSearcher((opened["first"],), opened["corpus"], self.reranker, self.k)


@dataclass(frozen=True)
class PairQueries:
    """Queries as texts and as the retriever encoded them. Searching counts how many pairs of each query are *cut*."""

    texts: Sequence[str]
    encoded: Any
    cut: NDArray[np.int64]  # (queries,)
    own: NDArray[np.int32] | None = None  # (queries,) position of the document to leave out of each, or -1


@dataclass(frozen=True)
class RerankSearcher(OpenedMembers, Searcher):
    """The opened retriever and corpus, and the reranker of its candidates."""

    corpus: StoredCorpus
    reranker: Reranker
    candidates: int

    @property
    def queries_at_a_time(self) -> int:
        """The number of queries with about 1,500 pairs in total, or fewer if the retriever wants fewer."""
        return min(super().queries_at_a_time, max(1, _PAIRS // self.candidates))

    def encode(self, queries: Sequence[str]) -> PairQueries:
        """Let the retriever encode query texts."""
        return PairQueries(queries, self.members[0].encode(queries), np.zeros(len(queries), np.int64))

    def encode_queries(self, queries: Sequence[Query]) -> PairQueries:
        """Let the retriever encode queries with their ids."""
        encoded = self.members[0].encode_queries(queries)
        return PairQueries([query.text for query in queries], encoded, np.zeros(len(queries), np.int64))

    def without(self, encoded: PairQueries, own: NDArray[np.int32]) -> PairQueries:
        """Return *encoded* queries for which the document *own* (queries,) is not a candidate."""
        (first,) = super().without([encoded.encoded], own)
        return replace(encoded, encoded=first, own=own)

    def search(self, encoded: PairQueries, k: int) -> Hits:
        """Return the best *k* of the candidates."""
        docs = union([search_without(self.members[0], encoded.encoded, self.candidates, encoded.own)])
        return top_k(docs, self._scores(encoded, docs), k)

    def work(self, encoded: PairQueries) -> dict[str, NDArray[np.int64]]:
        """Return how many pairs of each query the reranker has cut, once they are searched, and the counts of the retriever."""
        return {CUT_PAIRS: encoded.cut} | members_work(self.members, [encoded.encoded])

    def _scores(self, queries: PairQueries, docs: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the scores (queries, n) of *docs*, -inf where there is none."""
        scores, there = np.full(docs.shape, -np.inf, np.float32), docs >= 0
        positions = docs[there].tolist()
        if positions:
            documents = {position: next(self.corpus.documents(position, position + 1)) for position in sorted(set(positions))}
            rows = np.nonzero(there)[0]
            texts = [queries.texts[row] for row in rows.tolist()]
            found = self.reranker.scored_pairs(texts, [documents[position] for position in positions])
            scores[there] = as_scores(found.scores, type(self.reranker).__name__, (len(positions),))
            queries.cut[:] = np.bincount(rows[found.cut], minlength=len(scores))
        return scores
