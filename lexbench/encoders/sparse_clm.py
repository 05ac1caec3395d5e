"""Learned sparse vectors from a causal language model: Llama, Mistral or Qwen as SPLADE uses BERT.

A text's weight for a term is log(1 + max(0, the largest logit that the model gives the term at any position)), as in LACONIC
(Z. Xu et al., arXiv 2601.01684) and in "Scaling Sparse and Dense Retrieval in Decoder-Only LLMs" (H. Zeng et al., SIGIR 2025);
or that at the last position alone. The names of terms are those of the model's tokenizer, with its marks of spaces.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from lexbench.checkpoints.causal_lm import causal_lm_files
from lexbench.checkpoints.files import CheckpointFiles
from lexbench.encoders.sparse_mlm import SparseMLM
from lexbench.errors import CommandError
from lexbench.neural.token_batches import Batch, Tokens, tokenise
from lexbench.registry import at_search
from lexbench.types import Document

if TYPE_CHECKING:
    import scipy

    from lexbench.encoders._vocabulary_models import CausalLMModel
    from lexbench.neural.transformer_model import ModelSpec


@dataclass(frozen=True)
class SparseCLM(SparseMLM):
    """The settings of `SparseMLM`, and those that follow; a folder states none of them.

    *attention*: "causal" as the model was made, "bidirectional" where it was trained to see the whole text (LACONIC, Lion-SP).
    *pooling*: "max" over positions, of which *positions* "text" leaves out the first and the last special token; "last" is the
    last token of a text, as the tokenizer ends it. *logits* "scaled" multiplies them by the model's width to the power of
    -1/4 (Lion-SP). Prompts stand before texts and are cut with them.
    """

    attention: str = "causal"
    pooling: str = "max"
    logits: str = "plain"
    query_prompt: str = at_search("")
    document_prompt: str = ""

    version: ClassVar[int] = 1
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **SparseMLM.choices,
        "attention": ("causal", "bidirectional"),
        "pooling": ("max", "last"),
        "logits": ("plain", "scaled"),
    }

    def __post_init__(self) -> None:
        """Raise CommandError for settings that cannot be."""
        super().__post_init__()
        if self.titles != "off":
            raise CommandError(f"sparse_clm(titles={self.titles!r}): such models have no separator; leave it out")

    @classmethod
    def checkpoint_files(cls, folder: Path) -> CheckpointFiles:
        """Return the files of a causal language model."""
        return causal_lm_files(folder)

    def tokenise_documents(self, documents: Sequence[Document]) -> Tokens:
        """Return the tokens of *documents* behind the prompt, cut to `document_length`."""
        cutter = self._document_model().cutter(self.document_length, "document_length")
        return tokenise(cutter, [self.document_prompt + document.text for document in documents])

    def encode_query(self, texts: Sequence[str]) -> "scipy.sparse.csr_array":
        """Return the vectors (texts, vocabulary) of queries behind their prompt."""
        return super().encode_query([self.query_prompt + text for text in texts])

    def _model_class(self) -> "Callable[[ModelSpec], CausalLMModel]":
        from lexbench.encoders._vocabulary_models import CausalLMModel

        return CausalLMModel

    def _weights(self, model: "CausalLMModel", batch: Batch) -> "scipy.sparse.csr_array":
        if self.pooling == "last":
            last = batch.real.sum(axis=1, keepdims=True) - 1
            batch = batch._replace(pools=batch.real & (np.arange(batch.ids.shape[1]) == last))
        factor = model.width**-0.25 if self.logits == "scaled" else 1.0
        return model.vectors(batch, self.activation, bidirectional=self.attention == "bidirectional", factor=factor)
