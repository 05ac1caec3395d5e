"""Dense vectors of a model that a server runs: OpenAI-like servers, Text Embeddings Inference, vLLM.

A served model cannot be pinned (see `lexbench.models.served`): results say so, and stored vectors belong to the server's
description of itself. Documents and queries are sent to the server.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.encoders._prompts import Prompted
from lexbench.errors import LexbenchError, shortened, visible
from lexbench.models.served import ServedModel, in_batches, in_order
from lexbench.registry import at_search, runtime
from lexbench.types import Kind

_SHOWN = 80  # characters of a name


@lru_cache  # outside of the object, which travels to other processes
def _names(url: str, model: str) -> dict[str, None]:
    """Return the names of models in the answers of a server that was asked for *model*, in the order of their appearance."""
    del url, model
    return {}


@dataclass(frozen=True)
class Endpoint(ServedModel, Prompted):
    """Vectors of the server at *url*; *model* is its name on the server, "" if the server runs only one.

    *server*: "openai" (OpenAI, vLLM, llama.cpp, the /v1 of TEI) or "tei". *key* names the environment variable with the key of
    an account. Prompts are put before texts. *normalize* makes vectors of length 1. A request has *batch* texts; *parallel*
    requests run at once, each up to *retries* times again if the server is busy or cannot be reached. An answer may take
    *timeout* seconds.
    """

    model: str = ""
    server: str = "openai"
    query_prompt: str = at_search("")
    document_prompt: str = ""
    normalize: bool = False
    batch: int = runtime(32)
    parallel: int = runtime(4)

    kind: ClassVar[Kind] = Kind.DENSE
    family: ClassVar[str] = "dense"
    counts: ClassVar[tuple[str, ...]] = ("batch", "parallel")
    servers: ClassVar[tuple[str, ...]] = ("openai", "tei")

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings."""
        super().__post_init__()
        self.check_prompts()

    def notes(self) -> list[str]:
        """Return the notes of `ServedModel`, on models that answers named, and on a prompt that may depend on the dataset."""
        named = _names(self.url, self.model)
        what = "several models, so its vectors may not fit each other:" if len(named) > 1 else "the model"
        others = [f"its answers name {what} {', '.join(named)}"] if named and [*named] != [self.model] else []
        return [*super().notes(), *others, *self.prompt_notes()]

    def encode_document(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text (n, dimensions), in order."""
        return self._encode([self.document_prompt + text for text in texts])

    def encode_query(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text (n, dimensions), in order."""
        return self._encode([self.asked_prompt + text for text in texts])

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        asked = texts or [""]  # without texts, one request finds out the width
        parts = in_batches(asked, self.batch, self.parallel, self._vectors)
        if len(widths := {part.shape[1] for part in parts}) > 1:
            raise LexbenchError(f"{self.url}: its vectors have {sorted(widths)} dimensions in one run")
        vectors = np.concatenate(parts)[: len(texts)]
        if self.normalize:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
        return vectors

    def _vectors(self, texts: list[str]) -> NDArray[np.float32]:
        """Return the vectors of one request. Raises LexbenchError unless the answer has one vector of numbers per text."""
        if self.server == "tei":
            answer = self.post("/embed", {"inputs": texts, "truncate": True, "normalize": False})
        else:
            answer = self.post("/v1/embeddings", {"model": self.model, "input": texts, "encoding_format": "float"})
        if isinstance(answer, dict) and isinstance(answer.get("model"), str):
            _names(self.url, self.model)[shortened(visible(answer["model"]), _SHOWN)] = None
        try:
            rows = answer if self.server == "tei" else in_order(answer["data"], len(texts), "embedding")
            vectors = np.array(rows, np.float32)
        except (TypeError, KeyError, ValueError, OverflowError):
            vectors = np.zeros(0, np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.shape[1] or not np.isfinite(vectors).all():  # noqa: PLR2004
            raise self.unexpected(f"the vectors of {len(texts)} texts", answer)
        return vectors
