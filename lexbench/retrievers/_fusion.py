"""Base classes of retrievers that combine others: their settings, opened members, and weighted sums of scores.

`ensemble` and `pipeline` derive from `WeightedFusion`; `rerank` and `passages` use its helpers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from numbers import Real
from sys import maxsize
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.arrays.fusion import SCORES, Rule, ScoreMatrix, score_matrix, top_k, weighted_sum
from lexbench.artifacts.corpora import StoredTexts
from lexbench.artifacts.searches import Scorer
from lexbench.engines.kernels.checks import as_hits, as_scores
from lexbench.errors import CommandError, with_meaning
from lexbench.notation import Expression
from lexbench.plugins import CHOSEN_WEIGHTS, QueryEncoder, Rescorer, Retriever, Searcher, has
from lexbench.registry import at_search
from lexbench.storage.node import Node
from lexbench.synonyms import nearest
from lexbench.types import Hits, Query

_FEWEST = 2


class CombinedRetriever(Retriever):
    """Base class of retrievers that search with their members."""

    @property
    def _name(self) -> str:
        """The retriever's name in expressions."""
        return type(self).__name__.lower()


@dataclass(frozen=True)
class WeightedFusion(CombinedRetriever):
    """Several retrievers whose scores are normalised by *scores* and added with *weights* (default: 1 each).

    Weights "tuned" are chosen on the queries that the dataset's contract names for tuning. Weights "oracle" are chosen on the
    tested queries themselves: an upper bound, not a result. `lexbench.arrays.fusion` explains the values of *scores*;
    *rrf_k* is the constant of "rrf".
    """

    members: tuple[Any, ...] = ()
    weights: tuple[float, ...] | str = at_search(())
    scores: str = at_search("minmax")
    rrf_k: int = at_search(60)

    deterministic: ClassVar[bool] = True
    usual_weights: ClassVar[tuple[float, ...]] = ()  # if none are typed; (): 1 for each member

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings; fill in the weights, so that they are in every key."""
        name = self._name
        if len(self.members) < _FEWEST:
            raise CommandError(
                f"{name} takes two retrievers or more, e.g. {name}(bm25, bm25(k1=2.0)); {len(self.members)} given"
            )
        for member in self.members:
            if not has(member, "open"):
                raise CommandError(f"{name}: {type(member).__name__} has no index to search, so it cannot be a member")
        if not (isinstance(self.weights, str) and self.weights in CHOSEN_WEIGHTS):
            object.__setattr__(self, "weights", self._numbers())
        if self.scores not in SCORES:
            error = CommandError(f"{name}(scores={self.scores!r}) is unknown; scores are one of {', '.join(SCORES)}")
            raise with_meaning(error, self.scores, near[0]) if (near := nearest(str(self.scores), SCORES, 1)) else error
        if self.rrf_k < 0:
            raise CommandError(f"{name}(rrf_k={self.rrf_k}): a whole number from 0, e.g. rrf_k=60")

    def _numbers(self) -> tuple[float, ...]:
        """Return the weights as floats, one per member."""
        weights: Any = self.weights
        listed = weights if isinstance(weights, tuple | list) else (weights,)
        numbers = [item for item in listed if isinstance(item, Real) and not isinstance(item, bool) and 0 <= float(item) < inf]
        if len(numbers) < len(listed) or (listed and not any(numbers)):
            raise CommandError(
                f"{self._name}(weights={weights!r}): weights are numbers from 0, not all 0, e.g. weights=[1, 0.3], "
                'or "tuned", or "oracle"'
            )
        if listed and len(listed) != len(self.members):
            raise CommandError(f"{self._name} of {len(self.members)} retrievers takes as many weights; {len(listed)} given")
        return tuple(map(float, numbers)) or self.default_weights(len(self.members))

    @classmethod
    def expanded(cls, named: Sequence[Expression]) -> Sequence[Expression]:
        """Return its members as expressions, from those that a user *named*. Default: these."""
        return named

    @classmethod
    def default_weights(cls, members: int) -> tuple[float, ...]:
        """Return the weights (members,) if none are typed."""
        return cls.usual_weights or (1.0,) * members

    def _rule(self, missing: str = "min") -> Rule:
        """Return how the lists become one. Raises CommandError while the weights are not chosen yet."""
        if isinstance(self.weights, str):
            raise CommandError(f'{self._name}(weights="{self.weights}"): they are chosen in a run; here type weights=[…]')
        return Rule(self.weights, self.scores, missing, self.rrf_k)

    def scorer_parts(self, corpus: StoredTexts) -> dict[str, Node[Any]]:
        """Return the scorer of each member."""
        return {f"member {number}": Scorer(corpus, member) for number, member in enumerate(self.members, 1)}

    def scorer(self, opened: Mapping[str, Any]) -> "FusionRescorer":
        """Return the scorers of all members as one."""
        return FusionRescorer(tuple(opened.values()), self._rule())


def must_rescore(name: str, members: Sequence[Any]) -> None:
    """Raise CommandError, naming the retriever *name*, if one of *members* cannot score given documents."""
    for member in members:
        if not has(member, "scorer"):
            raise CommandError(
                f"{name}: {type(member).__name__} cannot score documents that others found; bm25 and encoders can"
            )
        must_rescore(name, member.members)


class CandidateRanker(CombinedRetriever):
    """Base class of retrievers that rank only the top *k* documents of their first member, the candidates."""

    k: int

    def check_candidates(self) -> None:
        """Raise CommandError unless there is a candidate."""
        if self.k < 1:
            raise CommandError(f"{self._name}(k={self.k}): a whole number from 1, e.g. k=100")

    @property
    def candidates(self) -> int:
        """How many documents of the first member are ranked."""
        return self.k

    def check_depth(self, depth: int) -> None:
        """Raise CommandError if not all candidates are kept: their recall would be unknown."""
        if depth < (k := self.k):
            raise CommandError(f"{self._name}(k={k}) ranks {k} candidates and {depth} are kept; raise --depth, or lower k")


class FusedQueries(list[Any]):
    """The encoded queries of each member. *own* (queries,) is the position of the document to leave out for each, or -1."""

    own: NDArray[np.int32] | None = None


def search_without(member: Any, encoded: Any, k: int, own: NDArray[np.int32] | None) -> Hits:
    """Return the best *k* documents that *member* finds for each query, without its *own* (queries,), if given."""
    hits = as_hits(member.search(encoded, k + (own is not None)), type(member).__name__)  # members are of other packages too
    if own is None:
        return hits
    others = (hits.docs >= 0) & (hits.docs != own[:, None])
    others &= np.cumsum(others, axis=1) <= k
    return Hits(np.where(others, hits.docs, -1), hits.scores)


def member_scores(member: Any, encoded: Any, docs: NDArray[np.int32]) -> NDArray[np.float32]:
    """Return the scores of *docs* (queries, n), padded with -1, by *member*, a Rescorer, perhaps of another package."""
    return as_scores(member.score(encoded, docs), type(member).__name__, docs.shape, docs >= 0)


def members_work(members: Sequence[Any], encoded: Sequence[Any]) -> dict[str, NDArray[np.int64]]:
    """Return the counts of *members*, named e.g. "member 2: rises"."""
    return {
        f"member {number}: {name}": counts
        for number, (member, queries) in enumerate(zip(members, encoded, strict=True), 1)
        if isinstance(member, Searcher)  # others score what the first has found
        for name, counts in member.work(queries).items()
    }


@dataclass(frozen=True)
class OpenedMembers(QueryEncoder):
    """The opened members of a fusion; encoded queries are a list with those of each member."""

    members: tuple[Any, ...]  # Searcher or Rescorer

    @property
    def queries_at_a_time(self) -> int:
        """The smallest number that a member wants."""
        return min((member.queries_at_a_time for member in self.members), default=maxsize)

    def encode(self, queries: Sequence[str]) -> Any:
        """Let each member encode query texts."""
        return FusedQueries(member.encode(queries) for member in self.members)

    def encode_queries(self, queries: Sequence[Query]) -> Any:
        """Let each member encode queries with their ids."""
        return FusedQueries(member.encode_queries(queries) for member in self.members)

    def without(self, encoded: Any, own: NDArray[np.int32]) -> Any:
        """Return *encoded* queries for which no member's list has the document *own* (queries,), a position, or -1 for none."""
        fused = FusedQueries(member.without(queries, own) for member, queries in zip(self.members, encoded, strict=True))
        fused.own = own
        return fused


@dataclass(frozen=True)
class FusionRescorer(OpenedMembers, Rescorer):
    """Scores given documents by all members; each member's scores are normalised over these documents."""

    rule: Rule

    def score(self, encoded: Sequence[Any], docs: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the weighted sums (queries, n) for *docs*."""
        return weighted_sum(self.score_matrix(encoded, docs), self.rule.weights)

    def score_matrix(self, encoded: Sequence[Any], docs: NDArray[np.int32]) -> ScoreMatrix:
        """Return the normalised scores of *docs* (queries, n) by each member."""
        scores = [member_scores(member, queries, docs) for member, queries in zip(self.members, encoded, strict=True)]
        return score_matrix(docs, scores, self.rule)


@dataclass(frozen=True)
class FusionSearcher(OpenedMembers, Searcher):
    """Ranks documents by the weighted sums of the members' scores. A subclass defines `score_matrix`."""

    rule: Rule

    def search(self, encoded: Sequence[Any], k: int) -> Hits:
        """Return the top *k* documents of each query."""
        matrix = self.score_matrix(encoded, k)
        return top_k(matrix.docs, weighted_sum(matrix, self.rule.weights), k)

    def work(self, encoded: Sequence[Any]) -> dict[str, NDArray[np.int64]]:
        """Return the counts of all members that search."""
        return members_work(self.members, encoded)
