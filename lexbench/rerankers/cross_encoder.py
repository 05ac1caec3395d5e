"""Sequence classifiers that read query and document together: monoBERT, MiniLM of MS MARCO, R2anker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench import devices
from lexbench.models.architectures import classifier_files
from lexbench.models.checkpoint import CheckpointFiles
from lexbench.models.local_model import DTYPES, LocalModel
from lexbench.plugins import Reranker, ScoredPairs
from lexbench.registry import runtime
from lexbench.types import Document

_BATCH_TOKENS = {"cpu": 1024, "cuda": 65_536, "mps": 8192}


@dataclass(frozen=True)
class CrossEncoder(LocalModel, Reranker):
    """Any `…ForSequenceClassification` of transformers. The score is its logit, or the second of two logits minus the first.

    If config.json calls the first of two labels e.g. "relevant", "yes" or "entailment", it is the first minus the second. It
    reads [CLS] query [SEP] document [SEP], as its tokenizer makes pairs. *model* is a folder, or a name on the Hugging Face
    hub, where a *revision* can be given. *length* is in tokens of a pair, special ones included. Folders state it: it is as
    long as sentence-transformers reads (`max_seq_length`, the tokenizer's limit, the model's positions). A model with fewer
    positions than *length* cuts to these. The longer of query and document is cut first. *titles*: "off" reads the document's
    text, its title in front; "string" puts a separator between title and body. *dtype* is the type of the computation ("int8":
    of linear layers, on a processor; the layer that scores stays in float32). *batch_tokens* is the number of tokens computed
    at once, padding included; 0 suits the device. *unknown_ok* is that of `dense`. There is no sigmoid: it does not change the
    order, and makes large scores equal.
    """

    model: str = field(metadata={"runtime": True})  # the digests of its files are in the key instead
    revision: str | None = runtime(None)
    length: int = 512
    titles: str = "off"
    dtype: str = "float32"
    device: str = runtime("auto")
    batch_tokens: int = runtime(0)
    threads: int = runtime(0)
    unknown_ok: bool = runtime(False)

    deterministic: ClassVar[bool] = True  # for the same pairs together, on one machine; other batches are rounded differently
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"titles": ("off", "string"), "dtype": DTYPES}
    lengths: ClassVar[tuple[str, ...]] = ("length",)

    @classmethod
    def checkpoint_files(cls, folder: Path) -> CheckpointFiles:
        """Return the files of a sequence classifier."""
        return classifier_files(folder)

    def identity(self) -> dict[str, str]:
        """Return the digests of weights, tokenizer and configuration. Raises CommandError as `check_settings`."""
        self.check_settings()
        return self.digests(self.model, self.revision)

    def score(self, queries: Sequence[str], documents: Sequence[Document]) -> NDArray[np.float32]:
        """Return how relevant documents[i] is to queries[i] (n,). Raises the errors of `scored_pairs`."""
        return self.scored_pairs(queries, documents).scores

    def scored_pairs(self, queries: Sequence[str], documents: Sequence[Document]) -> ScoredPairs:
        """Return the scores of pairs (n,), and which of them were cut. Raises LexbenchError for NaN, or if memory is short."""
        import torch

        from lexbench.models.pair_scoring import CrossEncoderModel
        from lexbench.models.transformer_model import loaded

        model = loaded(CrossEncoderModel, self.spec(self.model, self.revision))
        cutter = model.cutter(min(self.length, model.longest or self.length), "length")
        most_tokens = self.batch_tokens or _BATCH_TOKENS[model.device.type]
        apart = self.titles == "string"
        found = None
        with devices.torch_threads(self.threads):
            while found is None:
                try:
                    found = model.scored_pairs(cutter, queries, documents, most_tokens, separated_titles=apart)
                except torch.OutOfMemoryError as error:
                    if self.batch_tokens or most_tokens <= self.length:
                        raise model.out_of_memory(most_tokens) from error
                    most_tokens //= 2
        model.finite(found.scores, "scores")
        return found
