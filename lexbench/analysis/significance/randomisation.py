"""The paired randomisation test, corrections for many comparisons, detectable differences, and ranks.

The test is Fisher's, by sign flips (Smucker, Allan and Carterette, CIKM 2007). If two systems were the same, either could have
had either score of a query, so every difference could as well have the other sign. p is how often random signs give a mean at
least as far from 0 as the observed one. The observed signs count as one of the draws (Phipson and Smyth 2010), so p is never 0.
If few queries differ, all combinations of signs are tried, and p is exact.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SEED = 42
RESAMPLES = 10_000
LEVEL = 0.05  # of all tests
_BLOCK = 1 << 20  # values in a block of resamples: 8 MB as float64
_EQUAL = 1e-12  # sums closer than this share of their absolute terms are equal, up to the order of the additions
_LEAST = 2  # queries with a standard deviation
_POWER = 0.8


def p_value(differences: NDArray[np.float64], *, resamples: int = RESAMPLES, seed: int = SEED) -> float:
    """Return the two-sided p that the mean of *differences* (queries,) is 0."""
    values = finite(differences)
    changed = values[values != 0]
    if 2 ** len(changed) <= resamples:
        return _exact(changed)
    sums = np.concatenate([bits @ values for bits in _bits(len(values), resamples, seed)])
    return _p_of_draws(np.abs(2 * sums - values.sum()), abs(values.sum()), float(np.abs(values).sum()))


def pairwise(scores: NDArray[np.float64], *, resamples: int = RESAMPLES) -> NDArray[np.float64]:
    """Return the p value of every two rows of *scores* (systems, queries), as a symmetric matrix with 1 on its diagonal.

    All pairs share the same random signs, so all of them cost one matrix product.
    """
    values = finite(scores)
    systems, queries = values.shape
    sums = np.concatenate([bits @ values.T for bits in _bits(queries, resamples, SEED)])  # (resamples, systems)
    centred = 2 * sums - values.sum(axis=1)
    ps = np.ones((systems, systems))
    for one, other in combinations(range(systems), 2):
        difference = values[one] - values[other]
        changed = difference[difference != 0]
        if 2 ** len(changed) <= resamples:
            p = _exact(changed)
        else:
            added = float(np.abs(values[one]).sum() + np.abs(values[other]).sum())
            p = _p_of_draws(np.abs(centred[:, one] - centred[:, other]), abs(difference.sum()), added)
        ps[one, other] = ps[other, one] = p
    return ps


def resamples_for(comparisons: int, level: float = LEVEL) -> int:
    """Return how many resamples keep the smallest possible p below *level* after correction for *comparisons*.

    10,000 for up to 250 comparisons. With 10,000 for 500 or more, not even the clearest difference could be significant.
    """
    return max(RESAMPLES, math.ceil(2 * comparisons / level))


def holm(ps: Sequence[float]) -> list[float]:
    """Return *ps* corrected by Holm's step-down method (1979), in the given order.

    The probability that any true null hypothesis of the family is rejected is at most the level, for any dependence.
    """
    order = np.argsort(ps, kind="stable")
    stepped = np.maximum.accumulate([(len(ps) - rank) * ps[at] for rank, at in enumerate(order)]) if len(ps) else np.zeros(0)
    corrected = np.empty(len(ps))
    corrected[order] = np.minimum(stepped, 1.0)
    return [float(p) for p in corrected]


def minimum_detectable(differences: NDArray[np.float64], *, level: float = LEVEL) -> float:
    """Return the smallest mean of *differences* (queries,) that a paired two-sided test at *level* finds with power .8.

    (t[1 - level/2] + t[power]) x s / sqrt(queries), with quantiles of Student's t at queries - 1 degrees of freedom and the
    observed standard deviation s: the minimum detectable effect of Bloom (Evaluation Review 19, 1995), for paired values. In
    the units of the measure, for one comparison; a corrected family detects less. Infinite for one query.
    """
    values = np.asarray(differences, dtype=np.float64)
    return _detectable(float(values.std(ddof=1)), len(values), level) if len(values) >= _LEAST else math.inf


def queries_needed(differences: NDArray[np.float64], difference: float, *, level: float = LEVEL) -> int:
    """Return how many queries a test needs to find a mean of *difference*, if they vary like *differences* (queries,).

    The smallest number for which `minimum_detectable` is at most *difference*, with the observed standard deviation.
    """
    deviation = float(np.std(differences, ddof=1))
    sizes = range(_LEAST, 1 << 40)
    return _LEAST + bisect_left(sizes, True, key=lambda queries: _detectable(deviation, queries, level) <= difference)


def _detectable(deviation: float, queries: int, level: float) -> float:
    multiplier = student_quantile(1 - level / 2, queries - 1) + student_quantile(_POWER, queries - 1)
    return multiplier * deviation / math.sqrt(queries)


@cache
def student_quantile(share: float, freedom: float) -> float:
    """Return the quantile *share* of Student's t distribution with *freedom* degrees of freedom."""
    from scipy.special import stdtrit  # what scipy.stats.t.ppf calls, without the half second to import scipy.stats

    return float(stdtrit(freedom, share))


def finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return *values* as float64. Raises ValueError if they are empty or not all finite."""
    checked = np.asarray(values, dtype=np.float64)
    if not checked.size or not np.isfinite(checked).all():
        raise ValueError("a test and a bootstrap take at least one query, and finite values")
    return checked


def _bits(queries: int, resamples: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """Yield blocks (n, queries) of random 0 and 1, *resamples* rows in all: which differences keep their sign."""
    rng = np.random.default_rng(seed)
    width = -(-queries // 8)
    rows = max(1, _BLOCK // queries)
    for start in range(0, resamples, rows):
        count = min(rows, resamples - start)
        packed = np.frombuffer(rng.bytes(count * width), dtype=np.uint8).reshape(count, width)
        yield np.unpackbits(packed, axis=1, count=queries).astype(np.float64)


def _p_of_draws(resampled: NDArray[np.float64], observed: float, added: float) -> float:
    """Return the share of sums at least as far from 0 as *observed*, which counts as one of the draws.

    *added* is the sum of the absolute terms, relative to which sums are compared.
    """
    extreme = int(np.count_nonzero(resampled >= observed - _EQUAL * added))
    return (1 + extreme) / (1 + len(resampled))


def _exact(changed: NDArray[np.float64]) -> float:
    """Return p over all signs of the nonzero differences *changed*."""
    sums = np.zeros(1)
    for value in changed:
        sums = np.concatenate([sums + value, sums - value])
    return float(np.mean(np.abs(sums) >= abs(changed.sum()) - _EQUAL * np.abs(changed).sum()))


class PairedTests(NamedTuple):
    """Tests of all pairs of systems."""

    ps: NDArray[np.float64]  # (systems, systems) corrected by Holm over all pairs; symmetric, 1 on the diagonal
    better: NDArray[np.bool_]  # (systems, systems): [i, j] if i is significantly better than j
    ranks: tuple[tuple[int, int], ...]  # per system the best and the worst rank that the tests leave possible
    floor: float  # the smallest corrected p that these resamples can show


def ranking(scores: NDArray[np.float64]) -> PairedTests:
    """Test every two rows of *scores* (systems, queries), of one dataset or `stratified`, and return their ranks.

    p is that of the paired randomisation test, corrected by Holm over all pairs, so all ranks hold together with probability
    .95. The number of resamples suits the number of pairs: 10,000 for up to 22 systems, 49,000 for 50.
    """
    pairs = list(combinations(range(len(scores)), 2))
    drawn = resamples_for(len(pairs))
    ps = pairwise(scores, resamples=drawn)
    for (first, second), p in zip(pairs, holm([float(ps[pair]) for pair in pairs]), strict=True):
        ps[first, second] = ps[second, first] = p
    means = np.mean(scores, axis=1)
    better = (ps < LEVEL) & (means[:, np.newaxis] > means)
    ranks = tuple((1 + int(better[:, at].sum()), len(scores) - int(better[at].sum())) for at in range(len(scores)))
    return PairedTests(ps, better, ranks, len(pairs) / (drawn + 1))


def stratified(values: Sequence[NDArray[np.float64]], weights: Sequence[float] | None = None) -> NDArray[np.float64]:
    """Return the values (systems, queries) of several datasets side by side, scaled so that means are macro means.

    A test of these values draws a sign per query within each dataset, so it tests the mean over datasets. It assumes that
    queries are independent, and it is about other queries of these datasets, not about other datasets. *weights* are the shares
    of the datasets; the default is equal shares.
    """
    shares = [1 / len(values)] * len(values) if weights is None else weights
    total = sum(one.shape[1] for one in values)
    return np.concatenate([one * (share * total / one.shape[1]) for one, share in zip(values, shares, strict=True)], axis=1)
