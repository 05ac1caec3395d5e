"""Means over datasets, e.g. BEIR's. A mean is given only when all its members are there, never over a part of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from lexbench.results import Result
from lexbench.suites import Aggregate


@dataclass(frozen=True)
class Mean:
    """The value of an aggregate, and how many of its members are there."""

    aggregate: Aggregate
    present: int
    value: float | None  # None while members are missing

    def __str__(self) -> str:
        """Return the mean with four digits, or how many members are there, e.g. `2/12`."""
        return f"{self.value:.4f}" if self.value is not None else f"{self.present}/{len(self.aggregate.members)}"


def mean(aggregate: Aggregate, scores: Mapping[str, float]) -> Mean:
    """Return the weighted mean of *scores* (by dataset) over the members of *aggregate*."""
    present = [scores[member] for member in aggregate.members if member in scores]
    complete = len(present) == len(aggregate.members)
    return Mean(aggregate, len(present), float(np.average(present, weights=aggregate.weights)) if complete else None)


def over_results(aggregate: Aggregate, results: Iterable[Result]) -> Mean:
    """Return the mean over the *results* of one system."""
    return mean(aggregate, {r.dataset: r.means[aggregate.measure] for r in results if aggregate.measure in r.means})
