"""Statistics of durations: (passes, queries) nanoseconds in, latencies and queries a second out.

A query's latency is its median over the passes, so that one interruption costs nothing; never its best. A percentile is told
only where ten queries or more lie beyond it (MLPerf Inference asks for likewise).
"""

import numpy as np
from numpy.typing import NDArray

from lexbench.results import Latency

_NS = 1e9
_BEYOND = 10  # queries
_NOISY = 0.05  # coefficient of variation of the passes' medians

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
    found = variation(durations)
    return f"passes differ by {found:.0%} (coefficient of variation)" if found > _NOISY else None
