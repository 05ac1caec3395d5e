"""Qdrant on one vector per token, exactly: MaxSim over all documents, in this process or on a server or cluster."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from lexbench.engines._qdrant import QdrantEngine
from lexbench.engines.kernels.checks import all_finite
from lexbench.types import Kind, MultiVectors


@dataclass(frozen=True)
class QdrantMulti(QdrantEngine):
    """Late interaction in float32; a last bit may differ from that of `maxsim`. A document without tokens is never found.

    *url*: of a server or cluster, e.g. "http://localhost:6333"; "" keeps the index in the store and searches it in this
    process. An API key is only read from the environment variable QDRANT_API_KEY. *shards* of a collection on a server
    are set when it is made.
    """

    name: ClassVar[str] = "qdrant_multi"
    kind: ClassVar[Kind] = Kind.MULTI

    def rows(self, vectors: MultiVectors, what: str) -> Iterator[Any]:
        """Yield the vectors (tokens, dimensions) of each text, None for one without tokens.

        Raises LexbenchError for values that are not finite.
        """
        all_finite(vectors.values, what)
        for start, stop in pairwise(vectors.offsets.tolist()):
            yield vectors.values[start:stop] if stop > start else None
