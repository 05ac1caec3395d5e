"""Named means over datasets. A mean is there only when every member is; a mean over what happens to be there is not printed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from lexbench.results import Result
from lexbench.suites import Aggregate


@dataclass(frozen=True)
class Mean:
    """The value of an aggregate, or how much of it there is."""

    aggregate: Aggregate
    present: int
    value: float | None  # None while members are missing

    def __str__(self) -> str:
        """Write the mean with four digits, or `2/12`."""
        return f"{self.value:.4f}" if self.value is not None else f"{self.present}/{len(self.aggregate.members)}"


def mean(aggregate: Aggregate, scores: Mapping[str, float]) -> Mean:
    """Return the macro mean of *scores* (dataset id -> mean of the aggregate's measure) over the members, or their groups."""
    present = [scores[member] for member in aggregate.members if member in scores]
    complete = len(present) == len(aggregate.members)
    return Mean(aggregate, len(present), float(np.average(present, weights=aggregate.weights)) if complete else None)


def over_results(aggregate: Aggregate, results: Iterable[Result]) -> Mean:
    """Return the mean over the *results* of one system."""
    return mean(aggregate, {r.dataset: r.means[aggregate.measure] for r in results if aggregate.measure in r.means})
