"""What encoders have in common that make vectors over the vocabulary of a transformer."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from lexbench.encoders._transformer import Transformer, untold
from lexbench.neural.token_batches import Batch, Tokens, tokenise
from lexbench.types import Document, Kind


@dataclass(frozen=True)
class SparseTransformer(Transformer):
    """Settings and towers as of `Transformer`."""

    kind: ClassVar[Kind] = Kind.SPARSE

    @abstractmethod
    def _model(self, name: str, revision: str | None) -> Any:
        """Return a loaded model, which has a `vocabulary`."""

    @abstractmethod
    def _silent(self, model: Any) -> Sequence[int]:
        """Return the ids of tokens whose positions give no weight."""

    @abstractmethod
    def _vectors(self, model: Any, batch: Batch) -> sparse.csr_array:
        """Return the vectors (n, vocabulary) of one batch; LexbenchError where nobody could want them."""

    @abstractmethod
    def tokenise_documents(self, documents: Sequence[Document]) -> Tokens:
        """Return the tokens of *documents*."""

    @property
    def vocabulary(self) -> int:
        """The width of the vectors."""
        return int(self._documents().vocabulary)

    def token(self, term: int) -> str:
        """Return the entry of the vocabulary whose column is *term*."""
        return str(self._documents().tokenizer.convert_ids_to_tokens(int(term)))

    def encode_tokens(self, tokens: Tokens, advance: Callable[[int], None] = untold) -> sparse.csr_array:
        """Return the vectors (documents, vocabulary) of *tokens*, in order: float32, indices sorted."""
        return self._encode(self._documents(), tokens, advance)

    def encode_query(self, texts: Sequence[str]) -> sparse.csr_array:
        """Return the vectors (texts, vocabulary) of queries."""
        model = self._model(self.query_model, self.query_revision) if self.query_model else self._documents()
        return self._encode(model, tokenise(model.cutter(self.query_length, "query_length"), texts))

    def _documents(self) -> Any:
        return self._model(self.model, self.revision)

    def _encode(self, model: Any, tokens: Tokens, advance: Callable[[int], None] = untold) -> sparse.csr_array:
        silent = self._silent(model)
        done = list(self._in_batches(tokens, model, lambda batch: self._vectors(model, batch), advance, silent))
        if not done:
            return sparse.csr_array(np.zeros((0, model.vocabulary), np.float32))
        longest_first: Any = sparse.vstack([made for _, made in done], format="csr")
        vectors = sparse.csr_array(longest_first[np.argsort(np.concatenate([places for places, _ in done]))])
        vectors.sort_indices()
        return vectors
