"""Sequence classifiers that read query and document together: monoBERT, MiniLM of MS MARCO, R2anker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import CommandError
from lexbench.models.architectures import classifier_files
from lexbench.models.checkpoint import digests, fetch, weight_bytes
from lexbench.models.lora import with_base
from lexbench.models.training_data import training_data
from lexbench.plugins import Reranker
from lexbench.registry import runtime
from lexbench.types import Document, TrainingData

if TYPE_CHECKING:
    from lexbench.models.transformer_model import ModelSpec

_CHOICES = {
    "titles": ("off", "string"),
    "truncation": ("longest_first", "only_second"),
    "dtype": ("float32", "bfloat16", "float16", "int8"),
}
_SHORTEST = 8  # tokens: the special ones of a pair, and some of a text
_BATCH_TOKENS = {"cpu": 1024, "cuda": 65_536, "mps": 8192}


@dataclass(frozen=True)
class CrossEncoder(Reranker):
    """Any `…ForSequenceClassification` of transformers. The score is its logit, or the second of two logits minus the first.

    It reads [CLS] query [SEP] document [SEP], as its tokenizer makes pairs. *model* is a folder, or a name on the Hugging Face
    hub, where a *revision* can be given. *length* is in tokens of a pair, special ones included; a model that takes fewer cuts
    to its own length. *titles*: "off" takes the document's text as it is, its title in front; "string" puts a separator between
    title and body. *truncation*: "longest_first" cuts the longer of query and document first, like sentence-transformers;
    "only_second" cuts documents, and a query only if it alone is too long. *dtype* is the type of the computation ("int8": of
    linear layers, on a processor; the layer that scores stays in float32). *batch_tokens* is the number of tokens computed at
    once, padding included; 0 suits the device. There is no sigmoid: it does not change the order, and makes large scores equal.
    """

    model: str = field(metadata={"runtime": True})  # the digests of its files are in the key instead
    revision: str | None = runtime(None)
    length: int = 512
    titles: str = "off"
    truncation: str = "longest_first"
    dtype: str = "float32"
    device: str = runtime("auto")
    batch_tokens: int = runtime(0)
    threads: int = runtime(0)

    version: ClassVar[int] = 1
    deterministic: ClassVar[bool] = True  # for the same pairs together, on one machine; other batches are rounded differently
    requires: ClassVar[tuple[str, ...]] = ("torch", "transformers")
    extra: ClassVar[str] = "neural"

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings."""
        for name, allowed in _CHOICES.items():
            if (value := getattr(self, name)) not in allowed:
                raise CommandError(f"cross_encoder({name}={value!r}): there is {', '.join(allowed)}")
        if self.length < _SHORTEST:
            raise CommandError(f"cross_encoder(length={self.length}): give at least {_SHORTEST} tokens; special tokens count")
        for name in ("batch_tokens", "threads"):
            if (value := getattr(self, name)) < 0:
                raise CommandError(f"cross_encoder({name}={value}): give a number above 0, or 0 for what suits the device")
        kind, _, number = self.device.partition(":")
        if kind not in {"auto", *_BATCH_TOKENS} or (number and (kind != "cuda" or not number.isdigit())):
            raise CommandError(f"cross_encoder(device={self.device!r}): there is auto, cpu, cuda, cuda:0, mps")

    def models(self) -> list[str]:
        """Return the folder or name of the model."""
        return [self.model]

    def training_data(self) -> list[TrainingData | None]:
        """Return the training data that the model's folder states."""
        return [training_data(fetch(self.model, self.revision))]

    def slow_note(self) -> str:
        """Return a note if this machine computes more slowly in `dtype` than in float32, else ""."""
        from lexbench.models.dtype_speed import slow_note

        return slow_note(self.dtype, self._spec().torch_device, 'type dtype="float32"')

    def identity(self) -> dict[str, str]:
        """Return the digests of weights, tokenizer and configuration.

        Raises MissingData if one is missing, CommandError if the model is no sequence classifier with one logit or two.
        """
        return digests(classifier_files(self.model, self.revision))

    def document_folders(self) -> dict[str, Path]:
        """Return the folder of the model, and that of the model that it adapts."""
        return with_base("model", fetch(self.model, self.revision))

    def with_document_folders(self, folders: Mapping[str, Path]) -> Self:
        """Return a copy that reads the model from another folder."""
        return replace(self, model=str(folders["model"]), revision=None)

    def weight_files(self) -> dict[str, int]:
        """Return the bytes of each file of weights, by its path."""
        return weight_bytes(classifier_files(self.model, self.revision))

    def score(self, queries: Sequence[str], documents: Sequence[Document]) -> NDArray[np.float32]:
        """Return how relevant documents[i] is to queries[i] (n,). Raises LexbenchError for NaN, or if memory is short."""
        import torch

        from lexbench.models.pair_scoring import CrossEncoderModel, PairFormat, PairScorer
        from lexbench.models.transformer_model import loaded

        if self.threads:
            torch.set_num_threads(self.threads)
        model = loaded(CrossEncoderModel, self._spec())
        pair_format = PairFormat(min(self.length, model.longest or self.length), self.titles, self.truncation)
        most_tokens = self.batch_tokens or _BATCH_TOKENS[model.device.type]
        try:
            scores = PairScorer(model.frozen, pair_format).scores(queries, documents, most_tokens).cpu().numpy()
        except torch.OutOfMemoryError as error:
            raise model.out_of_memory(most_tokens) from error
        model.check_finite(scores, "scores")
        return np.asarray(scores, np.float32)

    def _spec(self) -> "ModelSpec":
        from lexbench.models.transformer_model import ModelSpec

        return ModelSpec(self.model, self.revision, self.dtype, self.device)
