"""Bootstrap intervals for means over queries and for differences of means.

A resample draws as many queries as there are, with replacement. The intervals are about other queries of the same kind; they
say nothing about other documents or judgements. Means have percentile intervals (Efron and Tibshirani 1993, chapter 13).
Differences have symmetric bootstrap-t intervals (Hall, JRSS B 50, 1988). Both end in the mean plus or minus its standard error
times a number, and the number comes from the resamples: how many of their own standard errors they are off. If a system wins
rarely, many resamples lack its wins, and percentiles are too narrow: see `benchmarks/significance.py --simulate`.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from lexbench.analysis.significance.randomisation import RESAMPLES, SEED, finite

_BLOCK = 1 << 20  # draws at a time: 8 MB
_COUNTED = 4  # from this many systems on, counting the draws once for all is faster
_LEAST_ERROR = 0.2  # of a resample, as a share of the sample's: one of equal queries has none, and would be infinitely far off


def interval(values: NDArray[np.float64], *, level: float = 0.95) -> tuple[float, float]:
    """Return the percentile interval of the mean of *values* (queries,), which may be differences."""
    low, high = intervals(np.asarray(values)[np.newaxis], level=level)[0]
    return float(low), float(high)


def intervals(values: NDArray[np.float64], *, level: float = 0.95) -> NDArray[np.float64]:
    """Return the `interval` of every row of *values* (systems, queries), as (systems, 2). All rows share their draws."""
    tail = 50 * (1 - level)
    return np.asarray(np.percentile(means(values), [tail, 100 - tail], axis=0)).T


def difference_interval(differences: NDArray[np.float64], *, level: float = 0.95) -> tuple[float, float]:
    """Return the symmetric bootstrap-t interval of the mean of *differences* (queries,)."""
    low, high = difference_intervals(np.asarray(differences)[np.newaxis], level=level)[0]
    return float(low), float(high)


def difference_intervals(
    differences: NDArray[np.float64], *, level: float = 0.95, resamples: int = RESAMPLES
) -> NDArray[np.float64]:
    """Return the `difference_interval` of every row of *differences* (pairs, queries), as (pairs, 2)."""
    return _studentised([np.asarray(differences, np.float64)], [1.0], level, resamples)


def macro_difference_interval(
    differences: Sequence[NDArray[np.float64]], weights: Sequence[float] | None = None
) -> tuple[float, float]:
    """Return the interval of the mean of the means of *differences*, one array (queries,) per dataset.

    The bootstrap is stratified, like that of `macro_means`.
    """
    shares = np.ones(len(differences)) if weights is None else np.asarray(weights, np.float64)
    rows = [np.asarray(one, np.float64)[np.newaxis] for one in differences]
    low, high = _studentised(rows, (shares / shares.sum()).tolist(), 0.95, RESAMPLES)[0]
    return float(low), float(high)


def _studentised(
    strata: Sequence[NDArray[np.float64]], shares: Sequence[float], level: float, resamples: int
) -> NDArray[np.float64]:
    """Return the intervals (rows, 2) of the weighted mean of the means of *strata*, one array (rows, queries) per dataset."""
    rows = len(strata[0])
    spawned = np.random.SeedSequence(SEED).spawn(len(strata))
    seeds: Sequence[int | np.random.SeedSequence] = [SEED] if len(strata) == 1 else spawned
    observed, drawn = np.zeros(rows), np.zeros((resamples, rows))
    variance, of_drawn = np.zeros(rows), np.zeros((resamples, rows))  # of the mean
    for values, share, seed in zip(strata, shares, seeds, strict=True):
        both = means(np.concatenate([values, values**2]), resamples=resamples, seed=seed)
        first, second = both[:, :rows], both[:, rows:]
        freedom = max(values.shape[1] - 1, 1)
        observed += share * values.mean(axis=1)
        drawn += share * first
        variance += share**2 * values.var(axis=1) / freedom
        of_drawn += share**2 * np.maximum(second - first**2, 0) / freedom
    error = np.sqrt(variance)
    errors = np.maximum(np.sqrt(of_drawn), _LEAST_ERROR * error)
    distances = np.divide(np.abs(drawn - observed), errors, out=np.zeros_like(drawn), where=errors > 0)
    half = np.percentile(distances, 100 * level, axis=0) * error
    return np.stack([observed - half, observed + half], axis=1)


def macro_means(values: Sequence[NDArray[np.float64]], *, resamples: int) -> NDArray[np.float64]:
    """Return the macro means (resamples, systems) of *values*, one array (systems, queries) per dataset, in every resample.

    The bootstrap is stratified: each dataset's queries are drawn separately, so that every dataset has the same weight in
    every resample.
    """
    seeds = np.random.SeedSequence(SEED).spawn(len(values))
    drawn = [means(rows, resamples=resamples, seed=seed) for rows, seed in zip(values, seeds, strict=True)]
    return np.asarray(np.mean(drawn, axis=0))


def means(
    values: NDArray[np.float64], *, resamples: int = RESAMPLES, seed: int | np.random.SeedSequence = SEED
) -> NDArray[np.float64]:
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


def _sums_by_lookup(drawn: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums (n, systems) of *values* (systems, queries) over the rows of *drawn* (n, queries)."""
    return np.stack([row[drawn].sum(axis=1) for row in values], axis=1)


def _sums_by_count(drawn: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the same sums as `_sums_by_lookup` by one matrix product, from how often each query was drawn."""
    count, queries = drawn.shape
    places = drawn + np.arange(count)[:, np.newaxis] * queries
    counts = np.bincount(places.ravel(), minlength=count * queries).reshape(count, queries)
    return np.asarray(counts.astype(np.float64) @ values.T)
