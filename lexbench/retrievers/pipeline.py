"""The first retriever finds candidates; the others score those, without a search of their own.

The *pipeline* of Shen et al., "LexMAE: Lexicon-Bottlenecked Pretraining for Large-Scale Retrieval" (ICLR 2023), Table 5. What
the first does not find no other can bring back, so a result says how much of what is relevant is among the candidates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from lexbench.errors import CommandError
from lexbench.fusion.normalise import Columns, aligned, best, comparable, union, weighted
from lexbench.registry import at_search
from lexbench.retrievers._combination import Combination, Encoding, check_candidates, must_score, referred
from lexbench.retrievers.ensemble import Ensemble
from lexbench.types import Hits, Workshop


@dataclass(frozen=True)
class Pipeline(Combination):
    """The first part's best *k* documents, in the order of the weighted sum of all parts' scores; no others are returned.

    Scores are normalised over the candidates. With weights=[0, 1] the second part alone decides. On a dataset that drops a
    query's own document that is one of the k where the first part finds it: k - 1 others are ranked then.
    """

    k: int = at_search(100)
    family: ClassVar[str] = "hybrid"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k < 1:
            raise CommandError(f"pipeline(k={self.k}): a whole number from 1, as in k=100")
        first, *others = self.parts
        if isinstance(first, Ensemble):
            first.check_depth(self.k)
        must_score("pipeline, after its first retriever", others)

    def check_depth(self, depth: int) -> None:
        """Raise CommandError where not all candidates are kept: their recall could not be told."""
        check_candidates("pipeline", self.k, depth)

    def folders(self, workshop: Workshop) -> list[Path]:
        """Return the index of the first part, then what the others read."""
        first, *others = self.parts
        return [workshop.index(first), *(folder for part in others for folder in part.stored(workshop))]

    def open(self, path: Path) -> "PipelineSearcher":
        """Open the parts."""
        folders = iter(referred(path))
        first, *others = self.parts
        parts = (first.open(next(folders)), *(part.scorer(folders) for part in others))
        return PipelineSearcher(parts, self._rule(), self.k)


@dataclass(frozen=True)
class PipelineSearcher(Encoding):
    """The opened parts, the first of which is searched."""

    candidates: int

    def search(self, encoded: Sequence[Any], k: int) -> Hits:
        """Return the best *k* of the candidates."""
        columns = self.columns(encoded, k)
        return best(columns.docs, weighted(columns, self.rule.weights), k)

    def columns(self, encoded: Sequence[Any], k: int) -> Columns:  # noqa: ARG002 - there are no more than the candidates
        """Return what is added, for the candidates."""
        hits = self.parts[0].search(encoded[0], self.candidates)
        docs = union([hits])
        others = [part.score(one, docs) for part, one in zip(self.parts[1:], encoded[1:], strict=True)]
        return comparable(docs, [aligned(docs, hits), *others], self.rule)
