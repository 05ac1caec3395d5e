"""Frozen rerankers whose scores a stage learns from (paper, appendix A, stage 3). One file a kind: a class named as its file.

Weights are float32; in another precision the computation is under autocast.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from lexbench.errors import CommandError
from lexbench.lexmae.training.kinds import kinds
from lexbench.models.checkpoint import fetch_model
from lexbench.models.loading import load_tokenizer
from lexbench.models.transformer_model import FrozenModel
from lexbench.types import Document

LENGTH = 192  # tokens that a teacher reads unless its model takes fewer, special ones included
BATCH = 8192  # tokens that are computed at once, padding included


class Teacher(ABC):
    """What scores pairs of query and document; its weights do not change."""

    reads: ClassVar[str]  # the models of this kind, in words for an error: "a *ForSequenceClassification of transformers"

    @classmethod
    @abstractmethod
    def load(cls, folder: Path, device: torch.device | str, dtype: torch.dtype) -> "Teacher | None":
        """Return the teacher in *folder*, None where that has a model of another kind."""

    @abstractmethod
    def scores(self, queries: Sequence[str], documents: Sequence[Document]) -> Tensor:
        """Return how relevant documents[i] is to queries[i] (n,), float32, on the teacher's device."""


def load(name: str, device: torch.device | str, dtype: torch.dtype) -> Teacher:
    """Return the teacher *name*, a folder or a name on the hub.

    CommandError for a model that is of no kind; MissingData and InvalidFile where files are not there or do not read.
    """
    folder = fetch_model(name)
    for kind in kinds(__name__):
        teacher: Teacher | None = kind.load(folder, device, dtype)
        if teacher is not None:
            return teacher
    known = " nor ".join(kind.reads for kind in kinds(__name__))
    raise CommandError(f"{name}: neither {known}; give a teacher that is one of them")


def frozen(folder: Path, model: Any, device: torch.device | str, dtype: torch.dtype) -> tuple[FrozenModel, int]:
    """Return *model* with the tokenizer in *folder*, ready to compute, and how many tokens both take."""
    tokenizer = load_tokenizer(folder)
    longest = min(tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", LENGTH))
    return FrozenModel(model, tokenizer, torch.device(device), dtype), longest
