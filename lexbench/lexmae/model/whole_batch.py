"""One batch over several pieces and processes, with the losses and gradients of the batch computed at once.

In-batch negatives, FLOPS and the ranking of texts need the vectors of the whole batch. So every process gathers them and
computes the same loss. A batch that does not fit into memory is encoded in pieces, of which only the vectors are kept: their
states are computed again in the backward pass (GradCache, Gao et al. 2021, arXiv 2101.06983). Used by all learners.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, distributed
from torch.utils.checkpoint import checkpoint

from lexbench.lexmae.model.encoder import Texts, in_groups


def in_pieces(encode: Callable[..., tuple[Tensor, ...]], pieces: int, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Return the results of *encode* for *tensors* (n, ...), joined in order, computed in *pieces* pieces of n."""
    if pieces == 1:
        return encode(*tensors)
    parts = zip(*(tensor.chunk(pieces) for tensor in tensors), strict=True)
    results = [checkpoint(encode, *part, use_reentrant=False) for part in parts]
    return tuple(torch.cat(rows) for rows in zip(*results, strict=True))


def texts_in_pieces(encode: Callable[[Texts], Tensor], pieces: int, texts: Texts) -> Tensor:
    """Return the vectors of *texts* (n, ...) by *encode*, in order, computed in *pieces* pieces."""
    (vectors,) = in_pieces(lambda *tensors: (in_groups(encode, Texts(*tensors)),), pieces, *texts)
    return vectors


def gathered(rows: Tensor) -> Tensor:
    """Return the *rows* (n, ...) of all processes, in the order of the processes; n may differ.

    The result has the gradient of this process's own rows, if every process computes the same loss of the whole result.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return rows
    result: Tensor = _Gathered.apply(rows)  # type: ignore[no-untyped-call]
    return result


class _Gathered(torch.autograd.Function):
    """`gathered` in several processes."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        processes, rank = distributed.get_world_size(), distributed.get_rank()
        own = torch.tensor([len(rows)], device=rows.device)
        counts = [torch.zeros_like(own) for _ in range(processes)]
        distributed.all_gather(counts, own)
        lengths = [int(count) for count in counts]
        padded = rows.new_zeros((max(lengths), *rows.shape[1:]))
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in range(processes)]
        distributed.all_gather(parts, padded)
        first = sum(lengths[:rank])
        ctx.own, ctx.processes = slice(first, first + len(rows)), processes
        return torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        # Every process has the gradient of the whole loss. DistributedDataParallel divides the sum over processes by their
        # number, so each contributes that many times the gradient through its own rows.
        own: Tensor = gradients[0][ctx.own] * ctx.processes
        return own
