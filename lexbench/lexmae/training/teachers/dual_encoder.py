"""A dual encoder of sentence-transformers as a teacher: it reads query and document apart, and compares their vectors."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import AutoModel

from lexbench.errors import CommandError
from lexbench.lexmae.training import teachers
from lexbench.models.checkpoint import TRANSFORMER, modules, optional_json, prompts, transformer_folder
from lexbench.models.loading import load_complete_model
from lexbench.models.stated_settings import pooling_mode
from lexbench.models.transformer_model import FrozenModel, TokenRow
from lexbench.types import Document

SCALE = 20.0  # of cosines: what dual encoders of sentence-transformers are trained with (its losses' `scale`)


class DualEncoder(teachers.Teacher):
    """An encoder of sentence-transformers, scoring by 20 x cosine."""

    reads = "a Transformer with Pooling of sentence-transformers"

    def __init__(self, frozen: FrozenModel, *, pooling: str = "mean", length: int = teachers.LENGTH) -> None:
        self._frozen = frozen
        self._pooling = pooling
        frozen.tokenizer.enable_truncation(length)

    @classmethod
    def load(cls, folder: Path, device: torch.device | str, dtype: torch.dtype) -> "DualEncoder | None":
        """Return the encoder in *folder*, None for another model; CommandError where it changes texts first."""
        listed = modules(folder)
        if [module.kind for module in listed if module.kind != "Normalize"] != ["Transformer", "Pooling"]:
            return None
        body = transformer_folder(folder)
        how, length = pooling_mode(folder / listed[1].subfolder), _length(folder, body)
        if how == "last":
            raise CommandError(f"{folder}: it pools the last token; a teacher pools the first one, or the mean")
        frozen, longest = teachers.frozen(body, load_complete_model(body, AutoModel, "a teacher", ("pooler.",)), device, dtype)
        return cls(frozen, pooling=how, length=length or longest)

    def scores(self, queries: Sequence[str], documents: Sequence[Document]) -> Tensor:
        """Return 20 x cosine of each pair (n,); a text that occurs more than once is encoded once."""
        texts = [*queries, *(document.text for document in documents)]
        distinct = list(dict.fromkeys(texts))
        row = {text: index for index, text in enumerate(distinct)}
        vectors = self.encode(distinct)[[row[text] for text in texts]]
        return SCALE * (vectors[: len(queries)] * vectors[len(queries) :]).sum(1)

    def encode(self, texts: Sequence[str]) -> Tensor:
        """Return vectors of length 1 (n, width), float32."""
        vectors = torch.empty(len(texts), self._frozen.model.config.hidden_size, device=self._frozen.device)
        encodings = self._frozen.tokenizer.encode_batch(list(texts))
        rows = [TokenRow(np.array(encoding.ids, np.int64), np.array(encoding.type_ids, np.int64)) for encoding in encodings]
        for batch in self._frozen.outputs(rows, teachers.BATCH):
            states = batch.output.last_hidden_state.float()
            real = batch.real.unsqueeze(2)
            vectors[batch.rows] = states[:, 0] if self._pooling == "cls" else (states * real).sum(1) / real.sum(1)
        return functional.normalize(vectors, dim=1)


def _length(folder: Path, body: Path) -> int:
    """Return how many tokens of a text the model reads, as older sentence-transformers say; 0: newer ones tell the tokenizer.

    CommandError where texts are changed before they are read.
    """
    transformer = optional_json(body / TRANSFORMER)
    if transformer.get("do_lower_case") or any(prompts(folder).values()):
        raise CommandError(
            f"{folder}: it puts a prompt before texts or lower-cases them; lexbench does not: take another teacher"
        )
    return int(transformer.get("max_seq_length") or 0)
