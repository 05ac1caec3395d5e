"""A retrieval model of beir as an encoder of lexbench: any object with `encode_queries` and `encode_corpus`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from lexbench.errors import CommandError
from lexbench.types import Document
from lexbench.vectors import stacked

_PIECE = 256  # documents handed over at a time, after which progress is told
_OPTIONS = {"batch_size": 128, "show_progress_bar": False, "convert_to_tensor": False}  # beir gives the same three
_SIMILARITIES = ("cosine", "dot")


class BeirEncoder:
    """Encodes with *model*, which gets titles and bodies apart, as from beir.

    *similarity* "cosine", the default of beir's EvaluateRetrieval, makes dense vectors of length 1; "dot" leaves them. A model
    that has an `identity()` is known again in other sessions.
    """

    def __init__(self, model: Any, similarity: str = "cosine") -> None:
        """Raise CommandError for an unknown similarity."""
        if similarity not in _SIMILARITIES:
            raise CommandError(f"similarity={similarity!r} is unknown; it is one of {', '.join(_SIMILARITIES)}")
        self._model = model
        self._similarity = similarity
        if hasattr(model, "identity"):
            self.identity = lambda: {"model": model.identity(), "similarity": similarity}

    def encode_query(self, texts: Sequence[str]) -> Any:
        """Return one vector a text (n, width): float32, an array or, of sparse ones, a csr_array."""
        return self._scaled(self._model.encode_queries(list(texts), **_OPTIONS))

    def encode_document(self, texts: Sequence[str]) -> Any:
        """Do the same for documents without titles."""
        return self._encoded([Document("", text) for text in texts])

    def tokenise_documents(self, documents: Sequence[Document]) -> Sequence[Document]:
        """Return the documents: such a model tokenises when it encodes."""
        return documents

    def encode_tokens(self, tokens: Sequence[Document], advance: Callable[[int], None]) -> Any:
        """Return one vector a document (n, width), telling *advance* how many more are done."""
        blocks = []
        for start in range(0, len(tokens), _PIECE):
            piece = tokens[start : start + _PIECE]
            blocks.append(self._encoded(piece))
            advance(len(piece))
        return stacked(blocks)

    def _encoded(self, documents: Sequence[Document]) -> Any:
        texts = [{"title": document.title, "text": document.body} for document in documents]
        return self._scaled(self._model.encode_corpus(texts, **_OPTIONS))

    def _scaled(self, vectors: Any) -> Any:
        if scipy.sparse.issparse(vectors):
            matrix: Any = vectors
            return scipy.sparse.csr_array(matrix, dtype=np.float32)
        vectors = np.stack([_array(vector) for vector in vectors])  # a list of vectors, or a matrix
        if self._similarity == "dot":
            return vectors
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(lengths > 0, lengths, 1)


def _array(vector: Any) -> NDArray[np.float32]:
    """Return one vector; of torch's, half precision is none that numpy always has."""
    return np.asarray(vector.detach().float().cpu() if hasattr(vector, "detach") else vector, dtype=np.float32)


def is_beir_model(model: Any) -> bool:
    """Whether *given* is what beir takes for a retrieval model."""
    return hasattr(model, "encode_queries") and hasattr(model, "encode_corpus")
