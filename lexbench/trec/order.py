"""The one canonical order of ranked lists: score as float32, then document id, both descending, as in trec_eval.

Lists are given as columns of entries, grouped by query: list i is `docs[offsets[i]:offsets[i + 1]]`. Documents are codes whose
ids descend, so the smaller code comes first.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import LexbenchError

_LOWEST = np.int32(-(2**31))


class Entries(NamedTuple):
    """Entries of ranked lists."""

    docs: NDArray[np.int32]  # (entries,)
    scores: NDArray[np.float32]  # (entries,)


def canonical(offsets: NDArray[np.int64], docs: NDArray[np.int32], scores: NDArray[np.float32]) -> Entries:
    """Return the entries with every list in canonical order; -0.0 becomes 0.0, which it equals.

    Score and document together make one whole number, so sorting numbers, which processors are good at, sorts both.
    """
    keys = (-_ordinals(scores) << 32) | docs
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        keys[start:stop].sort()
    return Entries((keys & 0xFFFFFFFF).astype(np.int32), _from_ordinals(-(keys >> 32)))


def strictly_decreasing(offsets: NDArray[np.int64], scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return scores (entries,) each of which is below the one before it in its list, lowered as little as that takes.

    *scores* are in canonical order. One that ties goes to the next float32 number below the one before it. LexbenchError
    where there is none.
    """
    # In whole numbers lowered[i] = min(score[i], lowered[i - 1] - 1), so lowered[i] + i is a running minimum of score[i] + i.
    # Every list starts far below the end of the last, so one running minimum serves them all.
    lists = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    slope = np.arange(len(scores)) - (lists << 35)
    lowered = np.minimum.accumulate(_ordinals(scores) + slope) - slope
    if np.any(lowered < _ordinals(np.array([np.finfo(np.float32).min]))):
        raise LexbenchError("scores tie at the lowest float32 number, below which there is none left to tell them apart")
    return _from_ordinals(lowered)


def _ordinals(scores: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return whole numbers that compare as *scores* do, one apart for neighbouring floats; -0.0 and 0.0 are both 0."""
    bits = scores.view(np.int32)
    return np.where(bits < 0, _LOWEST - bits, bits).astype(np.int64)


def _from_ordinals(ordinals: NDArray[np.int64]) -> NDArray[np.float32]:
    bits = ordinals.astype(np.int32)
    return np.where(bits < 0, _LOWEST - bits, bits).view(np.float32)
