"""Correction of p for how many comparisons are made."""

import math
from collections.abc import Sequence

import numpy as np

from lexbench.analysis.significance.randomisation import RESAMPLES


def resamples_for(comparisons: int, level: float = 0.05) -> int:
    """Return how many resamples a test takes so that the least p it can give stays below *level* when it is corrected.

    10,000 for up to 250 comparisons; from 500 on, no difference however clear could otherwise be significant.
    """
    return max(RESAMPLES, math.ceil(2 * comparisons / level))


def holm(ps: Sequence[float]) -> list[float]:
    """Return *ps* corrected by Holm's step-down method (Holm 1979), in the order given.

    Of a family corrected so, the chance that any true null hypothesis is rejected is at most the level, whatever depends on
    what.
    """
    order = np.argsort(ps, kind="stable")
    stepped = np.maximum.accumulate([(len(ps) - rank) * ps[at] for rank, at in enumerate(order)]) if len(ps) else np.zeros(0)
    corrected = np.empty(len(ps))
    corrected[order] = np.minimum(stepped, 1.0)
    return [float(p) for p in corrected]
