"""The paired randomisation test, and corrections for many comparisons.

The test is Fisher's, by sign flips (Smucker, Allan and Carterette, CIKM 2007). If two systems were the same, either could have
had either score of a query, so every difference could as well have the other sign. p is how often random signs give a mean at
least as far from 0 as the observed one. The observed signs count as one of the draws (Phipson and Smyth 2010), so p is never 0.
If few queries differ, all combinations of signs are tried, and p is exact.

It is exact for two runs of one system, e.g. in `lexbench gate`. For systems that differ but have the same mean it assumes that
differences are symmetric; `lexbench.analysis.significance.bootstrap` does not.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

SEED = 42
RESAMPLES = 10_000
LEVEL = 0.05  # of all tests
POWER = 0.8  # with which a detectable difference is found
_BLOCK = 1 << 20  # values in a block of resamples: 8 MB as float64
_LEAST = 2  # queries with a standard deviation
_EQUAL = 1e-12  # sums closer than this share of their absolute terms are equal, up to the order of the additions


def p_value(differences: NDArray[np.float64], *, resamples: int = RESAMPLES, seed: int = SEED) -> float:
    """Return the two-sided p that the mean of *differences* (queries,) is 0."""
    values = finite(differences)
    changed = values[values != 0]
    if 2 ** len(changed) <= resamples:
        return _exact(changed)
    sums = np.concatenate([bits @ values for bits in _bits(len(values), resamples, seed)])
    return _p_of_draws(np.abs(2 * sums - values.sum()), abs(values.sum()), float(np.abs(values).sum()))


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


def queries_needed(differences: NDArray[np.float64], difference: float, *, level: float = LEVEL) -> int:
    """Return how many queries this test needs to find a mean of *difference*, if they vary like *differences* (queries,).

    The smallest number for which (t[1 - level/2] + t[power]) x s / sqrt(queries) is at most *difference*, with quantiles of
    Student's t at queries - 1 degrees of freedom, the observed standard deviation s and power .8: the minimum detectable effect
    of Bloom (Evaluation Review 19, 1995), for paired values.
    """
    deviation = float(np.std(differences, ddof=1))

    def detectable(queries: int) -> float:
        multiplier = student_quantile(1 - level / 2, queries - 1) + student_quantile(POWER, queries - 1)
        return multiplier * deviation / math.sqrt(queries)

    sizes = range(_LEAST, 1 << 40)
    return _LEAST + bisect_left(sizes, True, key=lambda queries: detectable(queries) <= difference)


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


def stratified(values: Sequence[NDArray[np.float64]], weights: Sequence[float] | None = None) -> NDArray[np.float64]:
    """Return the values (systems, queries) of several datasets side by side, scaled so that means are macro means.

    A randomisation test of these values draws a sign per query within each dataset, so it tests the mean over datasets. It
    assumes that queries are independent, and it is about other queries of these datasets, not about other datasets. *weights*
    are the shares of the datasets; the default is equal shares.
    """
    shares = shares_of_queries([one.shape[1] for one in values], weights)
    return np.concatenate([one * share for one, share in zip(values, shares, strict=True)], axis=1)


def shares_of_queries(queries: Sequence[int], weights: Sequence[float] | None = None) -> NDArray[np.float64]:
    """Return by how much a query of each dataset (datasets,) counts more than one of all queries, in the mean over datasets.

    *queries* is how many each dataset has, *weights* are the shares of the datasets; default: equal shares.
    """
    shares = np.ones(len(queries)) if weights is None else np.asarray(weights, dtype=np.float64)
    return np.asarray(shares / shares.sum() * sum(queries) / np.asarray(queries))
