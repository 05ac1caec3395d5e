"""Several retrievers search the corpus independently, and their scores are added.

The *ensemble* of Shen et al., "LexMAE: Lexicon-Bottlenecked Pretraining for Large-Scale Retrieval" (ICLR 2023), Table 5, which
names neither weights nor normalisation nor depth: here all are settings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from lexbench.arrays.fusion import ScoreMatrix, aligned, score_matrix, union
from lexbench.artifacts.corpora import StoredTexts
from lexbench.artifacts.searches import Scorer, Search
from lexbench.errors import CommandError
from lexbench.registry import at_search
from lexbench.retrievers._fusion import FusionRescorer, FusionSearcher, WeightedFusion, must_rescore, search_without
from lexbench.storage.node import Node
from lexbench.types import Hits

_MISSING = ("min", "rescored", "zero")


@dataclass(frozen=True)
class Ensemble(WeightedFusion):
    """Each member finds its best *depth* documents; all documents found are ranked by the weighted sum of their scores.

    *missing* is the score of a document in a list that does not have it: "min", the least of the list (the default), "zero"
    (the default of "rrf"), or "rescored", the member's exact score of it. With "rescored" scores are normalised over all
    documents of all lists. If a list of BM25 or of sparse vectors ends before *depth*, "min" is the score 0. On a dataset that
    drops a query's own document, no list has it.
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
            raise CommandError(f"ensemble(depth={self.depth}): a whole number from 1, e.g. depth=1000")
        if self._rescores:
            must_rescore("ensemble(missing='rescored')", self.members)
        for member in self.members:
            if isinstance(member, Ensemble):
                member.check_depth(self.depth)

    @property
    def _rescores(self) -> bool:
        """Whether documents that a list does not have are scored."""
        return self.missing == "rescored"

    def check_depth(self, depth: int) -> None:
        """Raise CommandError if runs have *depth* documents and the members are searched for fewer."""
        if depth > self.depth:
            raise CommandError(f"ensemble(depth={self.depth}) is asked for {depth} documents per query; give it depth={depth}")

    def parts(self, corpus: StoredTexts) -> dict[str, Node[Any]]:
        """Return the search of each member, and the scorer of all members if missing documents are rescored."""
        searches: dict[str, Node[Any]] = {f"member {n}": Search(corpus, member) for n, member in enumerate(self.members, 1)}
        return searches | ({"scorer": Scorer(corpus, self)} if self._rescores else {})

    def open(self, opened: Mapping[str, Any]) -> "EnsembleSearcher":
        """Return the members as one searcher."""
        members = tuple(part for name, part in opened.items() if name != "scorer")
        rule = self._rule("zero" if self.missing == "zero" else "min")
        return EnsembleSearcher(
            members, rule, self.depth, opened.get("scorer"), tuple(member.absent_is_zero for member in self.members)
        )


@dataclass(frozen=True)
class EnsembleSearcher(FusionSearcher):
    """The opened members. All of them are searched, to *depth*, or to k if that is more."""

    depth: int
    rescorer: FusionRescorer | None  # of the same members, if missing documents are rescored
    absent_is_zero: tuple[bool, ...] = ()  # of each member; () is False for all

    def score_matrix(self, encoded: Sequence[Any], k: int) -> ScoreMatrix:
        """Return the normalised scores of all documents of all lists."""
        depth = max(self.depth, k)
        lists = self.lists(encoded, depth)
        docs = union(lists)
        if self.rescorer:
            return self.rescorer.score_matrix(encoded, docs)
        short = [np.count_nonzero(hits.docs >= 0, axis=1) < depth for hits in lists]
        ended = [lacks & zero for lacks, zero in zip(short, self.absent_is_zero, strict=True)] if self.absent_is_zero else []
        return score_matrix(docs, [aligned(docs, hits) for hits in lists], self.rule, ended)

    def lists(self, encoded: Sequence[Any], depth: int) -> list[Hits]:
        """Return the best *depth* documents of each member."""
        own = getattr(encoded, "own", None)  # see FusedQueries
        return [search_without(one, queries, depth, own) for one, queries in zip(self.members, encoded, strict=True)]
