"""Ranks: the ranks that paired tests leave possible. Boards, audits and notebooks have no other kind.

A system's best possible rank is one more than the number of systems that are significantly better than it; its worst possible
rank leaves out those that are significantly worse. All ranks hold together with 95 % confidence.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench.analysis.compare.comparison import measure_of
from lexbench.analysis.significance import randomisation
from lexbench.analysis.significance.randomisation import LEVEL
from lexbench.display.answer import Answer
from lexbench.display.table import Table, number
from lexbench.errors import CannotStart
from lexbench.results import Results

_FEWEST = 2  # systems to rank
_LEGEND = "rank: what paired randomisation tests at .05 leave possible, corrected by Holm over all pairs"


class SystemRank(msgspec.Struct, frozen=True, kw_only=True):
    """One system among others."""

    system: str
    mean: float  # over the datasets
    best: int  # the best rank that the tests leave possible
    worst: int

    @property
    def text(self) -> str:
        """The ranks as a cell, e.g. `2-4`."""
        return str(self.best) if self.best == self.worst else f"{self.best}-{self.worst}"


class Ranks(Answer, msgspec.Struct, frozen=True, kw_only=True):
    """The possible ranks of systems over datasets, the best mean first."""

    measures: list[str]  # by dataset
    datasets: list[str]
    systems: list[SystemRank]
    better: list[tuple[str, str]]  # systems of which the first is significantly better than the second
    left_out: list[str] = []  # systems that lack a dataset or were not measured, and upper bounds

    def tables(self) -> list[Table]:
        """Return one row per system."""
        rows = tuple((one.system, one.text, number(one.mean)) for one in self.systems)
        notes = (_LEGEND, *([f"not ranked: {', '.join(self.left_out)}"] if self.left_out else []))
        what = f"{' and '.join(dict.fromkeys(self.measures))} on {', '.join(self.datasets)}"
        return [Table(f"ranks by {what}", ("system", "rank", "mean"), rows, notes)]

    def rows(self) -> list[dict[str, object]]:
        """Return a row per system."""
        return [msgspec.structs.asdict(one) for one in self.systems]


def ranks(
    results: Results,
    measure: str | None = None,
    *,
    datasets: Sequence[str] = (),
    weights: Sequence[float] | None = None,
) -> Ranks:
    """Return the possible ranks of the systems that have all *datasets* (default: all), by the mean over them.

    *measure* is by default the headline of each dataset's suite, *weights* are the shares of the datasets. Upper bounds and
    systems whose scores say nothing are not ranked. The test is over queries, stratified by dataset. Raises CannotStart if
    fewer than two systems can be ranked.
    """
    datasets = list(datasets) or results.datasets
    measures = [measure_of(dataset, measure) for dataset in datasets]
    aside = {result.system for result in results if result.aside}

    def has_all(system: str) -> bool:
        row = results.row(system)
        return all(name in row and own in row[name].per_query for name, own in zip(datasets, measures, strict=True))

    whole = [system for system in results.systems if system not in aside and has_all(system)]
    if len(whole) < _FEWEST:
        raise CannotStart(f"{len(whole)} of {len(results.systems)} systems have {' and '.join(datasets)}; a ranking takes two")
    ranked = results.select(systems=whole, datasets=datasets)
    values = [ranked.values(name, own) for name, own in zip(datasets, measures, strict=True)]
    means = np.average([one.mean(axis=1) for one in values], axis=0, weights=weights)
    order = np.argsort(-means, kind="stable")
    tested = randomisation.ranking(randomisation.stratified(values, weights))
    names = list(ranked.column(datasets[0]))
    return Ranks(
        measures=measures,
        datasets=datasets,
        systems=[
            SystemRank(system=names[at], mean=float(means[at]), best=tested.ranks[at][0], worst=tested.ranks[at][1])
            for at in order.tolist()
        ],
        better=[(names[one], names[other]) for one, other in np.argwhere(tested.better).tolist()],
        left_out=[system for system in results.systems if system not in whole],
    )


def possible(scores: NDArray[np.float64]) -> list[tuple[int, int]]:
    """Return the best and the worst possible rank of each row of *scores* (systems, queries or datasets)."""
    systems, columns = scores.shape
    pairs = systems * (systems - 1) // 2
    if pairs * 2.0 ** (1 - columns) >= LEVEL:  # even if all columns agree, no corrected p is below the level
        return [(1, systems)] * systems
    return list(randomisation.ranking(scores).ranks)
