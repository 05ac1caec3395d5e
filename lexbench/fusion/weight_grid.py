"""Weights to choose from, and the documents that any of them can bring to the top: what is tried is tried on these alone."""

from itertools import combinations, pairwise
from math import comb
from typing import NamedTuple

import numpy as np

from lexbench.fusion.normalise import ScoreMatrix

_STEPS = (20, 10, 5, 4, 2, 1)  # in which 1 can be divided, the finest first
_MOST = 1001  # combinations: those of five parts in steps of 0.1
_ROUNDING = 2.0**-21  # of the largest score: more than sums of float32 numbers can be wrong by
_RIVALS = 4  # times the cutoff: documents with which each is compared
_DEEPEST = 100  # cutoff at which comparing still costs less than it spares


class Grid(NamedTuple):
    """Weights from 0 that add up to 1."""

    step: float
    weights: list[tuple[float, ...]]  # the most even first; then those with more on the earlier parts


def grid(parts: int) -> Grid:
    """Return the weights of so many *parts* in steps of 0.05, or coarser where these are over a thousand; and even ones."""
    steps = next((steps for steps in _STEPS if comb(steps + parts - 1, parts - 1) <= _MOST), 1)
    ends = [(-1, *bars, steps + parts - 1) for bars in combinations(range(steps + parts - 1), parts - 1)]
    weights = [tuple((after - before - 1) / steps for before, after in pairwise(bars)) for bars in ends]
    distinct = dict.fromkeys([(1 / parts,) * parts, *weights])
    return Grid(1 / steps, sorted(distinct, key=lambda row: (round(sum(w * w for w in row), 9), [-w for w in row])))


def candidates(matrix: ScoreMatrix, cutoff: int) -> ScoreMatrix:
    """Return *matrix* without documents that no weights, from 0 and of sum 1, bring among the first *cutoff*.

    Where *cutoff* others have more in every list, and by more than rounding can undo, these come first whatever the weights.
    Documents of -1, wherever they stand, are left out, too.
    """
    filled = matrix.docs >= 0
    values = np.where(filled, np.stack(matrix.values), -np.inf)  # (parts, queries, n)
    surpassed = np.zeros(filled.shape, np.int32)
    if cutoff <= _DEEPEST:
        size = np.where(filled, np.abs(values), 0).max(axis=2, keepdims=True, initial=0)  # (parts, queries, 1)
        margin = _ROUNDING * size.max(axis=0)
        sums = np.where(filled, values / np.where(size > 0, size, 1), -np.inf).sum(axis=0)
        for rival in np.argsort(-sums, axis=1)[:, : _RIVALS * cutoff].T:
            surpassed += (np.take_along_axis(values, rival[None, :, None], axis=2) - margin > values).all(axis=0)
    keep = filled & (surpassed < cutoff)
    order = np.argsort(~keep, axis=1, kind="stable")[:, : int(keep.sum(axis=1).max(initial=0))]
    kept = np.take_along_axis(keep, order, axis=1)
    docs = np.where(kept, np.take_along_axis(matrix.docs, order, axis=1), -1).astype(np.int32)
    return ScoreMatrix(docs, [np.take_along_axis(value, order, axis=1) for value in matrix.values])
