"""Tests that a system is worse than another by at most a margin. The test is valid for any number of queries.

A bootstrap draws only from the queries at hand, so it cannot see losses on rare queries that are not among them. The test here
assumes only that differences lie in [-1, 1] and that queries are drawn independently.

The test is a bet. Suppose that the true mean difference is -margin. Then for every share c from 0 to 1, a stake that each query
multiplies by (1 - c) + c (1 + difference) / (1 - margin) is expected to be worth 1 in the end. By Markov's inequality it
reaches 20 in at most one case of 20, so 1 / wealth is a p value. Half of the stake goes on c = 1, the best share if nothing is
lost, and half evenly on other shares. Source: Waudby-Smith and Ramdas, JRSS B 86, 2024.
"""

import math
from bisect import bisect_left
from functools import cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench.analysis.significance.randomisation import LEVEL

_SHARES = np.append(np.arange(1, 64) / 64, 1.0)
_STAKES = np.append(np.full(63, 0.5 / 63), 0.5)  # on each share; they sum to 1
_STEPS = 40  # of a bisection of [-1, 1]: down to 2e-12


class NoWorse(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a system is worse than the baseline by at most the margin."""

    bound: float  # the true difference, in the measure's units, is above it with confidence 1 - level
    p: float  # of a loss of the margin or more
    corrected: float  # p by Holm over all tests of a comparison; equal to p for a single test
    holds: bool  # whether the corrected p is at most the level


def noninferiority(differences: NDArray[np.float64], margin: float, *, level: float = LEVEL) -> NoWorse:
    """Test that the mean of *differences* (queries,), system minus baseline, is above -*margin*, between 0 and 1.

    Differences are in the measure's units, from -1 to 1. Unlike a test for a difference, which finds nothing with few queries,
    few queries make this claim harder; see `fewest_queries`.
    """
    p = float(np.exp(-max(_log_wealth(differences, -margin), 0.0)))
    return NoWorse(bound=lower_bound(differences, level=level), p=p, corrected=p, holds=p <= level)


def lower_bound(differences: NDArray[np.float64], *, level: float = LEVEL) -> float:
    """Return a lower bound with confidence 1 - *level* for the mean of *differences* (queries,), each in [-1, 1]."""
    low, high = -1.0, float(np.mean(differences))
    for _ in range(_STEPS):  # wealth falls as the mean that is bet against rises, so bisection finds the bound
        middle = (low + high) / 2
        low, high = (middle, high) if _log_wealth(differences, middle) >= -np.log(level) else (low, middle)
    return low


@cache
def fewest_queries(margin: float) -> int:
    """Return how many queries are needed to show that *margin* is kept if no query differs."""
    # The half of the stake on c = 1 grows by 1 / (1 - margin) with each query, so alone it is enough after this many:
    enough = math.ceil(math.log(2 / LEVEL) / -math.log1p(-margin))
    return bisect_left(range(enough), True, key=lambda queries: _log_wealth(np.zeros(queries), -margin) >= -math.log(LEVEL))


def _log_wealth(differences: NDArray[np.float64], mean: float) -> float:
    """Return the logarithm of the wealth after betting a stake of 1 against a true mean of *mean* or less."""
    if mean <= -1:  # impossible for differences from -1 to 1, so any stake wins
        return np.inf
    changed, counts = np.unique(differences, return_counts=True)
    with np.errstate(divide="ignore"):  # a stake can be lost: -inf
        growth = np.log((1 - _SHARES)[:, np.newaxis] + _SHARES[:, np.newaxis] * (1 + changed) / (1 + mean))
    return float(np.logaddexp.reduce(growth @ counts + np.log(_STAKES)))
