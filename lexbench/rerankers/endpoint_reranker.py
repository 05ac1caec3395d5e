"""A reranker that a server runs: the route /rerank of Text Embeddings Inference, vLLM, Infinity and Jina.

A served model cannot be pinned (see `lexbench.models.served`). Queries and documents are sent to the server.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.models.served import ServedModel, in_order
from lexbench.plugins import Reranker
from lexbench.registry import runtime
from lexbench.types import Document


@dataclass(frozen=True)
class EndpointReranker(ServedModel, Reranker):
    """Scores of the server at *url*; *model* is its name on the server.

    *server*: "jina" (vLLM, Infinity, Jina: {"query", "documents"}) or "tei" ({"query", "texts"}). The other settings are those
    of the encoder `endpoint`.
    """

    model: str = ""
    server: str = "jina"
    batch: int = runtime(32)

    family: ClassVar[str] = "reranker"
    made: ClassVar[str] = "scores"
    servers: ClassVar[tuple[str, ...]] = ("jina", "tei")

    def score(self, queries: Sequence[str], documents: Sequence[Document]) -> NDArray[np.float32]:
        """Return how relevant documents[i] is to queries[i] (n,); a request has documents of one query."""
        scores = np.empty(len(queries), np.float32)
        for query, pairs in groupby(range(len(queries)), key=lambda at: queries[at]):
            numbers = list(pairs)
            for start in range(0, len(numbers), self.batch):
                part = numbers[start : start + self.batch]
                scores[part] = self._scores(query, [documents[at].text for at in part])
        return scores

    def _scores(self, query: str, texts: list[str]) -> NDArray[np.float32]:
        """Return the scores of one request. Raises LexbenchError unless the answer has one number per text."""
        if self.server == "tei":
            answer = self.post("/rerank", {"query": query, "texts": texts, "raw_scores": True, "truncate": True})
            entries, value = answer, "score"
        else:
            answer = self.post("/rerank", {"model": self.model, "query": query, "documents": texts})
            entries, value = answer.get("results") if isinstance(answer, dict) else None, "relevance_score"
        try:
            scores = np.array(in_order(entries, len(texts), value), np.float32)
        except (TypeError, KeyError, ValueError, OverflowError):
            scores = np.zeros(0, np.float32)
        if scores.shape != (len(texts),) or not np.isfinite(scores).all():
            raise self.unexpected(f"the scores of {len(texts)} documents", answer)
        return scores
