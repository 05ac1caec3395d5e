"""The encoder of texts into weights of words: a masked-language model, its logits pooled over a text (paper, section 3.4).

Pooling takes the largest logit of every word over the positions of a text, without keeping the logits of all positions: a batch
of 32 texts of 144 tokens has 141 million over BERT's vocabulary. Only the largest at each word counts, and only there does a
gradient flow (released code: argmax, then gather). So logits are computed for a piece of the vocabulary at a time, only the
positions of the maxima are kept, and in the backward pass a word's gradient is one row of the projection.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from lexbench.checkpoints.exact_terms import ExactTerms
from lexbench.checkpoints.masked_lm import body_and_transform

_TOGETHER = {"cpu": 2048, "cuda": 32_768}  # tokens of texts of like length that are computed at a time, padding included
_SILENT = -1e4  # below every logit, and a number in half precision
_FEW = 0.1  # of all gradients: in fine-tuning only active words have one, as ReLU stops the others
_ROWS = 1 << 14  # gradients of words that are multiplied out at a time
_PIECE = {"cpu": 2048, "cuda": 8192}  # words projected at a time: a processor's cache, a GPU's memory


class Texts(NamedTuple):
    """A batch of texts, padded on the right; every tensor is (n, length)."""

    ids: Tensor
    real: Tensor  # bool, False for padding
    pools: Tensor  # bool, the positions whose logits count


class LexiconEncoder(nn.Module):
    """A masked-language model taken as an encoder of texts into weights of words: paper, Eq. 8.

    With *exact_terms* a text's own word pieces have weights beside those that are predicted, which the paper's model lacks.
    """

    def __init__(self, language_model: Any, exact_terms: ExactTerms | None = None) -> None:
        super().__init__()
        self.language_model, self.exact_terms = language_model, exact_terms

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
    def term_parameters(self) -> list[Tensor]:
        """The parameters that have a number for each word: the projection's bias, and those of the exact terms."""
        _, bias = self.projection
        return [value for value in (bias, *(self.exact_terms.parameters() if self.exact_terms else ())) if value is not None]

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
        """Return v = log(1 + max(0, Max-Pool(S))) (n, vocabulary), float32: paper, Eq. 8; exact terms come on top."""
        return self.with_exact_terms(torch.log1p(functional.relu(self.largest_logits(texts))), texts)

    def with_exact_terms(self, predicted: Tensor, texts: Texts) -> Tensor:
        """Return the weights of *texts* (n, vocabulary), of which *predicted* (n, vocabulary) are the predictions."""
        return predicted if self.exact_terms is None else self.exact_terms(predicted, texts.ids, texts.pools)

    def largest_logits(self, texts: Texts) -> Tensor:
        """Return Max-Pool(S) (n, vocabulary), float32: the largest logit of each word in each text."""
        states = self.transformed(self.hidden(texts.ids, texts.real))
        return max_pool(states, *self.projection, texts.pools)


def in_groups(encoder: Callable[[Texts], Tensor], texts: Texts) -> Tensor:
    """Return what *encoder* makes of *texts* (n, vocabulary), in their order, computing texts of like length together."""
    lengths = texts.real.sum(1)
    order = torch.argsort(lengths, descending=True, stable=True)
    most = _TOGETHER.get(texts.ids.device.type, _TOGETHER["cuda"])
    vectors, start, widths = [], 0, lengths[order].tolist()
    while start < len(order):
        group = order[start : start + max(1, most // max(widths[start], 1))]
        vectors.append(encoder(Texts(*(tensor[group, : widths[start]] for tensor in texts))))
        start += len(group)
    return torch.cat(vectors)[torch.argsort(order)]


def max_pool(states: Tensor, weight: Tensor, bias: Tensor | None, pools: Tensor) -> Tensor:
    """Return Max-Pool(S), the largest logits of each text (n, vocabulary), float32: paper, Eq. 3.

    *states* (n, length, width) after the head's transform; *weight* (vocabulary, width) and *bias* (vocabulary,) project them;
    only positions of *pools* (n, length) count. A text without any has -1e4 everywhere, so weights of 0, and no gradient.
    """
    pooled: Tensor = _MaxPool.apply(states, weight, bias, pools)  # type: ignore[no-untyped-call]
    return torch.where(pools.any(1)[:, None], pooled, _SILENT)


class _MaxPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None, pools: Tensor) -> Tensor:
        if torch.is_autocast_enabled(states.device.type):
            states = states.to(torch.get_autocast_dtype(states.device.type))
        with torch.autocast(states.device.type, enabled=False):
            largest, positions = _maxima(states, weight, bias, pools)
        ctx.save_for_backward(states, weight, positions)
        ctx.has_bias = bias is not None
        return largest

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:
        states, weight, positions = ctx.saved_tensors
        (gradient,) = gradients
        with torch.autocast(states.device.type, enabled=False):
            few = torch.count_nonzero(gradient) < _FEW * gradient.numel()
            spread = _spread_few if few else _spread
            of_states, of_weight = spread(gradient.float(), states.float(), weight, positions)
        return of_states, of_weight, gradient.float().sum(0) if ctx.has_bias else None, None


def _piece(states: Tensor) -> int:
    return _PIECE.get(states.device.type, _PIECE["cuda"])


def _maxima(states: Tensor, weight: Tensor, bias: Tensor | None, pools: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest logits (n, vocabulary), float32, and the positions that have them, int64."""
    largest, positions = [], []
    silent = ~pools[:, :, None]
    for piece in torch.split(weight.to(states.dtype), _piece(states)):
        maxima, argmaxima = (states @ piece.T).masked_fill_(silent, _SILENT).max(1)
        largest.append(maxima)
        positions.append(argmaxima)
    together = torch.cat(largest, 1).float()  # the bias is the same at every position, so it comes after the maximum
    return together if bias is None else together + bias, torch.cat(positions, 1)


def _spread(gradient: Tensor, states: Tensor, weight: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of states (n, length, width) and weight (vocabulary, width), some words at a time."""
    of_states, of_weight = torch.zeros_like(states), torch.empty_like(weight, dtype=torch.float32)
    step = _piece(states)
    for start in range(0, len(weight), step):
        rows = weight[start : start + step].float()
        sums = torch.zeros_like(rows)
        for text in range(len(states)):
            amounts, at = gradient[text, start : start + step, None], positions[text, start : start + step]
            of_states[text].index_add_(0, at, amounts * rows)
            sums.addcmul_(amounts, states[text].index_select(0, at))
        of_weight[start : start + step] = sums
    return of_states, of_weight.to(weight.dtype)


def _spread_few(gradient: Tensor, states: Tensor, weight: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same as `_spread`, quicker where most of *gradient* is zero: the rest is skipped."""
    flat = states.flatten(0, 1)
    of_flat, of_weight = torch.zeros_like(flat), torch.zeros_like(weight, dtype=torch.float32)
    texts, words = gradient.nonzero(as_tuple=True)
    for text, word in zip(torch.split(texts, _ROWS), torch.split(words, _ROWS), strict=True):
        at = text * states.shape[1] + positions[text, word]
        amounts = gradient[text, word, None]
        of_flat.index_add_(0, at, amounts * weight[word].float())
        of_weight.index_add_(0, word, amounts * flat[at])
    return of_flat.view(states.shape), of_weight.to(weight.dtype)
