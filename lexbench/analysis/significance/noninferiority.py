"""Whether one system is no worse than another by more than a margin: what top-K, quantised and pruned variants claim.

A test that finds no difference does not show this: with few queries it finds nothing. Here the burden is the other way round,
and few queries make the claim harder.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lexbench.analysis.significance import bootstrap
from lexbench.analysis.significance.randomisation import RESAMPLES, SEED


@dataclass(frozen=True)
class NonInferiority:
    """What the test says of one system and dataset, in the units of the measure; positive where the system is better."""

    difference: float  # mean
    bound: float  # the difference is above it with confidence 1 - level
    margin: float
    holds: bool  # whether the bound is above -margin


def test(
    differences: NDArray[np.float64],
    margin: float,
    *,
    level: float = 0.05,  # noqa: PT028 - not a test of ours
    resamples: int = RESAMPLES,  # noqa: PT028
    seed: int = SEED,  # noqa: PT028
) -> NonInferiority:
    """Test that the mean of *differences* (queries,), system minus baseline, is above -*margin* (> 0, in the measure's units).

    The bound is the lower end of a one-sided bootstrap percentile interval: at level .05 the 5th percentile, of the same
    resamples as `bootstrap.interval`. Differences of pruned systems are mostly 0 and skewed, which no t distribution is.
    """
    if not margin > 0:
        raise ValueError(f"a margin is above 0, not {margin}")
    values = np.asarray(differences, dtype=np.float64)
    bound, _ = bootstrap.interval(values, level=1 - 2 * level, resamples=resamples, seed=seed)
    return NonInferiority(float(values.mean()), bound, margin, bound > -margin)


def said(found: Sequence[NonInferiority]) -> str:
    """Say of one system on several datasets, tested with one margin: `no worse than .005 on 11 of 12`.

    Each dataset is tested by itself: the count is not corrected for how many there are. That all hold needs no correction.
    """
    margin = f"{found[0].margin:g}".removeprefix("0")
    return f"no worse than {margin} on {sum(one.holds for one in found)} of {len(found)}"
