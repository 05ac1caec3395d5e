"""A sparse model and its own mean states as one hybrid: one pass of the model gives both vectors of a text.

`sparse_mlm` pools logits into weights of terms; the mean of the states below them is a dense vector, which training may have
kept near a dense retriever's (`keep_means` in a recipe of lexbench). `with_means(lexmae_mini@impact)` is the ensemble of both
searches. Another dense model would take a second pass per document and query.

The means are searched for what resembles the documents that the terms find first, not for what resembles the query. This is
pseudo-relevance feedback by vectors: *average* of Li et al., "Pseudo Relevance Feedback with Deep Language Models and Dense
Retrievers" (TOIS 2023), without the query, which the terms know already.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.arrays.fusion import ScoreMatrix, score_matrix, top_k
from lexbench.arrays.vectors import unit_length
from lexbench.encoders.sparse_mlm import MEANS, TERMS, SparseMLM
from lexbench.encodings.shards import read_rows
from lexbench.engines.flat import Flat
from lexbench.errors import CommandError
from lexbench.notation import Call, Expression
from lexbench.registry import at_search
from lexbench.retrievers._fusion import FusedQueries, FusionRescorer, member_scores, search_without
from lexbench.retrievers.encoded import Encoded
from lexbench.retrievers.ensemble import Ensemble, EnsembleSearcher
from lexbench.transforms.int8 import Int8
from lexbench.types import Codes, Hits, Query

_BOTH = 2
_FEEDBACK = 3  # development collections chose it and the weights for lexmae_mini: see docs/hybrids.md


@dataclass(frozen=True)
class WithMeans(Ensemble):
    """An `ensemble` of one sparse masked-language model on an engine, and of its mean states, searched exactly.

    The means of the first *feedback* documents that the terms find are averaged, and the average searches the means. With
    feedback=0, and for a query whose terms find nothing, the query's own mean does. The other settings are those of `ensemble`.
    By default scores are z-scores, and the means count half of the terms. The index has the means as int8, one byte per
    dimension. Transforms of the member change the terms alone.
    """

    scores: str = at_search("z")
    feedback: int = at_search(_FEEDBACK)

    usual_weights: ClassVar[tuple[float, ...]] = (1.0, 0.5)
    version: ClassVar[int] = 3

    def __post_init__(self) -> None:
        """Raise CommandError unless there is one member, a model whose states can be averaged; add the second member."""
        if self.feedback < 0:
            raise CommandError(f"with_means(feedback={self.feedback}): a number of documents, e.g. feedback=3, or 0 for none")
        if len(self.members) != _BOTH or not all(isinstance(member, Encoded) and member.part for member in self.members):
            object.__setattr__(self, "members", self._both())
        super().__post_init__()

    def _both(self) -> tuple[Encoded, Encoded]:
        """Return the member for terms and the one for means, which share an encoder."""
        (member,) = self.members if len(self.members) == 1 else (None,)
        if not (isinstance(member, Encoded) and isinstance(member.encoder, SparseMLM)):
            raise CommandError("with_means takes one masked-language model on an engine, e.g. with_means(lexmae_mini@impact)")
        if member.encoder.query_model:
            raise CommandError("with_means: queries and documents need the same model; leave query_model out")
        encoder = replace(member.encoder, means=True)
        return replace(member, encoder=encoder, part=TERMS), Encoded(encoder, Flat(), (Int8(),), part=MEANS)

    @classmethod
    def expanded(cls, named: Sequence[Expression]) -> list[Expression]:
        """Return the members for terms and for means."""
        both = []
        for one in named:
            head = replace(one.head, kwargs=tuple(sorted({**dict(one.head.kwargs), "means": True}.items())))
            both += [replace(one, head=head), Expression(head, (Call("int8"),), Call("flat"))]
        return both

    def open(self, opened: Mapping[str, Any]) -> "OnePassSearcher":
        """Return both members as one searcher."""
        made = super().open(opened)
        return OnePassSearcher(**{item.name: getattr(made, item.name) for item in fields(made)}, feedback=self.feedback)

    def scorer(self, opened: Mapping[str, Any]) -> "OnePassRescorer":
        """Return the scorers of both members as one."""
        made = super().scorer(opened)
        return OnePassRescorer(made.members, made.rule, self.feedback)


class _OnePass:
    """Encodes queries in one pass of the model that all members share."""

    members: Sequence[Any]
    feedback: int

    def encode_queries(self, queries: Sequence[Query]) -> Any:
        """Return the terms and the means of queries."""
        vectors = self.members[0].retriever.encoder.encode_queries(queries)
        return FusedQueries(member.retriever.as_queries(vectors) for member in self.members)

    def encode(self, queries: Sequence[str]) -> Any:
        """Return the terms and the means of query texts."""
        return self.encode_queries([Query("", text) for text in queries])

    def fed(self, means: Codes, found: NDArray[np.int32]) -> Codes:
        """Return the queries of the *means* after feedback from the documents *found* (queries, n), best first, -1 for none."""
        found = found[:, : self.feedback]
        told = np.flatnonzero((found >= 0).any(axis=1))
        if not len(told):
            return means
        positions, at = np.unique(found[told], return_inverse=True)  # the row of -1, if it is one, counts 0 below
        retriever = self.members[1].retriever
        vectors = retriever.transforms[0].vectors(self.codes(np.maximum(positions, 0)))
        averages = (vectors[at.reshape(len(told), -1)] * (found[told] >= 0)[..., None]).sum(axis=1)
        fed = replace(retriever, part="").as_queries(unit_length(averages))
        parts = {name: getattr(means, name).copy() for name in ("values", "scales", "offsets")}
        for name, part in parts.items():
            part[told] = getattr(fed, name)
        return means._replace(**parts)

    def codes(self, positions: NDArray[np.int32]) -> NDArray[np.int8]:
        """Return the codes (n, width) of the means of the documents at ascending *positions*."""
        raise NotImplementedError


@dataclass(frozen=True)
class OnePassSearcher(_OnePass, EnsembleSearcher):
    """Searches terms and means of queries that are encoded once."""

    feedback: int = _FEEDBACK

    def lists(self, encoded: Sequence[Any], depth: int) -> list[Hits]:
        """Return the best *depth* documents by terms, and those by means after feedback from the first."""
        own = getattr(encoded, "own", None)  # see FusedQueries
        terms = search_without(self.members[0], encoded[0], depth, own)
        return [terms, search_without(self.members[1], self.fed(encoded[1], terms.docs), depth, own)]

    def codes(self, positions: NDArray[np.int32]) -> NDArray[np.int8]:
        """Return the codes (n, width) that the index has."""
        return np.asarray(self.members[1].index.codes[positions])


@dataclass(frozen=True)
class OnePassRescorer(_OnePass, FusionRescorer):
    """Scores given documents by terms and means; queries are encoded once. Feedback is of the best among these documents."""

    feedback: int = _FEEDBACK

    def score_matrix(self, encoded: Sequence[Any], docs: NDArray[np.int32]) -> ScoreMatrix:
        """Return the normalised scores of *docs* (queries, n) by terms, and by means after feedback from the first."""
        terms = member_scores(self.members[0], encoded[0], docs)
        best = top_k(docs, np.where(docs >= 0, terms, -np.inf).astype(np.float32), self.feedback)
        means = member_scores(self.members[1], self.fed(encoded[1], best.docs), docs)
        return score_matrix(docs, [terms, means], self.rule)

    def codes(self, positions: NDArray[np.int32]) -> NDArray[np.int8]:
        """Return the codes (n, width) of the stored vectors."""
        scorer = self.members[1]
        return np.asarray(scorer.retriever.as_documents(read_rows(scorer.path, positions)).values)
