"""Whether a system is no worse than another by more than a margin: a test that holds for any number of queries.

Variants of one system (top-K, quantised, pruned) differ on few queries, and lose much on fewer. A bootstrap draws nothing but
what it has seen, so where the queries that lose are not among those at hand it takes their absence for proof: of a system that
loses 1.0 on one query in 200 it says at 50 queries in 78 % of cases that it is no worse by .005. What follows is valid whatever
the differences are, as long as they lie in [-1, 1] and the queries are drawn independently from the same kind.

It is a bet. If the true mean of the differences were -margin, then for every share c from 0 to 1 a stake that each query
multiplies by (1 - c) + c (1 + difference) / (1 - margin) would be worth 1 on average in the end and so, by Markov's
inequality, reach 20 in at most one case of 20: 1 / wealth is a p value. The stake is divided: half goes on c = 1, which is
best where nothing is lost, and half evenly over other shares. The order of the queries does not matter. See Waudby-Smith and
Ramdas, "Estimating means of bounded random variables by betting", JRSS B 86, 2024.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lexbench.analysis.significance.randomisation import LEVEL

_SHARES = np.append(np.arange(1, 64) / 64, 1.0)
_STAKES = np.append(np.full(63, 0.5 / 63), 0.5)  # on each share; they sum to 1
_STEPS = 40  # of a bisection of [-1, 1]: to 2e-12


@dataclass(frozen=True)
class NonInferiority:
    """Whether a system is no worse than another by more than a margin; units are the measure's, positive is better."""

    difference: float  # mean
    bound: float  # the difference is above it with confidence 1 - level
    margin: float
    p: float  # of a true difference of -margin or less
    holds: bool  # whether p is at most the level


def noninferiority(differences: NDArray[np.float64], margin: float, *, level: float = LEVEL) -> NonInferiority:
    """Test that the mean of *differences* (queries,), system minus baseline, is above -*margin* (in the measure's units).

    A test that finds no difference does not show it: with few queries it finds nothing. Here the burden is the other way round,
    and few queries make the claim harder; see `fewest_queries`. ValueError for a margin that is not between 0 and 1, and for
    differences that are not in [-1, 1].
    """
    values = np.asarray(differences, dtype=np.float64)
    if not 0 < margin < 1:
        raise ValueError(f"a margin is above 0 and below 1, not {margin}")
    if not values.size or not np.all(np.abs(values) <= 1):
        raise ValueError("a margin takes at least one query, and differences from -1 to 1")
    p = float(np.exp(-max(_log_wealth(values, -margin), 0.0)))
    return NonInferiority(float(values.mean()), lower_bound(values, level=level), margin, p, p <= level)


def lower_bound(differences: NDArray[np.float64], *, level: float = LEVEL) -> float:
    """Return what the mean of *differences* (queries,), each in [-1, 1], is above with confidence 1 - *level*."""
    low, high = -1.0, float(np.mean(differences))
    for _ in range(_STEPS):  # wealth falls as the mean that is bet against rises
        middle = (low + high) / 2
        low, high = (middle, high) if _log_wealth(differences, middle) >= -np.log(level) else (low, middle)
    return low


def fewest_queries(margin: float, *, level: float = LEVEL) -> int:
    """Return how many queries it takes to show that *margin* is kept if not one of them differs."""
    low, high = 0, 1
    while _log_wealth(np.zeros(high), -margin) < -np.log(level):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _log_wealth(np.zeros(middle), -margin) >= -np.log(level) else (middle, high)
    return high


def _log_wealth(differences: NDArray[np.float64], mean: float) -> float:
    """Return the logarithm of what a stake of 1 against a true mean of *mean* or less has become."""
    changed, counts = np.unique(differences, return_counts=True)
    with np.errstate(divide="ignore"):  # a stake can be lost: -inf
        growth = np.log((1 - _SHARES)[:, np.newaxis] + _SHARES[:, np.newaxis] * (1 + changed) / (1 + mean))
    return float(np.logaddexp.reduce(growth @ counts + np.log(_STAKES)))
