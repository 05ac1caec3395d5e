"""Whether one system is slower than another: latencies are paired by query, and a difference must exceed the machine's own.

Two measurements of the same system differ, too (another process, other memory, another neighbour on the machine): how much is
the noise floor, which `benchmarks/timing.py` measures.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 22  # numbers in memory at a time


class Ratio(NamedTuple):
    """How much slower the first is than the second: 1.1 is 10 %."""

    ratio: float
    low: float
    high: float

    def beyond(self, floor: float) -> bool:
        """Whether it is a difference: the interval excludes 1, and the ratio is further from 1 than *floor*, as .02."""
        return (self.low > 1 or self.high < 1) and abs(self.ratio - 1) > floor


def ratio_of_medians(
    first: NDArray[np.int64], second: NDArray[np.int64], *, level: float = 0.95, resamples: int = 10_000, seed: int = 42
) -> Ratio:
    """Return the ratio of the p50s of two systems with its paired bootstrap interval.

    *first* and *second* are durations (passes, queries) of the same queries in the same order; the passes may be of different
    number. Queries are drawn with replacement, the same ones for both.
    """
    one, other = np.median(first, axis=0), np.median(second, axis=0)
    if one.shape != other.shape:
        raise ValueError(f"{len(one)} and {len(other)} queries are no pairs")
    generator = np.random.default_rng(seed)
    ratios = []
    rows = max(1, _BLOCK // len(one))
    for start in range(0, resamples, rows):
        drawn = generator.integers(0, len(one), (min(rows, resamples - start), len(one)))
        ratios.append(np.median(one[drawn], axis=1) / np.median(other[drawn], axis=1))
    low, high = np.quantile(np.concatenate(ratios), [(1 - level) / 2, (1 + level) / 2]).tolist()
    return Ratio(float(np.median(one) / np.median(other)), low, high)
