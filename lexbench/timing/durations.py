"""Statistics of durations (passes, queries) in nanoseconds: latencies, queries per second, and ratios of systems.

A query's latency is its median over the passes, so that one interruption costs nothing; it is never the best pass. A percentile
needs ten queries beyond it, similar to MLPerf Inference. Two systems are compared query by query. A difference must exceed the
machine's noise floor, because two measurements of one system differ as well; `benchmarks/timing.py` measures that floor.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.results import Latency

_NS = 1e9
_BEYOND = 10  # queries
_NOISY = 0.05  # coefficient of variation of the passes' medians
_NUMBERS = 1 << 22  # numbers in memory at a time

Durations = NDArray[np.int64]


def latency(durations: Durations) -> Latency:
    """Return the latency of one stage, in seconds, from *durations* (passes, queries) in nanoseconds."""
    medians = np.median(durations, axis=0) / _NS
    return Latency(
        p50=float(np.median(medians)), p95=_percentile(medians, 95), p99=_percentile(medians, 99), mean=float(medians.mean())
    )


def _percentile(values: NDArray[np.float64], percent: int) -> float | None:
    """Return a percentile of *values*; None if fewer than ten lie beyond it."""
    if len(values) * (100 - percent) < _BEYOND * 100:
        return None
    return float(np.percentile(values, percent))


def rate(durations: Durations, queries: int) -> float:
    """Return the queries per second of the median pass, from the *durations* (passes, blocks) of *queries* queries."""
    return float(queries / np.median(durations.sum(axis=1)) * _NS)


def overhead(null: Durations, e2e: Durations) -> float:
    """Return the harness's share of a query's p50; *null* are durations of the same loop over ready answers."""
    return latency(null).p50 / latency(e2e).p50


def variation(durations: Durations) -> float:
    """Return how much passes differ: the coefficient of variation of their medians."""
    medians = np.median(durations, axis=1)
    return float(medians.std() / medians.mean())


def unsteady(durations: Durations) -> str | None:
    """Return a line if passes differ by more than 5 %."""
    share = variation(durations)
    return f"passes differ by {share:.0%} (coefficient of variation)" if share > _NOISY else None


class Ratio(NamedTuple):
    """How much slower the first system is than the second: 1.1 is 10 %."""

    ratio: float
    low: float
    high: float

    def beyond(self, floor: float) -> bool:
        """Whether it is a difference: the interval excludes 1, and the ratio differs from 1 by more than *floor*, e.g. .02."""
        return (self.low > 1 or self.high < 1) and abs(self.ratio - 1) > floor


def ratio_of_medians(
    first: Durations, second: Durations, *, level: float = 0.95, resamples: int = 10_000, seed: int = 42
) -> Ratio:
    """Return the ratio of the p50s of two systems with its paired bootstrap interval.

    *first* and *second* are durations (passes, queries) of the same queries in the same order; the numbers of passes may be
    different. Queries are drawn with replacement, the same ones for both. Raises ValueError if the numbers of queries differ.
    """
    above, below = np.median(first, axis=0), np.median(second, axis=0)
    if above.shape != below.shape:
        raise ValueError(f"{len(above)} and {len(below)} queries are no pairs")
    generator = np.random.default_rng(seed)
    ratios = []
    rows = max(1, _NUMBERS // len(above))
    for start in range(0, resamples, rows):
        drawn = generator.integers(0, len(above), (min(rows, resamples - start), len(above)))
        ratios.append(np.median(above[drawn], axis=1) / np.median(below[drawn], axis=1))
    low, high = np.quantile(np.concatenate(ratios), [(1 - level) / 2, (1 + level) / 2]).tolist()
    return Ratio(float(np.median(above) / np.median(below)), low, high)
