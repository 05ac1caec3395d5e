"""Learned sparse vectors of a model that a server runs: the route /embed_sparse of Text Embeddings Inference.

The answer for a text is a list of {"index": term, "value": weight}. A served model cannot be pinned (see
`lexbench.models.served`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import index
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from lexbench.models.served import ServedModel, in_batches
from lexbench.plugins import Encoder
from lexbench.registry import runtime
from lexbench.types import Kind


@dataclass(frozen=True)
class EndpointSparse(ServedModel, Encoder):
    """Vectors of the server at *url* over a *vocabulary* of so many terms, by default BERT's.

    The other settings are those of the encoder `endpoint`.
    """

    vocabulary: int = 30_522
    batch: int = runtime(32)
    parallel: int = runtime(4)

    kind: ClassVar[Kind] = Kind.SPARSE
    family: ClassVar[str] = "sparse"
    counts: ClassVar[tuple[str, ...]] = ("batch", "parallel", "vocabulary")

    def encode_document(self, texts: Sequence[str]) -> sparse.csr_array:
        """Return one vector per text (texts, vocabulary), in order, indices sorted."""
        parts = in_batches(texts, self.batch, self.parallel, self._vectors)
        if not parts:
            return sparse.csr_array(np.zeros((0, self.vocabulary), np.float32))
        stacked: Any = sparse.vstack(parts, format="csr")
        return sparse.csr_array(stacked)

    def encode_query(self, texts: Sequence[str]) -> sparse.csr_array:
        """Return the vectors (texts, vocabulary), in order."""
        return self.encode_document(texts)

    def _vectors(self, texts: list[str]) -> sparse.csr_array:
        """Return the vectors of one request. Raises LexbenchError unless the answer has weights above 0 for each text."""
        answer = self.post("/embed_sparse", {"inputs": texts, "truncate": True})
        try:
            rows = [sorted((index(entry["index"]), float(entry["value"])) for entry in row) for row in answer]
            terms = np.array([term for row in rows for term, _ in row], np.int64)
        except (TypeError, KeyError, ValueError, OverflowError):
            rows, terms = [], np.zeros(0, np.int64)
        weights = np.array([weight for row in rows for _, weight in row], np.float32)
        repeated = any(one == after for row in rows for (one, _), (after, _) in pairwise(row))
        if len(rows) != len(texts) or ((terms < 0) | (terms >= self.vocabulary)).any() or repeated or not (weights > 0).all():
            wanted = f"the sparse vectors of {len(texts)} texts, each term once and below vocabulary={self.vocabulary}"
            raise self.unexpected(wanted, answer)
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        return sparse.csr_array((weights, terms, offsets), shape=(len(texts), self.vocabulary))
