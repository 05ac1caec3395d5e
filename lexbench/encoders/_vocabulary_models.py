"""From tokens to sparse vectors by a language model: its body, its head, the maximum over each text's positions.

The head is much of what a naive encoder spends its time on and nearly all of its memory: (batch, length, vocabulary) logits,
each of which goes through relu and log1p. Both grow with their argument, so the maximum comes first and they see one value for
each text and term. Positions that do not pool, padding among them, never reach the head, and the vocabulary is projected in
pieces: at most `tokens x 2,048` logits and `texts x vocabulary` maxima are held. Needs torch.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional

from lexbench.checkpoints.causal_lm import CausalLM, causal_lm_files, load_causal_lm
from lexbench.checkpoints.hub import fetch
from lexbench.checkpoints.masked_lm import MaskedLM, load_masked_lm, masked_lm_files
from lexbench.neural.int8 import Int8Linear, write_largest
from lexbench.neural.token_batches import Batch
from lexbench.neural.transformer_model import ModelSpec, PackedLinear, TransformerModel

_PIECE = 2048  # terms projected at a time
_NARROW = 256  # dimensions of states up to which taking the maxima counts beside the projection
_NARROW_PIECE = 1024  # bytes of a row of logits then, on a processor: those of 768 tokens stay in its second-level cache
_COMPILED = (torch.float32, torch.bfloat16)  # what there are compiled loops for
_FEW = 64  # tokens, as of a query, up to which calling for each piece takes longer than what a cache saves
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {  # of positive values; what is not positive is no term
    "log1p_relu": torch.log1p,
    "log1p_log1p_relu": lambda values: values.log1p().log1p(),
    "relu": lambda values: values,
}
_Projections: TypeAlias = list[Any]  # each (tokens, width) -> (tokens, terms); in int8 they are Int8Linear


class VocabularyModel(TransformerModel):
    """A language model in three steps: body, *transform*, projection onto the vocabulary in pieces."""

    def __init__(self, spec: ModelSpec, checkpoint: "MaskedLM | CausalLM", transform: nn.Module, bias: Tensor | None) -> None:
        super().__init__(spec, checkpoint.body, checkpoint.tokenizer, checkpoint.config)
        self.transform = transform
        self.pack(self.transform)
        self.vocabulary = len(checkpoint.weight)
        narrow = self.device.type == "cpu" and checkpoint.weight.shape[1] <= _NARROW
        self._of_few = self._pieces(checkpoint.weight, bias, _PIECE)
        terms = _NARROW_PIECE // checkpoint.weight.element_size()
        self._of_many = self._pieces(checkpoint.weight, bias, terms) if narrow else self._of_few

    def _pieces(self, weight: Tensor, bias: Tensor | None, terms: int) -> _Projections:
        """Return the projections of states (tokens, width), each onto so many *terms* of all."""
        pieces = (slice(start, start + terms) for start in range(0, self.vocabulary, terms))
        parts = [(weight[piece], None if bias is None else bias[piece]) for piece in pieces]
        if self.int8:
            return [Int8Linear(*part) for part in parts]
        return [PackedLinear(*part) if self.packed else partial(_linear, *part) for part in parts]

    def _maxima(self, batch: Batch, states: Tensor) -> Tensor:
        """Return the largest logit of each text and term, float32 (n, vocabulary); -inf in texts without a position to pool.

        Where none is above 0 it may be any of them.
        *states* (n, longest, width) are what the body makes of *batch*.
        """
        pooled = torch.from_numpy(np.flatnonzero(batch.pools)).to(self.device)
        states = self.transform(states.flatten(0, 1).index_select(0, pooled))
        lengths = batch.pools.sum(axis=1).tolist()
        maxima = torch.full((len(lengths), self.vocabulary), -torch.inf, device=self.device)
        pieces = self._of_few if len(states) <= _FEW else self._of_many
        if self.int8:
            write_largest(pieces, states, lengths, maxima)
        elif self.device.type == "cpu" and states.dtype in _COMPILED and len(states) > _FEW:
            _write_largest_compiled(pieces, states, lengths, maxima)
        else:
            _write_largest(pieces, states, lengths, maxima)
        return maxima


class MaskedLMModel(VocabularyModel):
    """A masked-language model, with the weights of a text's own word pieces where its folder has them."""

    def __init__(self, spec: ModelSpec) -> None:
        files = masked_lm_files(fetch(spec.name, spec.revision), documents_alone=True)
        checkpoint = load_masked_lm(files, dtype=spec.torch_dtype, device=spec.torch_device)
        super().__init__(spec, checkpoint, checkpoint.transform, checkpoint.bias)
        self.exact_terms = checkpoint.exact_terms

    @torch.inference_mode()
    def vectors(self, batch: Batch, activation: str) -> sparse.csr_array:
        """Return the vectors (n, vocabulary): float32, sorted indices; NaN stays, so that it can be found."""
        maxima = self._maxima(batch, self._states(batch))
        if self.exact_terms is not None:
            ids, pools = (torch.from_numpy(array).to(self.device) for array in (batch.ids, batch.pools))
            predicted = _ACTIVATIONS[activation](maxima.clamp(min=0))
            return _sparse(self.exact_terms(predicted, ids, pools))
        return _sparse(maxima, _ACTIVATIONS[activation])

    def _states(self, batch: Batch) -> Tensor:
        """Return the last hidden states (n, longest, width) of *batch*; padding is not attended to."""
        ids = torch.from_numpy(batch.ids).to(self.device)
        mask = None if batch.real.all() else torch.from_numpy(batch.real).to(self.device)
        states: Tensor = self.body(input_ids=ids, attention_mask=mask).last_hidden_state
        return states


class CausalLMModel(VocabularyModel):
    """A causal language model, whose states look at what comes before them, or at the whole text."""

    def __init__(self, spec: ModelSpec) -> None:
        files = causal_lm_files(fetch(spec.name, spec.revision))
        checkpoint = load_causal_lm(files, dtype=spec.torch_dtype, device=spec.torch_device)
        super().__init__(spec, checkpoint, nn.Identity(), None)
        tokenizer = checkpoint.tokenizer
        self.specials = [token for token in (tokenizer.bos_token_id, tokenizer.eos_token_id) if token is not None]
        self.width = int(checkpoint.config.hidden_size)

    @torch.inference_mode()
    def vectors(self, batch: Batch, activation: str, *, bidirectional: bool, factor: float) -> sparse.csr_array:
        """Return the vectors (n, vocabulary): float32, sorted indices; NaN stays, so that it can be found.

        Logits are multiplied by *factor*, which is above 0. *bidirectional*: each position attends to all of its text.
        """
        maxima = self._maxima(batch, self._states(batch, bidirectional=bidirectional))
        return _sparse(maxima * factor, _ACTIVATIONS[activation])

    def _states(self, batch: Batch, *, bidirectional: bool) -> Tensor:
        """Return the last hidden states (n, longest, width) of *batch*; padding is not attended to."""
        ids, real = (torch.from_numpy(array).to(self.device) for array in (batch.ids, batch.real))
        mask = real[:, None, None, :].expand(-1, 1, real.shape[1], -1) if bidirectional else real
        states: Tensor = self.body(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
        return states


def _sparse(weights: Tensor, activation: Callable[[Tensor], Tensor] = lambda values: values) -> sparse.csr_array:
    """Return what *activation* makes of the *weights* (n, vocabulary) above 0; NaN stays, so that it can be found."""
    rows, terms = torch.logical_not(weights <= 0).nonzero(as_tuple=True)
    starts = np.zeros(len(weights) + 1, np.int32)
    starts[1:] = torch.bincount(rows, minlength=len(weights)).cumsum(0).cpu().numpy()
    values, indices = activation(weights[rows, terms]).cpu().numpy(), terms.to(torch.int32).cpu().numpy()
    return sparse.csr_array((values, indices, starts), shape=(len(weights), weights.shape[1]))


def _linear(weight: Tensor, bias: Tensor | None, states: Tensor) -> Tensor:
    return functional.linear(states, weight, bias)


def _write_largest(pieces: _Projections, states: Tensor, lengths: list[int], maxima: Tensor) -> None:
    """Write the largest logits of texts of *lengths*, whose *states* (tokens, width) stand behind each other, into *maxima*."""
    first = 0
    for project in pieces:
        logits = project(states)
        terms = slice(first, first + logits.shape[1])
        for rows, positions, shape in _equally_long(lengths):
            maxima[rows, terms] = _largest(logits[positions].view(*shape, -1))
        first = terms.stop


def _write_largest_compiled(pieces: _Projections, states: Tensor, lengths: list[int], maxima: Tensor) -> None:
    """Do the same on a processor, by loops that numba compiles at first use, for which a few tokens should not wait."""
    from lexbench.encoders._maxima_kernel import largest_bfloat16, largest_float32

    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    first, found = 0, maxima.numpy()
    for project in pieces:
        logits = project(states)
        if logits.dtype == torch.bfloat16:
            largest_bfloat16(logits.view(torch.int16).numpy(), starts, found.view(np.int32), first)
        else:
            largest_float32(logits.numpy(), starts, found, first)
        first += logits.shape[1]


def _largest(logits: Tensor) -> Tensor:
    """Return the largest of *logits* (texts, length, terms) over each text's length; where none is above 0, any of them.

    The bits of positive numbers, read as a whole number, have their order, and those of negative ones are below 0. Processors
    compare whole numbers of 16 bits nine times as fast as bfloat16. A NaN may be lost to a positive logit of the same text and
    term, and to no other.
    """
    if logits.dtype == torch.bfloat16 and logits.device.type == "cpu":
        return logits.view(torch.int16).amax(1).view(torch.bfloat16).float()
    return logits.amax(1).float()


def _equally_long(lengths: list[int]) -> Iterator[tuple[slice, slice, tuple[int, int]]]:
    """Yield runs of neighbours of one length: their rows, their positions, and the shape (texts, length) that these have."""
    row = position = 0
    for length, run in groupby(lengths):
        count = sum(1 for _ in run)
        if length:
            yield slice(row, row + count), slice(position, position + count * length), (count, length)
        row, position = row + count, position + count * length
