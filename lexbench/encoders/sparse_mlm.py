"""Learned sparse vectors from a masked-language model: LexMAE, SPLADE and their kin.

A text's weight for a term is log(1 + max(0, the largest logit that the model gives the term at any position of the text)).
LexMAE (T. Shen et al., ICLR 2023) and SPLADE (T. Formal et al., 2021) differ in which positions those are, and in what becomes
of titles; see `positions` and `titles`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import sparse

from lexbench.encoders import _checkpoint_files
from lexbench.encoders._checkpoint_files import Files
from lexbench.encoders._token_batches import Batch, Tokens, tokenise
from lexbench.encoders._transformer import Transformer, untold
from lexbench.errors import LexbenchError
from lexbench.registry import at_search, runtime
from lexbench.types import Document, Kind

if TYPE_CHECKING:
    from lexbench.encoders._mlm_model import Model

_DENSE = 0.5  # of the vocabulary


@dataclass(frozen=True)
class SparseMLM(Transformer):
    """Settings as of `Transformer`, and its towers.

    *positions*: "all" pools all but padding (SPLADE), "text" leaves out the first token and every separator too (LexMAE).
    *titles*: where there is none, "-" stands for it, as in LexMAE's data. *activation* "relu" has no logarithm,
    "log1p_log1p_relu" has it twice.
    """

    query_length: int = at_search(256)
    document_length: int = 256
    positions: str = "all"
    activation: str = "log1p_relu"
    dense_ok: bool = runtime(False)

    kind: ClassVar[Kind] = Kind.SPARSE
    version: ClassVar[int] = 1
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "positions": ("all", "text"),
        "activation": ("log1p_relu", "log1p_log1p_relu", "relu"),
    }

    @classmethod
    def files(cls, folder: Path) -> Files:
        """Return the files of a masked-language model; a LexMAE's folder, or a SparseEncoder's, carries settings."""
        return _checkpoint_files.files(folder)

    @property
    def vocabulary(self) -> int:
        """The width of the vectors."""
        return self._documents().vocabulary

    def token(self, term: int) -> str:
        """Return the entry of the vocabulary whose column is *term*."""
        return str(self._documents().tokenizer.convert_ids_to_tokens(int(term)))

    def tokenise_documents(self, documents: Sequence[Document]) -> Tokens:
        """Return the tokens of *documents*, titles put where `titles` says, cut to `document_length`."""
        model = self._documents()
        texts = self.titled(documents, str(model.tokenizer.sep_token))
        return tokenise(model.cutter(self.document_length, "document_length"), texts)

    def encode_tokens(self, tokens: Tokens, advance: Callable[[int], None] = untold) -> sparse.csr_array:
        """Return the vectors (documents, vocabulary) of *tokens*, in order: float32, indices sorted."""
        return self._encode(self._documents(), tokens, advance)

    def encode_document(self, texts: Sequence[str]) -> sparse.csr_array:
        """Return the vectors (texts, vocabulary) of documents that have no title."""
        return self.encode_tokens(self.tokenise_documents([Document("", text) for text in texts]))

    def encode_query(self, texts: Sequence[str]) -> sparse.csr_array:
        """Return the vectors (texts, vocabulary) of queries."""
        model = self._model(self.query_model, self.query_revision) if self.query_model else self._documents()
        return self._encode(model, tokenise(model.cutter(self.query_length, "query_length"), texts))

    def _documents(self) -> "Model":
        return self._model(self.model, self.revision)

    def _model(self, name: str, revision: str | None) -> "Model":
        from lexbench.encoders._mlm_model import Model
        from lexbench.encoders._transformer_model import Place, loaded

        return loaded(Model, Place(name, revision, self.dtype, self.device.split(",")[0]))

    def _encode(self, model: "Model", tokens: Tokens, advance: Callable[[int], None] = untold) -> sparse.csr_array:
        silent = model.specials if self.positions == "text" else ()
        done = list(self._in_batches(tokens, model, lambda batch: self._vectors(model, batch), advance, silent))
        if not done:
            return sparse.csr_array(np.zeros((0, model.vocabulary), np.float32))
        longest_first: Any = sparse.vstack([made for _, made in done], format="csr")
        vectors = sparse.csr_array(longest_first[np.argsort(np.concatenate([places for places, _ in done]))])
        vectors.sort_indices()
        return vectors

    def _vectors(self, model: "Model", batch: Batch) -> sparse.csr_array:
        """Return the vectors of one batch; LexbenchError where nobody could want them."""
        from lexbench.encoders._mlm_forward import active, maxima

        vectors = active(maxima(model, batch), self.activation)
        self.refuse_what_is_no_number(model, vectors.data)
        share = vectors.nnz / (vectors.shape[0] * vectors.shape[1])
        if share > _DENSE and not self.dense_ok:
            raise LexbenchError(
                f"{model.name} gives a text {share:.0%} of all terms, so it was hardly trained for sparse vectors (an output "
                "layer with random weights, or none of its own?); type dense_ok=True to have them all the same"
            )
        return vectors
