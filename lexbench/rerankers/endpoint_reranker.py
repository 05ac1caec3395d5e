"""A reranker that a server runs: the route /rerank of Text Embeddings Inference, vLLM, Infinity and Jina.

As other served models it cannot be pinned, see `lexbench.models.served`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import CommandError, LexbenchError
from lexbench.models.served import Server, check_settings, remark, said_of_itself
from lexbench.registry import runtime
from lexbench.types import Document

_KINDS = ("jina", "tei")


@dataclass(frozen=True)
class EndpointReranker:
    """Scores of the server at *url*; *model* is what the server calls it.

    *server*: "jina" (vLLM, Infinity, Jina: {"query", "documents"}) or "tei" ({"query", "texts"}). The other settings are those
    of the encoder `endpoint`.
    """

    url: str = field(metadata={"runtime": True})
    model: str = ""
    server: str = "jina"
    key: str = runtime("")
    batch: int = runtime(32)
    rate: float = runtime(0.0)
    retries: int = runtime(5)
    timeout: float = runtime(60.0)

    family: ClassVar[str] = "reranker"
    remote: ClassVar[bool] = True
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Raise CommandError for settings that cannot be."""
        check_settings("endpoint_reranker", {"batch": self.batch}, self._server())
        if self.server not in _KINDS:
            raise CommandError(f"endpoint_reranker(server={self.server!r}): there is {', '.join(_KINDS)}")

    def identity(self) -> dict[str, Any]:
        """Return what the server says of itself, and its digest."""
        return said_of_itself(self._server(), self.model)

    def remarks(self) -> list[str]:
        """Return that the model is served, and what the server says."""
        return [remark(self.identity(), "scores")]

    def score(self, queries: Sequence[str], documents: Sequence[Document]) -> NDArray[np.float32]:
        """Return how relevant documents[i] is to queries[i] (n,): a request for the documents of a query, in batches."""
        scores = np.empty(len(queries), np.float32)
        for query, pairs in groupby(range(len(queries)), key=lambda at: queries[at]):
            numbers = list(pairs)
            for start in range(0, len(numbers), self.batch):
                part = numbers[start : start + self.batch]
                scores[part] = self._scores(query, [documents[at].text for at in part])
        return scores

    def _server(self) -> Server:
        return Server(self.url, self.key, self.retries, self.timeout, self.rate)

    def _scores(self, query: str, texts: list[str]) -> NDArray[np.float32]:
        """Return the scores of one request; LexbenchError where the answer has not one number for each text."""
        if self.server == "tei":
            answer = self._server().post("/rerank", {"query": query, "texts": texts, "raw_scores": True, "truncate": True})
            entries, value = answer, "score"
        else:
            answer = self._server().post("/rerank", {"model": self.model, "query": query, "documents": texts})
            entries, value = answer.get("results") if isinstance(answer, dict) else None, "relevance_score"
        try:
            scores = np.full(len(texts), np.nan, np.float32)
            for entry in entries or ():
                scores[int(entry["index"])] = float(entry[value])
        except (TypeError, KeyError, ValueError, IndexError):
            scores = np.full(1, np.nan, np.float32)
        if not np.isfinite(scores).all():
            raise LexbenchError(f"{self.url}: asked for the scores of {len(texts)} documents, it answered something else")
        return scores
