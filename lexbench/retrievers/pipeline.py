"""The first retriever finds candidates; the others score those, without a search of their own.

The *pipeline* of Shen et al., "LexMAE: Lexicon-Bottlenecked Pretraining for Large-Scale Retrieval" (ICLR 2023), Table 5. The
others cannot add documents that the first does not find, so a result reports the recall of the candidates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from lexbench.arrays.fusion import ScoreMatrix, aligned, score_matrix, union
from lexbench.artifacts.corpora import StoredTexts
from lexbench.artifacts.searches import Search
from lexbench.registry import at_search
from lexbench.retrievers._fusion import (
    CandidateRanker,
    FusionSearcher,
    WeightedFusion,
    member_scores,
    must_rescore,
    search_without,
)
from lexbench.retrievers.ensemble import Ensemble
from lexbench.storage.node import Node


@dataclass(frozen=True)
class Pipeline(CandidateRanker, WeightedFusion):
    """The first member's best *k* documents, ranked by the weighted sum of all members' scores; no others are returned.

    Scores are normalised over the candidates. With weights=[0, 1] only the second member decides. On a dataset that drops a
    query's own document, it is not a candidate.
    """

    k: int = at_search(100)
    family: ClassVar[str] = "hybrid"
    version: ClassVar[int] = 2  # 2: the query's own document is left out before there are candidates

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_candidates()
        first, *others = self.members
        if isinstance(first, Ensemble):
            first.check_depth(self.k)
        must_rescore("pipeline, after its first retriever", others)

    def parts(self, corpus: StoredTexts) -> dict[str, Node[Any]]:
        """Return the search of the first member, and the scorers of the others."""
        return {**self.scorer_parts(corpus), "member 1": Search(corpus, self.members[0])}

    def open(self, opened: Mapping[str, Any]) -> "PipelineSearcher":
        """Return the members as one searcher."""
        return PipelineSearcher(tuple(opened.values()), self._rule(), self.k)


@dataclass(frozen=True)
class PipelineSearcher(FusionSearcher):
    """The opened members; only the first is searched."""

    candidates: int

    def score_matrix(self, encoded: Sequence[Any], k: int) -> ScoreMatrix:  # noqa: ARG002 - there are only the candidates
        """Return the normalised scores of the candidates."""
        own = getattr(encoded, "own", None)  # see FusedQueries
        hits = search_without(self.members[0], encoded[0], self.candidates, own)
        docs = union([hits])
        others = [member_scores(one, queries, docs) for one, queries in zip(self.members[1:], encoded[1:], strict=True)]
        return score_matrix(docs, [aligned(docs, hits), *others], self.rule)
