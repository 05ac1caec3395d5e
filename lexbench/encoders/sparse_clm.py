"""Learned sparse vectors from a causal language model: Llama, Mistral or Qwen, used as SPLADE uses BERT.

A text's weight for a term is log(1 + max(0, the largest logit of the term at any position)), as in LACONIC (Z. Xu et al., arXiv
2601.01684) and in "Scaling Sparse and Dense Retrieval in Decoder-Only LLMs" (H. Zeng et al., SIGIR 2025), or of the logit at
the last position alone. Terms have the names of the model's tokenizer, with its marks for spaces.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lexbench.encoders.sparse_mlm import SparseMLM
from lexbench.errors import CommandError
from lexbench.models.body_types import CAUSAL_LMS
from lexbench.models.checkpoint import CheckpointFiles
from lexbench.models.lora import model_files
from lexbench.models.token_batches import Batch

if TYPE_CHECKING:
    import scipy

    from lexbench.encoders._torch_models import CausalLMModel


@dataclass(frozen=True)
class SparseCLM(SparseMLM):
    """The settings of `SparseMLM`, and the following; a folder states none of them.

    *attention*: "causal", or "bidirectional" for models trained to see the whole text (LACONIC, Lion-SP). *pooling*: "max" over
    positions, of which *positions* "text" leaves out the first and the last special token; "last" takes the last token.
    *logits* "scaled" multiplies them by the model's width to the power of -1/4 (Lion-SP).
    """

    attention: str = "causal"
    pooling: str = "max"
    logits: str = "plain"

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **SparseMLM.choices,
        "attention": ("causal", "bidirectional"),
        "pooling": ("max", "last"),
        "logits": ("plain", "scaled"),
    }

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings."""
        super().__post_init__()
        if self.titles != "off":
            raise CommandError(f"sparse_clm(titles={self.titles!r}): such models have no separator; leave it out")

    @classmethod
    def checkpoint_files(cls, folder: Path) -> CheckpointFiles:
        """Return the files of a causal language model."""
        return model_files(folder, CAUSAL_LMS)

    @staticmethod
    def _computation() -> "type[CausalLMModel]":
        from lexbench.encoders._torch_models import CausalLMModel

        return CausalLMModel

    def _weights(self, model: Any, batch: Batch, *, query: bool) -> "scipy.sparse.csr_array":  # noqa: ARG002 - both are the same
        if self.pooling == "last":
            last = batch.real.sum(axis=1, keepdims=True) - 1
            batch = batch._replace(pools=batch.real & (np.arange(batch.ids.shape[1]) == last))
        factor = model.width**-0.25 if self.logits == "scaled" else 1.0
        vectors: scipy.sparse.csr_array = model.vectors(
            batch, self._rules(), bidirectional=self.attention == "bidirectional", factor=factor
        )
        return vectors
