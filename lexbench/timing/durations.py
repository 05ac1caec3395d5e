"""Statistics of durations (passes, queries) in nanoseconds: latencies and queries per second.

A query's latency is its median over the passes, so that one interruption costs nothing; it is never the best pass. A percentile
needs ten queries beyond it, similar to MLPerf Inference.
"""

import numpy as np
from numpy.typing import NDArray

from lexbench.results import Latency

_NS = 1e9
_BEYOND = 10  # queries
_NOISY = 0.05  # coefficient of variation of the passes' medians

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


def unsteady(durations: Durations) -> str | None:
    """Return a line if passes differ by more than 5 %."""
    medians = np.median(durations, axis=1)
    share = float(medians.std() / medians.mean())
    return f"passes differ by {share:.0%} (coefficient of variation)" if share > _NOISY else None
