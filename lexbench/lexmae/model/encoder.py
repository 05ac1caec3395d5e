"""The encoder: a masked-language model whose logits, pooled over a text, become weights of words (paper, section 3.4).

Max-pooling takes the largest logit of each word over the positions of a text, without keeping all logits: a batch of 32 texts
of 144 tokens has 141 million of them with BERT's vocabulary. Only the largest logit of each word counts, and only it receives a
gradient (released code: argmax, then gather). So logits are computed for one piece of the vocabulary at a time, at most the
positions of the maxima are kept, and in the backward pass the gradient of a word is one row of the projection.

`Learner` is the base class of everything that is trained; `load_encoder` and `save` read and write folders of transformers.
"""

from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModelForMaskedLM
from transformers.utils import logging as transformers_logging

from lexbench.models import added_terms
from lexbench.models.added_terms import AddedTerms, ExactTerms, TextHead
from lexbench.models.architectures import body_and_transform
from lexbench.models.checkpoint import IDF, QUERY_EXPANSIONS
from lexbench.models.loading import load_model, load_tokenizer
from lexbench.storage import atomic

_TOGETHER = {"cpu": 2048, "cuda": 8192}  # tokens, padding included, of texts of similar length that are computed at a time
_SILENT = -1e4  # below every logit, and representable in half precision
# Share of non-zero gradients that is few. In fine-tuning only active words have one, because ReLU stops the others.
_FEW = {"cpu": 0.1, "cuda": 0.5}
_PIECE = {"cpu": 2048, "cuda": 8192}  # words projected at a time: fits a processor's cache, a GPU's memory


class Texts(NamedTuple):
    """A batch of texts, padded on the right; every tensor is (n, length)."""

    ids: Tensor
    real: Tensor  # bool, False for padding
    pools: Tensor  # bool, the positions whose logits count


class Learner(nn.Module):
    """A model with its loss, as the trainer expects it. Its attribute `encoder` encodes texts when models are selected.

    `forward` takes this process's share of a batch by name, and `step` (the number of optimiser steps so far) if the training
    ramps a weight. It returns scalars of the whole batch by name: `loss`, which is minimised, and its parts, whose means are
    logged.
    """

    pieces: int = 1  # in which the share is computed, see `whole_batch`

    @property
    def rates(self) -> Mapping[str, float]:
        """Factors of the learning rate, by name of the parameter; 1 for parameters that are not named."""
        return {}


class LexiconEncoder(nn.Module):
    """A masked-language model as an encoder of texts into weights of words: paper, Eq. 8.

    With *exact_terms* a text's own word pieces have weights beside the predicted ones, unlike in the paper's model. The
    *text_head*, if any, is only kept here, for `save`: it is trained when everything else is finished. So is *query_table*
    (vocabulary,), the weight of each word piece in queries of a model that encodes only documents, and *query_expansions*, the
    factors of the word pieces that each one adds to a query.
    """

    query_table: Tensor | None = None
    query_expansions: Mapping[str, Mapping[str, float]] | None = None

    def __init__(self, language_model: Any, exact_terms: ExactTerms | None = None, text_head: TextHead | None = None) -> None:
        super().__init__()
        self.text_head = text_head
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
        """The parameters with one number per word: the projection's bias and the exact terms."""
        _, bias = self.projection
        return [value for value in (bias, *(self.exact_terms.parameters() if self.exact_terms else ())) if value is not None]

    @property
    def projection(self) -> tuple[Tensor, Tensor | None]:
        """The word embeddings (vocabulary, width) as a matrix, and the bias (vocabulary,), that turn states into logits."""
        layer = self.language_model.get_output_embeddings()
        return layer.weight, layer.bias

    def hidden(self, ids: Tensor, real: Tensor) -> Tensor:
        """Return the states of the last layer (n, length, width)."""
        body, _ = body_and_transform(self.language_model)
        states: Tensor = body(input_ids=ids, attention_mask=real.long()).last_hidden_state
        return states

    def transformed(self, hidden: Tensor) -> Tensor:
        """Return *hidden* after the head's dense layer, activation and normalisation, ready for the projection."""
        _, transform = body_and_transform(self.language_model)
        states: Tensor = transform(hidden)
        return states

    def forward(self, texts: Texts) -> Tensor:
        """Return v = log(1 + max(0, Max-Pool(S))) (n, vocabulary), float32: paper, Eq. 8; plus exact terms, if any."""
        return self.with_exact_terms(self.predicted(texts), texts)

    def predicted(self, texts: Texts) -> Tensor:
        """Return log(1 + max(0, Max-Pool(S))) (n, vocabulary), float32: the weights without exact terms."""
        return torch.log1p(functional.relu(self.largest_logits(texts)))

    def with_exact_terms(self, predicted: Tensor, texts: Texts) -> Tensor:
        """Return the weights of *texts* (n, vocabulary) from their *predicted* weights (n, vocabulary)."""
        return predicted if self.exact_terms is None else self.exact_terms(predicted, texts.ids, texts.pools)

    def largest_logits(self, texts: Texts) -> Tensor:
        """Return Max-Pool(S) (n, vocabulary), float32: the largest logit of each word in each text."""
        states = self.transformed(self.hidden(texts.ids, texts.real))
        return max_pool(states, *self.projection, texts.pools, few=True)


def load(folder: Path) -> tuple[Any, Any]:
    """Return the masked-language model in *folder*, in float32 and training mode, and its tokenizer."""
    model, _ = load_model(folder, AutoModelForMaskedLM)
    return model.train(), load_tokenizer(folder)


def load_encoder(folder: Path) -> tuple[LexiconEncoder, Any]:
    """Return the encoder in *folder*, with its exact terms if it has any, and its tokenizer."""
    model, tokenizer = load(folder)
    return LexiconEncoder(model, *added_terms.read(folder, model.config.vocab_size, model.config.hidden_size)), tokenizer


def save(encoder: LexiconEncoder, tokenizer: Any, folder: Path) -> None:
    """Write *encoder* and its tokenizer into the existing *folder*."""
    transformers_logging.disable_progress_bar()
    encoder.language_model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    added_terms.write(AddedTerms(encoder.exact_terms, encoder.text_head), folder)
    if encoder.query_table is not None:
        weights = encoder.query_table.tolist()
        pieces = sorted(tokenizer.get_vocab().items(), key=itemgetter(1))
        atomic.write_json(folder / IDF, {piece: round(weights[number], 4) for piece, number in pieces})
    if encoder.query_expansions:
        atomic.write_bytes(folder / QUERY_EXPANSIONS, msgspec.json.encode(encoder.query_expansions))
    for path in folder.glob("*.safetensors"):  # safetensors makes files that only their owner can read
        path.chmod((folder / "config.json").stat().st_mode)


def unique_parameters(module: nn.Module) -> dict[str, Tensor]:
    """Return copies of the parameters of *module* on the processor; tied parameters appear once."""
    return {name: value.detach().to("cpu", copy=True).contiguous() for name, value in module.named_parameters()}


def in_groups(encoder: Callable[[Texts], Tensor], texts: Texts) -> Tensor:
    """Return the vectors of *texts* (n, vocabulary) by *encoder*, in order. Texts of similar length are computed together."""
    lengths = texts.real.sum(1)
    order = torch.argsort(lengths, descending=True, stable=True)
    most = _TOGETHER.get(texts.ids.device.type, _TOGETHER["cuda"])
    vectors, start, widths = [], 0, lengths[order].tolist()
    while start < len(order):
        group = order[start : start + max(1, most // max(widths[start], 1))]
        vectors.append(encoder(Texts(*(tensor[group, : widths[start]] for tensor in texts))))
        start += len(group)
    return torch.cat(vectors)[torch.argsort(order)]


def max_pool(states: Tensor, weight: Tensor, bias: Tensor | None, pools: Tensor, *, few: bool = False) -> Tensor:
    """Return Max-Pool(S), the largest logits of each text (n, vocabulary), float32: paper, Eq. 3.

    *states* (n, length, width) come after the head's transform. *weight* (vocabulary, width) and *bias* (vocabulary,) project
    them. Only positions in *pools* (n, length) count; a text without any gets -1e4 everywhere, so weights of 0 and no gradient.
    *few* means that few words of a text will have a gradient, as in fine-tuning, where ReLU stops the others. On the processor
    the positions of the maxima cost more than the products; then they are found in the backward pass, for those words only.
    """
    pooled: Tensor = _MaxPool.apply(states, weight, bias, pools, few)  # type: ignore[no-untyped-call]
    return torch.where(pools.any(1)[:, None], pooled, _SILENT)


class _MaxPool(torch.autograd.Function):
    """`max_pool` before empty texts are masked. It never holds the logits of the whole vocabulary in memory."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, bias: Tensor | None, pools: Tensor, few: bool) -> Tensor:  # noqa: FBT001
        if torch.is_autocast_enabled(states.device.type):
            states = states.to(torch.get_autocast_dtype(states.device.type))
        with torch.autocast(states.device.type, enabled=False):
            if few and states.device.type == "cpu":
                largest, positions = torch.cat([one.amax(1) for one in _logits(states, weight, pools)], 1).float(), None
            else:
                largest, positions = _maxima_and_positions(states, weight, pools)
        ctx.save_for_backward(states, weight, pools, positions)
        ctx.has_bias = bias is not None
        return largest if bias is None else largest + bias  # the bias is the same at every position, so it can come last

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        states, weight, pools, positions = ctx.saved_tensors
        (gradient,) = gradients
        with torch.autocast(states.device.type, enabled=False):
            if torch.count_nonzero(gradient) < _FEW.get(states.device.type, _FEW["cuda"]) * gradient.numel():
                of_states, of_weight = _sparse_gradients(gradient.float(), states, weight, pools, positions)
            else:
                if positions is None:
                    _, positions = _maxima_and_positions(states, weight, pools)
                of_states, of_weight = _gradients(gradient.float(), states.float(), weight, positions)
        return of_states, of_weight, gradient.float().sum(0) if ctx.has_bias else None, None, None


def _piece(states: Tensor) -> int:
    return _PIECE.get(states.device.type, _PIECE["cuda"])


def _logits(states: Tensor, weight: Tensor, pools: Tensor) -> Iterator[Tensor]:
    """Yield the logits (n, length, words) of one piece of the vocabulary at a time; -1e4 at positions that do not count."""
    silent = ~pools[:, :, None]
    for piece in torch.split(weight.to(states.dtype), _piece(states)):
        yield (states @ piece.T).masked_fill_(silent, _SILENT)


def _maxima_and_positions(states: Tensor, weight: Tensor, pools: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest logits (n, vocabulary), float32, and their positions, int64."""
    pairs = [logits.max(1) for logits in _logits(states, weight, pools)]
    return torch.cat([largest for largest, _ in pairs], 1).float(), torch.cat([positions for _, positions in pairs], 1)


def _gradients(gradient: Tensor, states: Tensor, weight: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of states (n, length, width) and weight (vocabulary, width), some words at a time.

    The gradient of a word goes to the one position that has its maximum.
    """
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


def _sparse_gradients(
    gradient: Tensor, states: Tensor, weight: Tensor, pools: Tensor, positions: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the same as `_gradients`, skipping words without a gradient: faster if most are.

    Without *positions*, those of the words with a gradient are computed again.
    """
    texts, words = gradient.nonzero(as_tuple=True)
    amounts, vectors = gradient[texts, words, None], weight[words].float()
    at = _positions(texts, vectors, states, pools) if positions is None else positions[texts, words]
    rows = texts * states.shape[1] + at
    of_weight = torch.zeros_like(weight, dtype=torch.float32)
    of_weight.index_add_(0, words, amounts * states.flatten(0, 1)[rows].float())
    of_states = torch.zeros((pools.numel(), states.shape[2]), device=states.device)
    of_states.index_add_(0, rows, vectors.mul_(amounts))
    return of_states.view(states.shape), of_weight.to(weight.dtype)


def _positions(texts: Tensor, vectors: Tensor, states: Tensor, pools: Tensor) -> Tensor:
    """Return the positions of the largest logits of words with *vectors* (m, width), in *texts* (m,), which are in order."""
    found = []
    for text, some in enumerate(torch.split(vectors, texts.bincount(minlength=len(states)).tolist())):
        logits = states[text].float() @ some.T  # few words: setting up products in bfloat16 would take longer
        found.append(logits.masked_fill_(~pools[text, :, None], _SILENT).argmax(0))
    return torch.cat(found)
