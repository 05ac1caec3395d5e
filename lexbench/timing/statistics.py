"""Statistics of durations: (passes, queries) nanoseconds in, latencies, queries a second and ratios of systems out.

A query's latency is its median over the passes, so that one interruption costs nothing; never its best. A percentile is told
only where ten queries or more lie beyond it (MLPerf Inference asks for likewise). Two systems are compared by query, and a
difference must exceed the machine's own: two measurements of the same system differ, too (another process, other memory,
another neighbour on the machine). How much is the noise floor, which `benchmarks/timing.py` measures.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.results import Latency

_NS = 1e9
_BEYOND = 10  # queries
_NOISY = 0.05  # coefficient of variation of the passes' medians
_NUMBERS = 1 << 22  # in memory at a time

Durations = NDArray[np.int64]


def latency(durations: Durations) -> Latency:
    """Return what one stage takes, in seconds, of *durations* (passes, queries) in nanoseconds."""
    medians = np.median(durations, axis=0) / _NS
    return Latency(
        p50=float(np.median(medians)),
        p95=_percentile(medians, 95),
        p99=_percentile(medians, 99),
        mean=float(medians.mean()),
    )


def _percentile(values: NDArray[np.float64], percent: int) -> float | None:
    """Return a percentile of *values*; None where fewer than ten lie beyond it."""
    if len(values) * (100 - percent) < _BEYOND * 100:
        return None
    return float(np.percentile(values, percent))


def rate(durations: Durations, queries: int) -> float:
    """Return queries a second of *durations* (passes, blocks) that *queries* took: of the median pass, its blocks in turn."""
    return float(queries / np.median(durations.sum(axis=1)) * _NS)


def overhead(null: Durations, e2e: Durations) -> float:
    """Return which share of a query's p50 is the harness's own: the same loop's over answers that are there already."""
    return latency(null).p50 / latency(e2e).p50


def variation(durations: Durations) -> float:
    """Return how much passes differ: the coefficient of variation of their medians."""
    medians = np.median(durations, axis=1)
    return float(medians.std() / medians.mean())


def unsteady(durations: Durations) -> str | None:
    """Return a line where passes differ by more than 5 %."""
    share = variation(durations)
    return f"passes differ by {share:.0%} (coefficient of variation)" if share > _NOISY else None


class Ratio(NamedTuple):
    """How much slower the first system is than the second: 1.1 is 10 %."""

    ratio: float
    low: float
    high: float

    def beyond(self, floor: float) -> bool:
        """Whether it is a difference: the interval excludes 1, and the ratio is further from 1 than *floor*, as .02."""
        return (self.low > 1 or self.high < 1) and abs(self.ratio - 1) > floor


def ratio_of_medians(
    first: Durations, second: Durations, *, level: float = 0.95, resamples: int = 10_000, seed: int = 42
) -> Ratio:
    """Return the ratio of the p50s of two systems with its paired bootstrap interval.

    *first* and *second* are durations (passes, queries) of the same queries in the same order; the passes may be of different
    number. Queries are drawn with replacement, the same ones for both. ValueError where the numbers of queries differ.
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
