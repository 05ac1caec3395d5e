"""Bootstrap percentile intervals for means over queries (Efron and Tibshirani 1993, chapter 13).

A resample draws as many queries as there are, with replacement. The intervals are about other queries of the same kind; they
say nothing about other documents or judgements.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from lexbench.analysis.significance.randomisation import RESAMPLES, SEED, finite

_BLOCK = 1 << 20  # draws at a time: 8 MB
_COUNTED = 4  # from this many systems on, counting the draws once for all is faster


def interval(values: NDArray[np.float64], *, level: float = 0.95) -> tuple[float, float]:
    """Return the percentile interval of the mean of *values* (queries,), which may be differences."""
    low, high = intervals(np.asarray(values)[np.newaxis], level=level)[0]
    return float(low), float(high)


def intervals(values: NDArray[np.float64], *, level: float = 0.95) -> NDArray[np.float64]:
    """Return the `interval` of every row of *values* (systems, queries), as (systems, 2). All rows share their draws."""
    return _percentiles(means(values), level).T


def macro_interval(values: Sequence[NDArray[np.float64]], weights: Sequence[float] | None = None) -> tuple[float, float]:
    """Return the 95 % interval of the mean of the means of *values*, one array (queries,) per dataset."""
    low, high = _percentiles(macro_means([row[np.newaxis] for row in values], weights), 0.95)[:, 0]
    return float(low), float(high)


def macro_means(
    values: Sequence[NDArray[np.float64]], weights: Sequence[float] | None = None, *, resamples: int = RESAMPLES
) -> NDArray[np.float64]:
    """Return the macro means (resamples, systems) of *values*, one array (systems, queries) per dataset, in every resample.

    The bootstrap is stratified: each dataset's queries are drawn separately, so that every dataset keeps its weight in the
    macro mean (*weights*, or all equal) in every resample.
    """
    seeds = np.random.SeedSequence(SEED).spawn(len(values))
    drawn = [means(rows, resamples=resamples, seed=seed) for rows, seed in zip(values, seeds, strict=True)]
    return np.asarray(np.average(drawn, axis=0, weights=weights))


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


def _percentiles(resampled: NDArray[np.float64], level: float) -> NDArray[np.float64]:
    tail = 50 * (1 - level)
    return np.asarray(np.percentile(resampled, [tail, 100 - tail], axis=0))
