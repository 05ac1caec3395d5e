"""A sparse model and its own mean states as one hybrid: one pass of the model gives both vectors of a text.

`sparse_mlm` pools logits into weights of terms; the mean of the states below them is a dense vector, which training may have
kept near a dense retriever's (`keep_means` in a recipe of lexbench). `with_means(lexmae_mini@impact)` is the ensemble of both
searches. Another dense model would take a second pass per document and query.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from lexbench.encoders.sparse_mlm import MEANS, TERMS, SparseMLM
from lexbench.engines.flat import Flat
from lexbench.errors import CommandError
from lexbench.notation import Call, Expression
from lexbench.registry import at_search
from lexbench.retrievers._fusion import FusedQueries, FusionRescorer
from lexbench.retrievers.encoded import Encoded
from lexbench.retrievers.ensemble import Ensemble, EnsembleSearcher
from lexbench.transforms.int8 import Int8
from lexbench.types import Query

_BOTH = 2


@dataclass(frozen=True)
class WithMeans(Ensemble):
    """An `ensemble` of one sparse masked-language model on an engine, and of its mean states, searched exactly.

    The settings are those of `ensemble`. By default scores are z-scores, and the means count a quarter of the terms. The index
    has the means as int8, one byte per dimension. Transforms of the member change the terms alone.
    """

    scores: str = at_search("z")

    # Development collections chose 0.25 for lexmae_mini among 0.25, 0.5 and 1: see docs/hybrids.md.
    usual_weights: ClassVar[tuple[float, ...]] = (1.0, 0.25)
    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        """Raise CommandError unless there is one member, a model whose states can be averaged; add the second member."""
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
        return OnePassSearcher(**{item.name: getattr(made, item.name) for item in fields(made)})

    def scorer(self, opened: Mapping[str, Any]) -> "OnePassRescorer":
        """Return the scorers of both members as one."""
        made = super().scorer(opened)
        return OnePassRescorer(made.members, made.rule)


class _OnePass:
    """Encodes queries in one pass of the model that all members share."""

    members: Sequence[Any]

    def encode_queries(self, queries: Sequence[Query]) -> Any:
        """Return the terms and the means of queries."""
        vectors = self.members[0].retriever.encoder.encode_queries(queries)
        return FusedQueries(member.retriever.as_queries(vectors) for member in self.members)

    def encode(self, queries: Sequence[str]) -> Any:
        """Return the terms and the means of query texts."""
        return self.encode_queries([Query("", text) for text in queries])


@dataclass(frozen=True)
class OnePassSearcher(_OnePass, EnsembleSearcher):
    """Searches terms and means of queries that are encoded once."""


@dataclass(frozen=True)
class OnePassRescorer(_OnePass, FusionRescorer):
    """Scores given documents by terms and means; queries are encoded once."""
