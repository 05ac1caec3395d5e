"""What can be said of the systems of one dataset: intervals, tests of all pairs, letters. Worked out once for each."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import isfinite
from statistics import median

import numpy as np
from numpy.typing import NDArray

from lexbench.analysis.significance import bootstrap, groups, randomisation

_DIGITS = 4


@dataclass(frozen=True)
class Pairs:
    """Systems by name; pairs in the order given, (earlier, later), differences earlier less later."""

    intervals: dict[str, tuple[float, float]]  # 95 %, of each mean
    letters: dict[str, str]  # of each system's tie groups; none where all are one group
    better: dict[str, int]  # how many others each is significantly better than
    p: tuple[tuple[float, ...], ...]  # of each with those after it, corrected by Holm over all pairs
    ranges: tuple[tuple[tuple[float, float], ...], ...]  # 95 % intervals of the same differences
    detectable: float | None  # the median over pairs of what would be found with a power of 80 %


def compare(scores: Mapping[str, NDArray[np.float64]]) -> Pairs:
    """Compare every two systems by *scores*, values (queries,) in the same order; all draw the same resamples."""
    names = list(scores)
    if not names:
        return Pairs({}, {}, {}, (), (), None)
    resampled = bootstrap.means(np.array([scores[name] for name in names]))
    intervals = dict(zip(names, _percentiles(resampled), strict=True))
    if len(names) == 1:
        return Pairs(intervals, {}, {}, ((),), ((),), None)
    tied = groups.tie_groups(scores)
    place = {name: number for number, name in enumerate(tied.systems)}
    p = tuple(
        tuple(round(float(tied.ps[place[name], place[other]]), _DIGITS) for other in names[number + 1 :])
        for number, name in enumerate(names)
    )
    ranges = tuple(tuple(_percentiles(resampled[:, [at]] - resampled[:, at + 1 :])) for at in range(len(names)))
    smallest = median(randomisation.minimum_detectable(scores[one] - scores[other]) for one, other in combinations(names, 2))
    detectable = round(smallest, _DIGITS) if isfinite(smallest) else None  # of one query nothing can be said
    letters = tied.letters if len(tied.groups) > 1 else {}  # one group of all says nothing, and would stand in every cell
    better = {name: len(worse) for name, worse in tied.worse.items()}
    return Pairs(intervals, letters, better, p, ranges, detectable)


def _percentiles(resampled: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Return the 95 % intervals of *resampled* (resamples, systems)."""
    if not resampled.shape[1]:
        return []
    low, high = np.percentile(resampled, [2.5, 97.5], axis=0).round(_DIGITS)
    return [(float(one), float(other)) for one, other in zip(low, high, strict=True)]
