"""From token numbers to sparse vectors by a masked-language model: its body, its head, the maximum over each text's positions.

The head is much of what a naive encoder spends its time on and nearly all of its memory: (batch, length, vocabulary) logits,
each of which goes through relu and log1p. Both grow with their argument, so the maximum comes first and they see one value for
each text and term. Positions that do not pool, padding among them, never reach the head, and the vocabulary is projected in
pieces: at most `tokens x 2,048` logits and `texts x vocabulary` maxima are held.
"""

from collections.abc import Callable, Iterator
from itertools import groupby

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from lexbench.encoders._mlm_model import Model
from lexbench.neural.token_batches import Batch

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {  # of positive values; what is not positive is no term
    "log1p_relu": torch.log1p,
    "log1p_log1p_relu": lambda values: values.log1p().log1p(),
    "relu": lambda values: values,
}


@torch.inference_mode()
def maxima(model: Model, batch: Batch) -> Tensor:
    """Return the largest logit of each text and term, float32 (n, vocabulary); -inf in texts that have no position to pool."""
    ids, pooled = (torch.from_numpy(array).to(model.device) for array in (batch.ids, np.flatnonzero(batch.pools)))
    mask = None if batch.real.all() else torch.from_numpy(batch.real).to(model.device)
    states = model.body(input_ids=ids, attention_mask=mask).last_hidden_state
    states = model.transform(states.flatten(0, 1).index_select(0, pooled))
    lengths = batch.pools.sum(axis=1).tolist()
    most = torch.full((len(lengths), model.vocabulary), -torch.inf, device=model.device)
    first = 0
    for project in model.pieces:
        logits = project(states)
        terms = slice(first, first + logits.shape[1])
        for rows, positions, shape in _equally_long(lengths):
            most[rows, terms] = logits[positions].view(*shape, -1).amax(1).float()
        first = terms.stop
    return most


def _equally_long(lengths: list[int]) -> Iterator[tuple[slice, slice, tuple[int, int]]]:
    """Yield runs of neighbours of one length: their rows, their positions, and the shape (texts, length) that these have."""
    row = position = 0
    for length, run in groupby(lengths):
        count = sum(1 for _ in run)
        if length:
            yield slice(row, row + count), slice(position, position + count * length), (count, length)
        row, position = row + count, position + count * length


@torch.inference_mode()
def active(most: Tensor, activation: str) -> sparse.csr_array:
    """Return the vectors (n, vocabulary) that maxima make: float32, sorted indices; NaN stays, so that it can be found."""
    rows, terms = torch.logical_not(most <= 0).nonzero(as_tuple=True)
    values = ACTIVATIONS[activation](most[rows, terms])
    starts = np.zeros(len(most) + 1, np.int32)
    starts[1:] = torch.bincount(rows, minlength=len(most)).cumsum(0).cpu().numpy()
    indices = terms.to(torch.int32).cpu().numpy()
    return sparse.csr_array((values.cpu().numpy(), indices, starts), shape=(len(most), most.shape[1]))
