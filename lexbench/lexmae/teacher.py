"""Frozen rerankers whose scores a model learns from (paper, appendix A, stage 3): cross-encoders, and dual encoders.

Weights are float32; in another precision the computation is under autocast.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import AutoModel

from lexbench.checkpoints.classifier import check_logits, is_classifier, load_classifier
from lexbench.checkpoints.files import read_json
from lexbench.checkpoints.pretrained import load_complete_model
from lexbench.checkpoints.settings import pooling_of
from lexbench.errors import CommandError
from lexbench.lexmae import given_models
from lexbench.neural.cross_encoder import PairFormat, PairScorer
from lexbench.neural.transformer_model import FrozenModel, TokenRow
from lexbench.types import Document

LENGTH = 192  # tokens of a pair, special ones included
SCALE = 20.0  # of cosines: what dual encoders of sentence-transformers are trained with (its losses' `scale`)
_BATCH = 8192  # tokens that are computed at once, padding included


class Teacher(ABC):
    """What scores pairs of query and document; its weights do not change."""

    @abstractmethod
    def scores(self, queries: Sequence[str], documents: Sequence[Document]) -> Tensor:
        """Return how relevant documents[i] is to queries[i] (n,), float32, on the teacher's device."""


class CrossEncoder(Teacher):
    """A *ForSequenceClassification that reads [CLS] query [SEP] title [SEP] passage [SEP], the query as first segment."""

    def __init__(self, frozen: FrozenModel, length: int) -> None:
        self._scorer = PairScorer(frozen, PairFormat(length, titles="string", truncation="only_second"))

    def scores(self, queries: Sequence[str], documents: Sequence[Document]) -> Tensor:
        """Return the logits (n,), of two the relevant one less the other; documents are cut where a pair is too long."""
        return self._scorer.scores(queries, documents, _BATCH)


class DualEncoder(Teacher):
    """An encoder of sentence-transformers, scoring by 20 x cosine."""

    def __init__(self, frozen: FrozenModel, *, pooling: str = "mean", length: int = LENGTH) -> None:
        self._frozen = frozen
        self._pooling = pooling
        frozen.tokenizer.enable_truncation(length)

    def scores(self, queries: Sequence[str], documents: Sequence[Document]) -> Tensor:
        """Return 20 x cosine of each pair (n,); a text that occurs more than once is encoded once."""
        texts = [*queries, *(one.text for one in documents)]
        distinct = list(dict.fromkeys(texts))
        row = {text: place for place, text in enumerate(distinct)}
        vectors = self.encode(distinct)[[row[text] for text in texts]]
        return SCALE * (vectors[: len(queries)] * vectors[len(queries) :]).sum(1)

    def encode(self, texts: Sequence[str]) -> Tensor:
        """Return vectors of length 1 (n, width), float32."""
        found = torch.empty(len(texts), self._frozen.model.config.hidden_size, device=self._frozen.device)
        encodings = self._frozen.tokenizer.encode_batch(list(texts))
        rows = [TokenRow(np.array(one.ids, np.int64), np.array(one.type_ids, np.int64)) for one in encodings]
        for batch in self._frozen.outputs(rows, _BATCH):
            states = batch.output.last_hidden_state.float()
            real = batch.real.unsqueeze(2)
            found[batch.rows] = states[:, 0] if self._pooling == "cls" else (states * real).sum(1) / real.sum(1)
        return functional.normalize(found, dim=1)


def load(name: str, device: torch.device | str, dtype: torch.dtype) -> Teacher:
    """Return the teacher in *name*, a folder or a name on the hub.

    CommandError for a model of another kind; MissingData and InvalidFile where files are not there or do not read.
    """
    place = given_models.find(name)
    modules = given_models.modules(place)
    body = given_models.transformer(place)
    config = read_json(body / "config.json")
    if is_classifier(config):
        check_logits(config, body, "a teacher")
        frozen, longest = _frozen(body, load_classifier(body, "a teacher"), device, dtype)
        return CrossEncoder(frozen, min(LENGTH, longest))
    if [name for name, _ in modules if name != "Normalize"] != ["Transformer", "Pooling"]:
        raise CommandError(
            f"{name}: neither a *ForSequenceClassification of transformers nor a Transformer with Pooling of "
            "sentence-transformers; give a teacher that is one of them"
        )
    pools, told = pooling_of(modules[1][1]), _length(place, body)
    frozen, longest = _frozen(body, load_complete_model(body, AutoModel, "a teacher", ("pooler.",)), device, dtype)
    return DualEncoder(frozen, pooling=pools, length=told or longest)


def _frozen(place: Path, model: Any, device: torch.device | str, dtype: torch.dtype) -> tuple[FrozenModel, int]:
    """Return a model with the tokenizer in *place*, and how many tokens both take."""
    tokenizer = given_models.tokenizer(place)
    longest = min(tokenizer.model_max_length, getattr(model.config, "max_position_embeddings", LENGTH))
    return FrozenModel(model, tokenizer, torch.device(device), dtype), longest


def _length(place: Path, body: Path) -> int:
    """Return how many tokens of a text a model of older sentence-transformers reads; 0: newer ones tell the tokenizer.

    CommandError where texts are changed before they are read.
    """
    files = place / "config_sentence_transformers.json", body / "sentence_bert_config.json"
    about, how = (read_json(path) if path.is_file() else {} for path in files)
    if how.get("do_lower_case") or any((about.get("prompts") or {}).values()):
        raise CommandError(
            f"{place}: it puts a prompt before texts or lower-cases them; lexbench does not: take another teacher"
        )
    return int(how.get("max_seq_length") or 0)
