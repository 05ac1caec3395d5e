"""What tests of all pairs of systems can tell: ranks, detectable differences, and how many queries a difference takes.

The test is that of `lexbench.analysis.significance.bootstrap`, which counts an unseen query.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.analysis.significance.bootstrap import UNSEEN, lower_tail, pairwise
from lexbench.analysis.significance.randomisation import LEVEL, POWER, holm, student_quantile
from lexbench.errors import listed

FEW = 30  # queries
SKEWED = 3.0  # absolute skewness, from which the percentile bootstrap and the t test reject too often at 115 queries
_FEWEST = 2  # queries with a standard deviation
_MOST = 1 << 40  # queries
_HALVINGS = 14
_LISTED = 3  # names in a note
_EQUAL = 1e-12  # standard deviation of equal values


class Ranking(NamedTuple):
    """Tests of all pairs of systems."""

    ps: NDArray[np.float64]  # (systems, systems) corrected by Holm over all pairs; symmetric, 1 on the diagonal
    better: NDArray[np.bool_]  # (systems, systems): [i, j] if i is significantly better than j
    ranks: tuple[tuple[int, int], ...]  # per system the best and the worst rank that the tests leave possible


def ranking(datasets: Sequence[NDArray[np.float64]], weights: Sequence[float] | None = None) -> Ranking:
    """Test every two systems on the mean over *datasets*, scores (systems, queries), and return their ranks.

    p is corrected by Holm over all pairs, so all ranks hold together with probability .95.
    """
    pairs = list(combinations(range(len(datasets[0])), 2))
    ps = pairwise(datasets, weights)
    for (first, second), p in zip(pairs, holm([float(ps[pair]) for pair in pairs]), strict=True):
        ps[first, second] = ps[second, first] = p
    means = np.average([one.mean(axis=1) for one in datasets], axis=0, weights=weights)
    better = (ps < LEVEL) & (means[:, np.newaxis] > means)
    systems = range(len(means))
    return Ranking(ps, better, tuple((1 + int(better[:, at].sum()), len(means) - int(better[at].sum())) for at in systems))


def minimum_detectable(differences: NDArray[np.float64], *, level: float = LEVEL) -> float:
    """Return the smallest mean of *differences* (queries,) that a two-sided test at *level* finds with power .8.

    It is the mean at which differences that vary like these are just significant, plus t[.8] x s / sqrt(queries), with the
    observed standard deviation s and a quantile of Student's t at queries - 1 degrees of freedom. Without an unseen query that
    is the minimum detectable effect of Bloom (Evaluation Review 19, 1995), for paired values. In the units of the measure, for
    one comparison; a corrected family detects less. Infinite for one query.
    """
    values = np.asarray(differences, dtype=np.float64)
    if len(values) < _FEWEST:
        return math.inf
    centred = values - values.mean()
    low, high = 0.0, float(np.abs(values).max()) or UNSEEN
    while not _significant(centred, high, level):
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if _significant(centred, middle, level) else (middle, high)
    return high + student_quantile(POWER, len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))


def queries_needed(differences: NDArray[np.float64], difference: float, *, level: float = LEVEL) -> int:
    """Return how many queries a test needs to find a mean of *difference* with power .8, if they vary like *differences*."""
    values = np.asarray(differences, dtype=np.float64)
    centred, deviation = values - values.mean(), float(values.std(ddof=1))

    def found(queries: int) -> bool:
        least = difference - student_quantile(POWER, queries - 1) * deviation / math.sqrt(queries)
        return least > 0 and _significant(centred, least, level, queries)

    return _FEWEST + bisect_left(range(_FEWEST, _MOST), True, key=found)


def _significant(centred: NDArray[np.float64], mean: float, level: float, queries: int = 0) -> bool:
    """Return whether a difference of *mean* is significant in both directions, if differences vary like *centred*.

    *queries* is how many there are; default: as many as in *centred*.
    """
    rows = np.stack([np.append(sign * centred + mean, -UNSEEN) for sign in (1, -1)])
    counts = np.append(np.full(len(centred), (queries or len(centred)) / len(centred)), 1.0)
    return bool((lower_tail(rows, counts) <= level / 2).all())


def cautions(dataset: str, differences: Mapping[str, NDArray[np.float64]]) -> Iterator[str]:
    """Yield notes if *dataset* has few queries, or if *differences* (queries,) between systems, by name, are skewed."""
    queries = min(map(len, differences.values()), default=FEW)
    if queries < FEW:
        yield f"{dataset}: with {queries} queries (fewer than {FEW}) only large differences are significant"
    skewed = {name: skew for name, row in differences.items() if (skew := skewness(row)) > SKEWED}
    if skewed:
        yield (
            f"{dataset}: a few queries decide the difference, so more queries may change it: "
            f"{listed(list(skewed), _LISTED)} (skewness up to {max(skewed.values()):.1f})"
        )


def skewness(differences: NDArray[np.float64]) -> float:
    """Return the absolute skewness of *differences* (queries,): 0 if they are symmetric, or all equal."""
    centred = differences - differences.mean()
    deviation = float(np.sqrt(np.mean(centred**2)))
    return abs(float(np.mean(centred**3))) / deviation**3 if deviation > _EQUAL else 0.0
