"""Frozen rerankers whose scores a stage learns from (paper, appendix A, stage 3): cross-encoders and dual encoders.

Weights are float32. In another precision the computation runs under autocast.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers import AutoModel

from lexbench.errors import CommandError
from lexbench.models.architectures import check_logits, is_classifier, load_classifier
from lexbench.models.checkpoint import TRANSFORMER, fetch_model, modules, optional_json, prompts, read_json, transformer_folder
from lexbench.models.loading import load_complete_model, load_tokenizer
from lexbench.models.pair_scoring import pair_scores
from lexbench.models.stated_settings import pooling_mode
from lexbench.models.token_batches import tokenise
from lexbench.models.transformer_model import FrozenModel
from lexbench.types import Document

LENGTH = 192  # tokens that a teacher reads unless its model takes fewer, including special ones
BATCH = 8192  # tokens computed at once, including padding
SCALE = 20.0  # of cosines: the `scale` with which dual encoders of sentence-transformers are trained


class Teacher(ABC):
    """A model with constant weights that scores pairs of query and document."""

    @abstractmethod
    def scores(self, queries: Sequence[str], documents: Sequence[Document]) -> Tensor:
        """Return the relevance of documents[i] to queries[i] (n,), float32, on the teacher's device."""


class CrossEncoder(Teacher):
    """A *ForSequenceClassification that reads [CLS] query [SEP] title [SEP] passage [SEP], with the query as first segment."""

    def __init__(self, frozen: FrozenModel, length: int) -> None:
        self._frozen = frozen
        frozen.tokenizer.enable_truncation(length)

    def scores(self, queries: Sequence[str], documents: Sequence[Document]) -> Tensor:
        """Return the logits (n,); of two logits, relevant minus not relevant. The longer text is cut if a pair is too long."""
        return pair_scores(self._frozen, self._frozen.tokenizer, queries, documents, BATCH, separated_titles=True)


class DualEncoder(Teacher):
    """An encoder of sentence-transformers; scores are 20 x cosine."""

    def __init__(self, frozen: FrozenModel, *, pooling: str = "mean", length: int = LENGTH) -> None:
        self._frozen = frozen
        self._pooling = pooling
        frozen.tokenizer.enable_truncation(length)

    def scores(self, queries: Sequence[str], documents: Sequence[Document]) -> Tensor:
        """Return 20 x cosine of each pair (n,). Equal texts are encoded once."""
        texts = [*queries, *(document.text for document in documents)]
        distinct = list(dict.fromkeys(texts))
        row = {text: index for index, text in enumerate(distinct)}
        vectors = self.encode(distinct)[[row[text] for text in texts]]
        return SCALE * (vectors[: len(queries)] * vectors[len(queries) :]).sum(1)

    def encode(self, texts: Sequence[str]) -> Tensor:
        """Return vectors of length 1 (n, width), float32."""
        vectors = torch.empty(len(texts), self._frozen.model.config.hidden_size, device=self._frozen.device)
        for batch, output in self._frozen.outputs(tokenise(self._frozen.tokenizer, texts), BATCH):
            states = output.last_hidden_state.float()
            real = torch.from_numpy(batch.real).to(states.device).unsqueeze(2)
            vectors[torch.from_numpy(batch.texts)] = (
                states[:, 0] if self._pooling == "cls" else (states * real).sum(1) / real.sum(1)
            )
        return functional.normalize(vectors, dim=1)


def load(name: str, device: torch.device | str, dtype: torch.dtype) -> Teacher:
    """Return the teacher *name*, a folder or a name on the hub.

    Raises CommandError if it is neither a cross-encoder nor a dual encoder, and MissingData or InvalidFile if files are missing
    or not valid.
    """
    folder = fetch_model(name)
    body = transformer_folder(folder)
    config = read_json(body / "config.json")
    if is_classifier(config):
        check_logits(config, body, "a teacher")
        frozen, longest = _frozen(body, load_classifier(body, "a teacher"), device, dtype)
        return CrossEncoder(frozen, min(LENGTH, longest))
    listed = modules(folder)
    if [module.kind for module in listed if module.kind != "Normalize"] != ["Transformer", "Pooling"]:
        raise CommandError(
            f"{name}: neither a *ForSequenceClassification of transformers nor a Transformer with Pooling of "
            "sentence-transformers; give a teacher that is one of them"
        )
    pooling, length = pooling_mode(folder / listed[1].subfolder), _length(folder, body)
    if pooling == "last":
        raise CommandError(f"{folder}: it pools the last token; a teacher must pool the first one, or the mean")
    frozen, longest = _frozen(body, load_complete_model(body, AutoModel, "a teacher", ("pooler.",)), device, dtype)
    return DualEncoder(frozen, pooling=pooling, length=length or longest)


def _frozen(folder: Path, model: Any, device: torch.device | str, dtype: torch.dtype) -> tuple[FrozenModel, int]:
    """Return *model* with the tokenizer in *folder*, ready to compute, and the number of tokens that both accept."""
    tokenizer = load_tokenizer(folder)
    longest = min(tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", LENGTH))
    return FrozenModel(model, tokenizer, torch.device(device), dtype), longest


def _length(folder: Path, body: Path) -> int:
    """Return the number of tokens that the model reads as older sentence-transformers record it, or 0.

    Newer versions record it in the tokenizer. Raises CommandError if texts are changed before they are read.
    """
    transformer = optional_json(body / TRANSFORMER)
    if transformer.get("do_lower_case") or any(prompts(folder).values()):
        raise CommandError(f"{folder}: it adds a prompt or lower-cases texts, which lexbench does not do; take another teacher")
    return int(transformer.get("max_seq_length") or 0)
