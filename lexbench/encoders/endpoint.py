"""Dense vectors of a model that a server runs: OpenAI-like servers, Text Embeddings Inference, vLLM.

A served model cannot be pinned, see `lexbench.models.served`: results say so, with what the server says of itself, and the
store keeps vectors under the digest of that. What is encoded is sent to the server, documents and queries alike.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import CommandError, LexbenchError
from lexbench.models.served import Server, check_settings, in_batches, remark, said_of_itself
from lexbench.registry import at_search, runtime
from lexbench.types import Kind

_KINDS = {"openai": "/v1/embeddings", "tei": "/embed"}


@dataclass(frozen=True)
class Endpoint:
    """Vectors of the server at *url*; *model* is what the server calls it, "" where it runs one alone.

    *server*: "openai" (OpenAI, vLLM, llama.cpp, TEI's own /v1) or "tei". *key* names the environment variable with the key of
    an account. Prompts stand before texts. *normalize* makes vectors of length 1. *batch* texts go in a request, *parallel*
    requests at once, at most *rate* a second (0: any), each up to *retries* times again if the server is busy or out of reach.
    """

    url: str = field(metadata={"runtime": True})  # what runs there is in `identity`
    model: str = ""
    server: str = "openai"
    query_prompt: str = at_search("")
    document_prompt: str = ""
    normalize: bool = False
    key: str = runtime("")
    batch: int = runtime(32)
    parallel: int = runtime(4)
    rate: float = runtime(0.0)
    retries: int = runtime(5)
    timeout: float = runtime(60.0)

    kind: ClassVar[Kind] = Kind.DENSE
    family: ClassVar[str] = "dense"
    version: ClassVar[int] = 1
    deterministic: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Raise CommandError for settings that cannot be."""
        check_settings("endpoint", {"batch": self.batch, "parallel": self.parallel}, self._server())
        if self.server not in _KINDS:
            raise CommandError(f"endpoint(server={self.server!r}): there is {', '.join(_KINDS)}")

    def identity(self) -> dict[str, Any]:
        """Return what the server says of itself, and its digest."""
        return said_of_itself(self._server(), self.model)

    def remarks(self) -> list[str]:
        """Return that the model is served, and what the server says."""
        return [remark(self.identity())]

    def encode_document(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector a text (n, dimensions), in order."""
        return self._encode([self.document_prompt + text for text in texts])

    def encode_query(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector a text (n, dimensions), in order."""
        return self._encode([self.query_prompt + text for text in texts])

    def _server(self) -> Server:
        return Server(self.url, self.key, self.retries, self.timeout, self.rate)

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        server = self._server()
        asked = texts or [""]  # of no texts, the width is still wanted
        parts = in_batches(asked, self.batch, self.parallel, lambda batch: self._vectors(server, batch))
        if len({part.shape[1] for part in parts}) > 1:
            raise LexbenchError(
                f"{self.url}: its vectors have {sorted({part.shape[1] for part in parts})} dimensions in one run"
            )
        vectors = np.concatenate(parts)[: len(texts)]
        if self.normalize:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
        return vectors

    def _vectors(self, server: Server, texts: list[str]) -> NDArray[np.float32]:
        """Return the vectors of one request; LexbenchError where the answer has not one of numbers for each text."""
        if self.server == "tei":
            rows = server.post("/embed", {"inputs": texts, "truncate": True, "normalize": False})
        else:
            rows = _in_order(server.post("/v1/embeddings", {"model": self.model, "input": texts, "encoding_format": "float"}))
        try:
            vectors = np.array(rows, np.float32)
        except (TypeError, ValueError):
            vectors = np.zeros(0, np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.shape[1] or not np.isfinite(vectors).all():  # noqa: PLR2004
            raise LexbenchError(f"{self.url}: asked for the vectors of {len(texts)} texts, it answered something else")
        return vectors


def _in_order(answer: Any) -> Iterator[Any] | list[Any]:
    """Return the vectors of an OpenAI-like answer in the order of the texts; an empty list for any other answer."""
    try:
        return [entry["embedding"] for entry in sorted(answer["data"], key=lambda entry: entry["index"])]
    except (TypeError, KeyError):
        return []
