"""The Bayesian bootstrap with an unseen query: tests and intervals of means that hold for skewed differences.

The Bayesian bootstrap (Rubin, Annals of Statistics 9, 1981) gives the queries random weights that sum to 1. All weights are
equally likely. It knows nothing of queries that the sample missed: if a system loses a little on most queries and wins rarely,
a small sample may have no win, and a bootstrap, a t test and a randomisation test call the system worse. So one more query
gets a weight, and it speaks against the claim (Gaffke 2005; Phan, Thomas and Learned-Miller, ICML 2021). If it has the worst
possible value, the bound is valid for all bounded values, and tests find little. Here it differs by `UNSEEN`, half of the
scale. The assumption is that queries of the kinds that the sample missed differ by no more than that on average.

p is twice the probability that the weighted mean is on the other side of 0. An interval ends where p would be 1 - level.
Weights are exponential variables divided by their sum, so both are tails of a sum of exponential variables. `lower_tail` takes
them from the saddlepoint approximation of Lugannani and Rice (Advances in Applied Probability 12, 1980); nothing is drawn.

`means` and `macro_means` draw queries with replacement, for statistics that are not means, e.g. ranks. All of this is about
other queries of the same kind; it says nothing about other documents or judgements.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.analysis.significance.randomisation import RESAMPLES, SEED, finite, shares_of_queries

UNSEEN = 0.5  # by how much a query that the sample missed may differ, for a measure from 0 to 1
DIFFERENCES = (-UNSEEN, UNSEEN)
SCORES = (0.0, 1.0)
ASSUMPTION = f"if queries unlike those seen differ by {UNSEEN:g} at most on average"  # of all tests and intervals here
_BLOCK = 1 << 20  # values at a time: 8 MB
_COUNTED = 4  # from this many systems on, counting the draws once for all is faster
_HALVINGS = 32  # of the range in which an end is: down to 1e-9 of it
_STEPS = 60  # towards a saddlepoint; a dozen are usual
_CLOSE = 1e-10  # of a saddlepoint, relative
_NEAR = 1e-4  # saddlepoints so near 0 that the formula is a difference of two large numbers; its limit is used

Values = NDArray[np.float64]


class _Pooled(NamedTuple):
    """Values of several datasets side by side, scaled so that the mean of a row is the mean over datasets."""

    rows: Values  # (rows, queries)
    scales: Values  # (queries,): what a difference of 1 on that query counts
    unseen: Values  # (datasets,): the same for the unseen query of each dataset
    largest: Values  # (rows,): the scale of the measure: 1, or the largest absolute value


def _pooled(datasets: Sequence[Values], weights: Sequence[float] | None = None) -> _Pooled:
    """Pool *datasets*, arrays (rows, queries).

    Each dataset's rows are moved to the mean over datasets, because how far datasets lie apart is not uncertain.
    """
    checked = [finite(one) for one in datasets]
    shares = shares_of_queries([one.shape[1] for one in checked], weights)
    means = [one.mean(axis=1, keepdims=True) for one in checked]
    overall = np.average(means, axis=0, weights=weights)
    rows = [(one - mean + overall) * share for one, mean, share in zip(checked, means, shares, strict=True)]
    scales = np.repeat(shares, [one.shape[1] for one in checked])
    largest = np.max([np.abs(one).max(axis=1, initial=1.0) for one in checked], axis=0)
    return _Pooled(np.concatenate(rows, axis=1), scales, shares, largest)


# ---- tests -----------------------------------------------------------------------------------------------------------------


def p_value(differences: Values) -> float:
    """Return the two-sided p that the mean of *differences* (queries,) is 0."""
    return macro_p_value([differences])


def macro_p_value(differences: Sequence[Values], weights: Sequence[float] | None = None) -> float:
    """Return the two-sided p that the mean of the means of *differences* (queries,), one array per dataset, is 0."""
    return float(_two_sided(_pooled([np.asarray(row)[np.newaxis] for row in differences], weights))[0])


def pairwise(datasets: Sequence[Values], weights: Sequence[float] | None = None) -> Values:
    """Return the p value of every two systems, as a symmetric matrix (systems, systems) with 1 on its diagonal.

    *datasets* are the scores (systems, queries) on each dataset. The test is of the mean over datasets with *weights*, by
    default equal ones. It is about other queries of these datasets, not about other datasets.
    """
    pooled = _pooled(datasets, weights)
    systems, queries = pooled.rows.shape
    ps = np.ones((systems, systems))
    pairs = np.array(list(combinations(range(systems), 2)), dtype=np.int64).reshape(-1, 2)
    step = max(1, _BLOCK // queries)
    for start in range(0, len(pairs), step):
        first, second = pairs[start : start + step].T
        largest = np.maximum(pooled.largest[first], pooled.largest[second])
        p = _two_sided(pooled._replace(rows=pooled.rows[first] - pooled.rows[second], largest=largest))
        ps[first, second] = ps[second, first] = p
    return ps


def _two_sided(differences: _Pooled) -> Values:
    """Return the two-sided p (rows,) that the mean of each row is 0."""
    against = np.outer(-UNSEEN * differences.largest, differences.unseen)
    tails = [lower_tail(np.hstack([sign * differences.rows, against])) for sign in (1, -1)]
    return np.asarray(np.minimum(1.0, 2 * np.minimum(*tails)))


# ---- intervals -------------------------------------------------------------------------------------------------------------


def interval(values: Values, *, level: float = 0.95, unseen: tuple[float, float] = DIFFERENCES) -> tuple[float, float]:
    """Return the interval of the mean of *values* (queries,): differences, or scores with *unseen* = `SCORES`."""
    low, high = intervals(np.asarray(values)[np.newaxis], level=level, unseen=unseen)[0]
    return float(low), float(high)


def intervals(values: Values, *, level: float = 0.95, unseen: tuple[float, float] = DIFFERENCES) -> Values:
    """Return the `interval` of every row of *values* (rows, queries), as (rows, 2)."""
    return _intervals(_pooled([values]), level, unseen)


def macro_interval(values: Sequence[Values], weights: Sequence[float] | None = None) -> tuple[float, float]:
    """Return the 95 % interval of the mean of the means of *values*, differences (queries,) for each dataset."""
    low, high = _intervals(_pooled([np.asarray(row)[np.newaxis] for row in values], weights), 0.95, DIFFERENCES)[0]
    return float(low), float(high)


def _intervals(pooled: _Pooled, level: float, unseen: tuple[float, float]) -> Values:
    ends = [_low_end(pooled._replace(rows=s * pooled.rows), s * end, level) for s, end in zip((1, -1), unseen, strict=True)]
    return np.stack([ends[0], -ends[1]], axis=1)


def _low_end(pooled: _Pooled, unseen: float, level: float) -> Values:
    """Return the lower ends (rows,): the means below which the weighted mean falls with probability (1 - *level*) / 2."""
    high = pooled.rows.mean(axis=1)
    low = np.minimum((pooled.rows / pooled.scales).min(axis=1), unseen * pooled.largest)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        beside = np.outer(unseen * pooled.largest - middle, pooled.unseen)
        below = lower_tail(np.hstack([pooled.rows - middle[:, np.newaxis] * pooled.scales, beside])) <= (1 - level) / 2
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(low)


# ---- sums of exponential variables -----------------------------------------------------------------------------------------


def lower_tail(factors: Values, counts: Values | None = None) -> Values:
    """Return the probability (rows,) that a sum of exponential variables times *factors* (rows, n) is not above 0.

    *counts* (n,) is how many variables have each factor; default: one.
    """
    low, high = factors.min(axis=1), factors.max(axis=1)
    tails = np.where(low >= 0, np.where(high > 0, 0.0, 1.0), 1.0)
    open_rows = np.flatnonzero((low < 0) & (high > 0))
    if len(open_rows):
        weights = np.ones(factors.shape[1]) if counts is None else counts
        tails[open_rows] = _tail_at_saddle(factors[open_rows], weights)
    return tails


def _tail_at_saddle(factors: Values, counts: Values) -> Values:
    """Return `lower_tail` of rows with factors of both signs, by the formula of Lugannani and Rice."""
    from scipy.special import ndtr  # here, because importing it takes a tenth of a second

    # The cumulant generating function is -sum(log(1 - s x factor)). Its derivative rises from -inf to inf between the poles.
    low, high = 1 / factors.min(axis=1), 1 / factors.max(axis=1)
    saddle = np.zeros(len(factors))
    for _ in range(_STEPS):
        terms = factors / (1 - saddle[:, np.newaxis] * factors)
        slope, curvature = terms @ counts, (terms * terms) @ counts
        low, high = np.where(slope < 0, saddle, low), np.where(slope < 0, high, saddle)
        newton = saddle - slope / curvature
        step = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
        done = np.abs(step - saddle) <= _CLOSE * np.abs(step)
        saddle = step
        if done.all():
            break
    terms = factors / (1 - saddle[:, np.newaxis] * factors)
    curvature, third = (terms * terms) @ counts, 2 * (terms**3) @ counts
    generating = -np.log1p(-saddle[:, np.newaxis] * factors) @ counts
    root = np.sign(saddle) * np.sqrt(np.maximum(-2 * generating, 0))
    scaled = saddle * np.sqrt(curvature)
    near = np.abs(scaled) < _NEAR
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.where(near, third / (6 * curvature**1.5), 1 / root - 1 / scaled)
    return np.asarray(np.clip(ndtr(root) + apart * np.exp(-(root**2) / 2) / np.sqrt(2 * np.pi), 0.0, 1.0))


# ---- resamples -------------------------------------------------------------------------------------------------------------


def macro_means(values: Sequence[Values], weights: Sequence[float] | None = None, *, resamples: int = RESAMPLES) -> Values:
    """Return the macro means (resamples, systems) of *values*, one array (systems, queries) per dataset, in every resample.

    The bootstrap is stratified: each dataset's queries are drawn separately, so that every dataset keeps its weight in the
    macro mean (*weights*, or all equal) in every resample.
    """
    seeds = np.random.SeedSequence(SEED).spawn(len(values))
    drawn = [means(rows, resamples=resamples, seed=seed) for rows, seed in zip(values, seeds, strict=True)]
    return np.asarray(np.average(drawn, axis=0, weights=weights))


def means(values: Values, *, resamples: int = RESAMPLES, seed: int | np.random.SeedSequence = SEED) -> Values:
    """Return the means of every row of *values* (systems, queries) in every resample, as (resamples, systems)."""
    checked = finite(values)
    queries = checked.shape[1]
    sums = _sums_by_lookup if len(checked) < _COUNTED else _sums_by_count
    return np.concatenate([sums(drawn, checked) / queries for drawn in _draws(queries, resamples, seed)])


def _draws(queries: int, resamples: int, seed: int | np.random.SeedSequence) -> Iterator[NDArray[np.int64]]:
    """Yield blocks (n, queries) of queries drawn with replacement, *resamples* rows in all."""
    rng = np.random.default_rng(seed)
    rows = max(1, _BLOCK // queries)
    for start in range(0, resamples, rows):
        yield rng.integers(0, queries, (min(rows, resamples - start), queries))


def _sums_by_lookup(drawn: NDArray[np.int64], values: Values) -> Values:
    """Return the sums (n, systems) of *values* (systems, queries) over the rows of *drawn* (n, queries)."""
    return np.stack([row[drawn].sum(axis=1) for row in values], axis=1)


def _sums_by_count(drawn: NDArray[np.int64], values: Values) -> Values:
    """Return the same sums as `_sums_by_lookup` by one matrix product, from how often each query was drawn."""
    count, queries = drawn.shape
    places = drawn + np.arange(count)[:, np.newaxis] * queries
    counts = np.bincount(places.ravel(), minlength=count * queries).reshape(count, queries)
    return np.asarray(counts.astype(np.float64) @ values.T)
