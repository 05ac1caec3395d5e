"""The half of searching, and of scoring, that needs no index: what an encoder and transforms make of queries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lexbench.types import Query

if TYPE_CHECKING:
    from lexbench.retrievers.encoded import Encoded


@dataclass(frozen=True)
class QueryVectors:
    """What a searcher and a scorer of an `encoder|transform@engine` have in common."""

    retriever: "Encoded"

    def encode(self, queries: Sequence[str]) -> Any:
        """Encode and transform query texts; one vector a query."""
        return self.retriever.as_queries(self.retriever.encoder.encode_query(queries))

    def encode_queries(self, queries: Sequence[Query]) -> Any:
        """Do the same for queries with their ids, for encoders that look vectors up."""
        return self.retriever.encode_queries(queries)
