"""Several retrievers search the corpus, each on its own, and their scores are added.

The *ensemble* of Shen et al., "LexMAE: Lexicon-Bottlenecked Pretraining for Large-Scale Retrieval" (ICLR 2023), Table 5, which
names neither weights nor normalisation nor depth: here all are settings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from lexbench.errors import CommandError
from lexbench.fusion.normalise import Rule, ScoreMatrix, aligned, score_matrix, top_k, union, weighted_sum
from lexbench.plugins import BuildContext, Searcher
from lexbench.registry import at_search
from lexbench.retrievers._weighted_fusion import (
    FusedQueries,
    FusionRescorer,
    OpenedMembers,
    WeightedFusion,
    must_rescore,
    search_others,
)
from lexbench.storage.artifact_folder import read_references
from lexbench.types import Hits

_MISSING = ("min", "rescored", "zero")


@dataclass(frozen=True)
class Ensemble(WeightedFusion):
    """Each part's best *depth* documents; of what is in any of these lists, the best by the weighted sum of its scores.

    *missing* is what a document counts in a list that does not have it: "min" (the default), "zero" (that of "rrf"), or
    "rescored": what the part's exact score of it is, from the vector store; scores are then normalised over all documents of
    all lists. Of a list of BM25 or of sparse vectors that ended before *depth* "min" is the score 0 for what is not in it. On a
    dataset that drops a query's own document no list has it.
    """

    missing: str | None = None
    depth: int = at_search(1000)
    family: ClassVar[str] = "hybrid"
    version: ClassVar[int] = 2  # 2: lists that ended, and the query's own document left out before scores are normalised

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.missing is None:
            object.__setattr__(self, "missing", "zero" if self.scores == "rrf" else "min")
        if self.missing not in _MISSING:
            raise CommandError(f"ensemble(missing={self.missing!r}) is unknown; missing is one of {', '.join(_MISSING)}")
        if self.depth < 1:
            raise CommandError(f"ensemble(depth={self.depth}): a whole number from 1, as in depth=1000")
        if self._rescores:
            must_rescore("ensemble(missing='rescored')", self.members)
        for part in self.members:
            if isinstance(part, Ensemble):
                part.check_depth(self.depth)

    @property
    def _rescores(self) -> bool:
        return self.missing == "rescored"

    def check_depth(self, depth: int) -> None:
        """Raise CommandError where lists of *depth* documents are asked for and the parts are searched for fewer."""
        if depth > self.depth:
            raise CommandError(f"ensemble(depth={self.depth}) is asked for {depth} documents a query; give it depth={depth}")

    def search_inputs(self, context: BuildContext) -> list[Path]:
        """Return the index of each part, then what rescoring reads, if missing documents are rescored."""
        return [*map(context.index, self.members), *(self.rescoring_inputs(context) if self._rescores else ())]

    def open(self, path: Path) -> "EnsembleSearcher":
        """Open the parts."""
        folders = iter(read_references(path))
        parts = tuple(part.open(next(folders)) for part in self.members)
        rule = self._rule("zero" if self.missing == "zero" else "min")
        rescorer = self.rescorer(folders) if self._rescores else None
        return EnsembleSearcher(parts, rule, self.depth, rescorer, tuple(member.absent_is_zero for member in self.members))


@dataclass(frozen=True)
class EnsembleSearcher(OpenedMembers, Searcher):
    """The opened parts, all of them searched."""

    rule: Rule
    depth: int
    rescorer: FusionRescorer | None  # of the same parts, where missing documents are rescored
    absent_is_zero: tuple[bool, ...] = ()  # of each part; () is False

    def search(self, encoded: Sequence[Any], k: int) -> Hits:
        """Return the best *k*; each part is searched to *depth*, or to *k* where a self-match will be dropped."""
        matrix = self.score_matrix(encoded, k)
        return top_k(matrix.docs, weighted_sum(matrix, self.rule.weights), k)

    def score_matrix(self, encoded: Sequence[Any], k: int) -> ScoreMatrix:
        """Return the normalised scores of all documents of all lists."""
        own = encoded.own if isinstance(encoded, FusedQueries) else None
        depth = max(self.depth, k)
        lists = [search_others(part, queries, depth, own) for part, queries in zip(self.members, encoded, strict=True)]
        docs = union(lists)
        if self.rescorer:
            return self.rescorer.score_matrix(encoded, docs)
        short = [np.count_nonzero(hits.docs >= 0, axis=1) < depth for hits in lists]
        ended = [lacks & zero for lacks, zero in zip(short, self.absent_is_zero, strict=True)] if self.absent_is_zero else []
        return score_matrix(docs, [aligned(docs, hits) for hits in lists], self.rule, ended)
