"""Learned sparse vectors of a model that a server runs: the route /embed_sparse of Text Embeddings Inference.

A text's answer is a list of {"index": term, "value": weight}. As other served models it cannot be pinned, see
`lexbench.models.served`; the settings are those of `endpoint`, and *vocabulary*, the number of terms.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from lexbench.errors import LexbenchError
from lexbench.models.served import Server, check_settings, in_batches, remark, said_of_itself
from lexbench.registry import runtime
from lexbench.types import Kind


@dataclass(frozen=True)
class EndpointSparse:
    """Vectors of the server at *url* over a *vocabulary* of so many terms, BERT's by default."""

    url: str = field(metadata={"runtime": True})
    vocabulary: int = 30_522
    key: str = runtime("")
    batch: int = runtime(32)
    parallel: int = runtime(4)
    rate: float = runtime(0.0)
    retries: int = runtime(5)
    timeout: float = runtime(60.0)

    kind: ClassVar[Kind] = Kind.SPARSE
    family: ClassVar[str] = "sparse"
    version: ClassVar[int] = 1
    deterministic: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Raise CommandError for settings that cannot be."""
        counts = {"batch": self.batch, "parallel": self.parallel, "vocabulary": self.vocabulary}
        check_settings("endpoint_sparse", counts, self._server())

    def identity(self) -> dict[str, Any]:
        """Return what the server says of itself, and its digest."""
        return said_of_itself(self._server(), "")

    def remarks(self) -> list[str]:
        """Return that the model is served, and what the server says."""
        return [remark(self.identity())]

    def encode_document(self, texts: Sequence[str]) -> sparse.csr_array:
        """Return the vectors (texts, vocabulary), in order: indices sorted."""
        server = self._server()
        parts = in_batches(texts, self.batch, self.parallel, lambda batch: self._vectors(server, batch))
        if not parts:
            return sparse.csr_array(np.zeros((0, self.vocabulary), np.float32))
        stacked: Any = sparse.vstack(parts, format="csr")
        return sparse.csr_array(stacked)

    def encode_query(self, texts: Sequence[str]) -> sparse.csr_array:
        """Return the vectors (texts, vocabulary), in order."""
        return self.encode_document(texts)

    def _server(self) -> Server:
        return Server(self.url, self.key, self.retries, self.timeout, self.rate)

    def _vectors(self, server: Server, texts: list[str]) -> sparse.csr_array:
        """Return the vectors of one request; LexbenchError where the answer has not one of weights above 0 for each text."""
        answer = server.post("/embed_sparse", {"inputs": texts, "truncate": True})
        try:
            rows = [sorted((int(entry["index"]), float(entry["value"])) for entry in row) for row in answer]
        except (TypeError, KeyError, ValueError):
            rows = []
        terms = np.array([term for row in rows for term, _ in row], np.int64)
        weights = np.array([weight for row in rows for _, weight in row], np.float32)
        if len(rows) != len(texts) or ((terms < 0) | (terms >= self.vocabulary)).any() or not (weights > 0).all():
            raise LexbenchError(
                f"{self.url}: asked for the sparse vectors of {len(texts)} texts, it answered something else, or with terms "
                f"beyond vocabulary={self.vocabulary}"
            )
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        return sparse.csr_array((weights, terms, offsets), shape=(len(texts), self.vocabulary))
