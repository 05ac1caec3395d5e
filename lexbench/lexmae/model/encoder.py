"""The encoder of texts into weights of words: a masked-language model, its logits pooled over a text (paper, section 3.4)."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from lexbench.checkpoints.masked_lm import body_and_transform
from lexbench.lexmae.model.pooling import max_pool

_TOGETHER = {"cpu": 2048, "cuda": 32_768}  # tokens of texts of like length that are computed at a time, padding included


class Texts(NamedTuple):
    """A batch of texts, padded on the right; every tensor is (n, length)."""

    ids: Tensor
    real: Tensor  # bool, False for padding
    pools: Tensor  # bool, the positions whose logits count


class LexiconEncoder(nn.Module):
    """A masked-language model taken as an encoder of texts into weights of words: paper, Eq. 8."""

    def __init__(self, language_model: Any) -> None:
        super().__init__()
        self.language_model = language_model

    @property
    def config(self) -> Any:
        """The configuration of the masked-language model."""
        return self.language_model.config

    @property
    def embeddings(self) -> Tensor:
        """The word embeddings (vocabulary, width)."""
        weight: Tensor = self.language_model.get_input_embeddings().weight
        return weight

    @property
    def projection(self) -> tuple[Tensor, Tensor | None]:
        """The matrix (vocabulary, width), that of the word embeddings, and bias (vocabulary,) that make logits of states."""
        layer = self.language_model.get_output_embeddings()
        return layer.weight, layer.bias

    def hidden(self, ids: Tensor, real: Tensor) -> Tensor:
        """Return the last layer's states (n, length, width)."""
        body, _ = body_and_transform(self.language_model)
        states: Tensor = body(input_ids=ids, attention_mask=real.long()).last_hidden_state
        return states

    def transformed(self, hidden: Tensor) -> Tensor:
        """Return *hidden* as the projection takes it: through the head's dense layer, activation and normalisation."""
        _, transform = body_and_transform(self.language_model)
        states: Tensor = transform(hidden)
        return states

    def forward(self, texts: Texts) -> Tensor:
        """Return v = log(1 + max(0, Max-Pool(S))) (n, vocabulary), float32: paper, Eq. 8."""
        states = self.transformed(self.hidden(texts.ids, texts.real))
        return torch.log1p(functional.relu(max_pool(states, *self.projection, texts.pools)))


def in_groups(encoder: LexiconEncoder, texts: Texts) -> Tensor:
    """Return the vectors of *texts* (n, vocabulary), in their order, computing texts of like length together."""
    lengths = texts.real.sum(1)
    order = torch.argsort(lengths, descending=True, stable=True)
    most = _TOGETHER.get(texts.ids.device.type, _TOGETHER["cuda"])
    vectors, start, widths = [], 0, lengths[order].tolist()
    while start < len(order):
        group = order[start : start + max(1, most // max(widths[start], 1))]
        vectors.append(encoder(Texts(*(tensor[group, : widths[start]] for tensor in texts))))
        start += len(group)
    return torch.cat(vectors)[torch.argsort(order)]
