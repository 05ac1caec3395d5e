"""A cross-encoder as a teacher: it reads query and document together."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from lexbench.lexmae.training import teachers
from lexbench.models.architectures import check_logits, is_classifier, load_classifier
from lexbench.models.checkpoint import read_json, transformer_folder
from lexbench.models.pair_scoring import PairFormat, PairScorer
from lexbench.models.transformer_model import FrozenModel
from lexbench.types import Document


class CrossEncoder(teachers.Teacher):
    """A *ForSequenceClassification that reads [CLS] query [SEP] title [SEP] passage [SEP], the query as first segment."""

    reads = "a *ForSequenceClassification of transformers"

    def __init__(self, frozen: FrozenModel, length: int) -> None:
        self._scorer = PairScorer(frozen, PairFormat(length, titles="string", truncation="only_second"))

    @classmethod
    def load(cls, folder: Path, device: torch.device | str, dtype: torch.dtype) -> "CrossEncoder | None":
        """Return the classifier in *folder*, None where it has none; CommandError unless it has 1 or 2 logits."""
        body = transformer_folder(folder)
        config = read_json(body / "config.json")
        if not is_classifier(config):
            return None
        check_logits(config, body, "a teacher")
        frozen, longest = teachers.frozen(body, load_classifier(body, "a teacher"), device, dtype)
        return cls(frozen, min(teachers.LENGTH, longest))

    def scores(self, queries: Sequence[str], documents: Sequence[Document]) -> Tensor:
        """Return the logits (n,), of two the relevant one less the other; documents are cut where a pair is too long."""
        return self._scorer.scores(queries, documents, teachers.BATCH)
