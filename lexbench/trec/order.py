"""The canonical order of ranked lists: score, then document id, both descending, as in trec_eval.

Scores are compared in the precision in which they are kept: float32 if one of our retrievers made them, double (float64) if
they come from a run file, as in trec_eval since 2023.

Lists are columns of entries, grouped by query: list i is `docs[offsets[i]:offsets[i + 1]]`. Documents are codes, and ids
descend with the code, so the smaller code comes first.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import LexbenchError

_LOWEST = np.int32(-(2**31))
_LARGEST = float(np.finfo(np.float32).max)


class Entries(NamedTuple):
    """Entries of ranked lists."""

    docs: NDArray[np.int32]  # (entries,)
    scores: NDArray[np.floating]  # (entries,) float32 or float64


def canonical(offsets: NDArray[np.int64], docs: NDArray[np.int32], scores: NDArray[np.floating]) -> Entries:
    """Return the entries with every list in canonical order; -0.0 becomes 0.0, because the two are equal.

    *scores* are float32 or float64 and keep their type.
    """
    if scores.dtype == np.float64:
        return _canonical_doubles(offsets, docs, scores)
    # A float32 score and its document make one integer, so that one fast sort of integers orders both.
    keys = (-_ordinals(scores) << 32) | docs
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        keys[start:stop].sort()
    return Entries((keys & 0xFFFFFFFF).astype(np.int32), _from_ordinals(-(keys >> 32)))


def _canonical_doubles(offsets: NDArray[np.int64], docs: NDArray[np.int32], scores: NDArray[np.floating]) -> Entries:
    # Most run files are in order already, so only lists with an entry out of order are sorted.
    follows = (scores[1:] < scores[:-1]) | ((scores[1:] == scores[:-1]) & (docs[1:] > docs[:-1]))
    breaks = np.flatnonzero(~follows) + 1
    unordered = np.unique(np.searchsorted(offsets, np.setdiff1d(breaks, offsets), side="right") - 1)
    if not len(unordered):
        return Entries(docs, scores + 0.0)  # -0.0 + 0.0 is 0.0
    order = np.arange(len(docs))
    for start, stop in zip(offsets[unordered].tolist(), offsets[unordered + 1].tolist(), strict=True):
        order[start:stop] = start + np.lexsort((docs[start:stop], -scores[start:stop]))
    return Entries(docs[order], scores[order] + 0.0)


def strictly_decreasing(offsets: NDArray[np.int64], scores: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return float32 scores (entries,) that decrease strictly in each list, lowered as little as that takes.

    *scores* are in canonical order. Float64 scores are rounded first, and those beyond float32 become its largest number. A
    score that ties becomes the next float32 number below the one before it. Raises LexbenchError if there is none.
    """
    if scores.dtype == np.float64:
        scores = np.clip(scores, -_LARGEST, _LARGEST).astype(np.float32)
    # With ordinals, lowered[i] = min(score[i], lowered[i - 1] - 1), so lowered[i] + i is a running minimum of score[i] + i.
    # The slope puts every list far below the end of the last one, so a single running minimum serves all lists.
    lists = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    slope = np.arange(len(scores)) - (lists << 35)
    lowered = np.minimum.accumulate(_ordinals(scores) + slope) - slope
    if np.any(lowered < _ordinals(np.array([np.finfo(np.float32).min]))):
        raise LexbenchError("scores tie at the lowest float32 number, below which there is none left to tell them apart")
    return _from_ordinals(lowered)


def _ordinals(scores: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return integers that compare like *scores* and differ by 1 for neighbouring floats; -0.0 and 0.0 are both 0."""
    bits = scores.view(np.int32)
    return np.where(bits < 0, _LOWEST - bits, bits).astype(np.int64)


def _from_ordinals(ordinals: NDArray[np.int64]) -> NDArray[np.float32]:
    bits = ordinals.astype(np.int32)
    return np.where(bits < 0, _LOWEST - bits, bits).view(np.float32)
