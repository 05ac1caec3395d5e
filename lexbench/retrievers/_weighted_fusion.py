"""What retrievers that are made of retrievers share: their settings, the opened parts, and the scores of all parts."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from numbers import Real
from pathlib import Path
from sys import maxsize
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import CommandError
from lexbench.fusion.normalise import SCORES, Rule, ScoreMatrix, score_matrix, weighted_sum
from lexbench.plugins import (
    CHOSEN_WEIGHTS,
    BuildContext,
    PairScorer,
    QueryEncoder,
    Rescorer,
    Retriever,
)
from lexbench.registry import at_search
from lexbench.retrievers._vector_rescorer import VectorQueries
from lexbench.storage.artifact_folder import write_references
from lexbench.types import Corpus, Hits, Query

_FEWEST = 2


@dataclass(frozen=True)
class WeightedFusion(Retriever):
    """Several retrievers, whose scores are added with *weights* (default: 1 each), made comparable as *scores* says.

    Weights "tuned" are chosen on the queries that the dataset's contract names for tuning, "oracle" on the tested ones
    themselves: an upper bound, and no result. `lexbench.fusion.normalise` has the values of *scores*; *rrf_k* is the constant
    of "rrf".
    """

    members: tuple[Any, ...] = ()
    weights: tuple[float, ...] | str = at_search(())
    scores: str = at_search("minmax")
    rrf_k: int = at_search(60)

    deterministic: ClassVar[bool] = True
    can_rescore: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise CommandError for settings that cannot be; fill in the weights, so that they are in every key."""
        name = self._name
        if len(self.members) < _FEWEST:
            raise CommandError(
                f"{name} takes two retrievers or more, as in {name}(bm25, bm25(k1=2.0)); {len(self.members)} given"
            )
        for part in self.members:
            if not has_index(part):
                raise CommandError(f"{name}: {type(part).__name__} has no index to search, so it cannot be a member")
        if not (isinstance(self.weights, str) and self.weights in CHOSEN_WEIGHTS):
            object.__setattr__(self, "weights", self._numbers())
        if self.scores not in SCORES:
            raise CommandError(f"{name}(scores={self.scores!r}) is unknown; scores are one of {', '.join(SCORES)}")
        if self.rrf_k < 0:
            raise CommandError(f"{name}(rrf_k={self.rrf_k}): a whole number from 0, as in rrf_k=60")

    def _numbers(self) -> tuple[float, ...]:
        """Return the weights as floats, one a part."""
        weights: Any = self.weights
        listed = weights if isinstance(weights, tuple | list) else (weights,)
        numbers = [item for item in listed if isinstance(item, Real) and not isinstance(item, bool) and 0 <= float(item) < inf]
        if len(numbers) < len(listed) or (listed and not any(numbers)):
            raise CommandError(
                f"{self._name}(weights={weights!r}): weights are numbers from 0, not all 0, as in weights=[1, 0.3], "
                'or "tuned", or "oracle"'
            )
        if listed and len(listed) != len(self.members):
            raise CommandError(f"{self._name} of {len(self.members)} retrievers takes as many weights; {len(listed)} given")
        return tuple(map(float, numbers)) or (1.0,) * len(self.members)

    @property
    def _name(self) -> str:
        return type(self).__name__.lower()

    def _rule(self, missing: str = "min") -> Rule:
        if isinstance(self.weights, str):
            raise CommandError(f'{self._name}(weights="{self.weights}"): they are chosen in a run; here type weights=[…]')
        return Rule(self.weights, self.scores, missing, self.rrf_k)

    def assemble(self, corpus: Corpus, path: Path, context: BuildContext) -> None:  # noqa: ARG002 - the parts read the corpus
        """Write down in *path* which folders searching reads."""
        write_references(path, self.search_inputs(context))

    def rescoring_inputs(self, context: BuildContext) -> list[Path]:
        """Return the folders that scoring given documents reads."""
        return [folder for part in self.members for folder in part.rescoring_inputs(context)]

    def rescorer(self, folders: Iterator[Path]) -> "FusionRescorer":
        """Open the rescorers of all parts from the folders returned by `rescoring_inputs`."""
        return FusionRescorer(tuple(part.rescorer(folders) for part in self.members), self._rule())


def has_index(retriever: Any) -> bool:
    """Whether an object is a retriever that can be searched, and not a finished run."""
    return isinstance(retriever, Retriever) and not retriever.finished


def must_rescore(name: str, parts: Sequence[Any]) -> None:
    """Raise CommandError, for the retriever *name*, where one of *parts* cannot score documents that it is given."""
    for part in parts:
        if not part.can_rescore:
            raise CommandError(f"{name}: {type(part).__name__} cannot score documents that others found; bm25 and encoders can")
        must_rescore(name, part.members)


def check_candidates(name: str, k: int, depth: int) -> None:
    """Raise CommandError, for the retriever *name*, where a run of *depth* has not all of its *k* candidates."""
    if depth < k:
        raise CommandError(f"{name}(k={k}) ranks {k} candidates and {depth} are kept; raise --depth, or lower k")


class FusedQueries(list[Any]):
    """What each part made of queries. *own* (queries,): the position of the document that is left out of each, or -1."""

    own: NDArray[np.int32] | None = None


def search_others(part: Any, encoded: Any, k: int, own: NDArray[np.int32] | None) -> Hits:
    """Return the best *k* documents of each query that *part* finds besides those left out, *own* (queries,), if any."""
    if own is None:
        return part.search(encoded, k)  # type: ignore[no-any-return]  # parts are of other packages, too
    hits = part.search(encoded, k + 1)
    others = (hits.docs >= 0) & (hits.docs != own[:, None])
    others &= np.cumsum(others, axis=1) <= k
    return Hits(np.where(others, hits.docs, -1), hits.scores)


@dataclass(frozen=True)
class OpenedMembers(QueryEncoder):
    """The opened parts of a fusion; encoded queries are a list with what each part made of them."""

    members: tuple[Any, ...]  # Searcher or Rescorer

    @property
    def queries_at_a_time(self) -> int:
        """The smallest block that a part asks for."""
        return min((part.queries_at_a_time for part in self.members), default=maxsize)

    def encode(self, queries: Sequence[str]) -> Any:
        """Let each part encode query texts."""
        return [part.encode(queries) for part in self.members]

    def encode_queries(self, queries: Sequence[Query], cache: dict[Any, Any] | None = None) -> Any:
        """Let each part encode queries with their ids. *cache* has what parts share, so an encoder of several runs once."""
        cache = {} if cache is None else cache
        return [_encoded(part, queries, cache) for part in self.members]

    def pair_scorers(self, encoded: Any) -> Sequence[tuple[PairScorer, Any]]:
        """Return the parts, and what is in them, that score pairs, each with its part of *encoded* queries."""
        opened = zip(self.members, encoded, strict=True)
        return [one for part, queries in opened for one in part.pair_scorers(queries)]

    def without(self, encoded: Any, own: NDArray[np.int32]) -> Any:
        """Return *encoded* queries of which no part's list has the document *own* (queries,), a position, or -1 for none."""
        fused = FusedQueries(part.without(queries, own) for part, queries in zip(self.members, encoded, strict=True))
        fused.own = own
        return fused


def _encoded(part: Any, queries: Sequence[Query], cache: dict[Any, Any]) -> Any:
    """Let *part* encode *queries*; vectors of an equal encoder are taken from *cache*."""
    if isinstance(part, OpenedMembers):
        return part.encode_queries(queries, cache)
    if not isinstance(part, VectorQueries):
        return part.encode_queries(queries)
    if (key := cache_key(part.retriever.encoder)) not in cache:
        cache[key] = part.retriever.encoder.encode_queries(queries)
    return part.retriever.as_queries(cache[key])


def cache_key(plugin: Any) -> Hashable:
    """Return what plug-ins with the same settings have in common; one that has no hash is equal to itself alone."""
    try:
        hash(plugin)
    except TypeError:
        return id(plugin)
    return plugin  # type: ignore[no-any-return]  # it has a hash


@dataclass(frozen=True)
class FusionRescorer(OpenedMembers, Rescorer):
    """Scores given documents by all parts; each part's scores are normalised over these documents."""

    rule: Rule

    def score(self, encoded: Sequence[Any], docs: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the weighted sums (queries, n) for *docs*."""
        return weighted_sum(self.score_matrix(encoded, docs), self.rule.weights)

    def score_matrix(self, encoded: Sequence[Any], docs: NDArray[np.int32]) -> ScoreMatrix:
        """Return the normalised scores of *docs* (queries, n) by each part."""
        scores = [part.score(queries, docs) for part, queries in zip(self.members, encoded, strict=True)]
        return score_matrix(docs, scores, self.rule)
