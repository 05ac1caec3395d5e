"""The weights that tuning tries, and the documents that any of them can rank near the top."""

from itertools import combinations, pairwise
from math import comb
from typing import NamedTuple

import numpy as np

from lexbench.fusion.normalise import ScoreMatrix

_STEPS = (20, 10, 5, 4, 2, 1)  # equal steps from 0 to 1, the finest first
_MOST = 1001  # combinations: five members in steps of 0.1
_ROUNDING = 2.0**-21  # of the largest score: more than the rounding error of float32 sums
_RIVALS = 4  # times the cutoff: how many documents each one is compared with
_DEEPEST = 100  # cutoff: beyond it comparing costs more than it saves


class Grid(NamedTuple):
    """Non-negative weights that add up to 1."""

    step: float
    weights: list[tuple[float, ...]]  # the most even first, then those with more weight on earlier members


def grid(members: int) -> Grid:
    """Return the weights of a number of *members* in steps of 0.05, or coarser if there were over 1,001, and equal weights."""
    steps = next((steps for steps in _STEPS if comb(steps + members - 1, members - 1) <= _MOST), 1)
    # "Stars and bars": each choice of bar positions divides the steps among the members.
    ends = [(-1, *bars, steps + members - 1) for bars in combinations(range(steps + members - 1), members - 1)]
    weights = [tuple((after - before - 1) / steps for before, after in pairwise(bars)) for bars in ends]
    distinct = dict.fromkeys([(1 / members,) * members, *weights])
    return Grid(1 / steps, sorted(distinct, key=lambda row: (round(sum(w * w for w in row), 9), [-w for w in row])))


def candidates(matrix: ScoreMatrix, cutoff: int) -> ScoreMatrix:
    """Return *matrix* without the documents that no weights can rank in the top *cutoff*.

    If *cutoff* other documents have higher scores in every list, by more than rounding errors, they come first for all
    non-negative weights. Padding (-1) is also removed.
    """
    filled = matrix.docs >= 0
    values = np.where(filled, np.stack(matrix.values), -np.inf)  # (members, queries, n)
    surpassed = np.zeros(filled.shape, np.int32)
    if cutoff <= _DEEPEST:
        size = np.where(filled, np.abs(values), 0).max(axis=2, keepdims=True, initial=0)  # (members, queries, 1)
        margin = _ROUNDING * size.max(axis=0)
        sums = np.where(filled, values / np.where(size > 0, size, 1), -np.inf).sum(axis=0)
        # Comparing all pairs costs too much; the documents with the largest sums surpass most others.
        for rival in np.argsort(-sums, axis=1)[:, : _RIVALS * cutoff].T:
            surpassed += (np.take_along_axis(values, rival[None, :, None], axis=2) - margin > values).all(axis=0)
    keep = filled & (surpassed < cutoff)
    order = np.argsort(~keep, axis=1, kind="stable")[:, : int(keep.sum(axis=1).max(initial=0))]
    kept = np.take_along_axis(keep, order, axis=1)
    docs = np.where(kept, np.take_along_axis(matrix.docs, order, axis=1), -1).astype(np.int32)
    return ScoreMatrix(docs, [np.take_along_axis(value, order, axis=1) for value in matrix.values])
