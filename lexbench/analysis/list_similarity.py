"""Similarity of the ranked lists of two systems, without judgements: overlap at a depth, and rank-biased overlap (RBO).

Overlap at k is the share of the first k documents that two lists have in common. RBO is the mean of the overlaps at all depths,
weighted by (1 - p) p^(depth - 1). Lists are finite, so RBO is extrapolated: the overlap at the last rank is
taken for all later ranks. Source: Webber, Moffat and Zobel, "A similarity measure for indefinite rankings", ACM TOIS 28(4),
2010.
"""

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench.display.answer import Answer
from lexbench.display.table import Table, number
from lexbench.errors import CommandError
from lexbench.trec.ids import lookup
from lexbench.trec.runs import Run

PERSISTENCE = 0.9


class ListSimilarity(msgspec.Struct, frozen=True, kw_only=True):
    """Similarity of a system's lists to the first system's: means over the queries for which at least one has a list."""

    system: str
    queries: int
    one_sided: int  # queries for which only one of the two has a list; they count 0
    overlaps: dict[int, float]  # by depth k: common documents as a share of k, or of the longer list if both are shorter
    same: dict[int, float]  # by depth k: share of queries with the same first k documents in the same order
    rbo: float  # extrapolated


class ListComparison(Answer, msgspec.Struct, frozen=True, kw_only=True):
    """The similarity of ranked lists to those of the first system."""

    first: str
    systems: list[ListSimilarity]  # all others
    dataset: str = ""  # "" for run files alone

    def tables(self) -> list[Table]:
        """Return one row per system except the first."""
        depths = list(self.systems[0].overlaps)
        overlaps, same = ([f"{name}\n@{k}" for k in depths] for name in ("overlap", "same"))
        header = ("system", *overlaps, *same, f"RBO\np={PERSISTENCE}", "queries")
        cells = [
            (
                row.system,
                *(number(row.overlaps[k]) for k in depths),
                *(number(row.same[k], ".1%") for k in depths),
                number(row.rbo),
                str(row.queries),
            )
            for row in self.systems
        ]
        notes = [
            "overlap@k: share of the first k documents in common; same@k: queries with the same first k in the same order",
            "RBO (Webber, Moffat, Zobel 2010): extrapolated to lists without an end",
            "the first 10 documents have .86 of the weight of RBO",
            *(f"{row.system}: {row.one_sided} queries have only one list and count 0" for row in self.systems if row.one_sided),
        ]
        first = f"{self.first} on {self.dataset}" if self.dataset else self.first
        return [Table(f"similarity to the lists of {first}", header, tuple(cells), tuple(notes))]

    def document(self) -> list[ListSimilarity]:
        """Return the systems."""
        return self.systems

    def rows(self) -> list[dict[str, object]]:
        """Return a row per system and depth."""
        return [
            {
                "system": one.system,
                "k": k,
                "overlap": one.overlaps[k],
                "same": one.same[k],
                "rbo": one.rbo,
                "queries": one.queries,
            }
            for one in self.systems
            for k in one.overlaps
        ]


def list_similarities(runs: Mapping[str, Run], depths: Sequence[int], dataset: str = "") -> ListComparison:
    """Return the similarity of each of *runs*, on *dataset*, to the first. Raises CommandError for a single run."""
    if len(runs) < 2:  # noqa: PLR2004 - one list has nothing to compare with
        raise CommandError("a comparison of lists takes two runs or more")
    (label, first), *others = runs.items()
    systems = [_similarity(name, first, other, depths) for name, other in others]
    return ListComparison(first=label, systems=systems, dataset=dataset)


def _similarity(name: str, first: Run, other: Run, depths: Sequence[int]) -> ListSimilarity:
    # Number the documents of both runs alike: by the first run's table, and upwards from its end for those it lacks.
    codes = lookup(first.table, other.table).astype(np.int64)
    unknown = codes < 0
    codes[unknown] = len(first.table) + np.arange(int(unknown.sum()))
    ours, theirs = _lists(first, np.arange(len(first.table))), _lists(other, codes)
    queries = list(dict.fromkeys([*ours, *theirs]))
    empty = np.zeros(0, np.int64)
    pairs = [(ours.get(query, empty), theirs.get(query, empty)) for query in queries]
    common = [_common_by_depth(*pair) for pair in pairs]
    return ListSimilarity(
        system=name,
        queries=len(queries),
        one_sided=sum(not len(one) or not len(two) for one, two in pairs),
        overlaps={
            k: _mean([_overlap_at(both, one, two, k) for both, (one, two) in zip(common, pairs, strict=True)]) for k in depths
        },
        same={k: _mean([float(np.array_equal(one[:k], two[:k])) for one, two in pairs]) for k in depths},
        rbo=_mean([rbo(*pair) for pair in pairs]),
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def _lists(run: Run, codes: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Return the nonempty lists (depth,) of *run* by query; *codes* renumbers the documents of its table."""
    return {query: codes[run.docs[entries]] for query, entries in run.spans() if entries.stop > entries.start}


def _common_by_depth(one: NDArray[np.int64], two: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many of their first d documents two lists have in common, for d from 1 to the longer list's length."""
    _, at_one, at_two = np.intersect1d(one, two, assume_unique=True, return_indices=True)
    longer = max(len(one), len(two))
    # A document is in common from the deeper of its two places on.
    return np.cumsum(np.bincount(np.maximum(at_one, at_two), minlength=longer))[:longer]


def _overlap_at(common: NDArray[np.int64], one: NDArray[np.int64], two: NDArray[np.int64], k: int) -> float:
    reached = min(k, len(common))
    return float(common[reached - 1]) / reached if len(one) and len(two) else 0.0


def rbo(one: NDArray[np.int64], two: NDArray[np.int64], p: float = PERSISTENCE) -> float:
    """Return the extrapolated rank-biased overlap of two lists of document numbers (n,) and (m,), each without repetitions."""
    short, long = sorted((len(one), len(two)))
    if not long:
        return 0.0
    depth = np.arange(1, long + 1)
    weight = p**depth / depth
    common = _common_by_depth(one, two)  # X_d
    at_short = float(common[short - 1]) if short else 0.0
    beyond = depth > short
    shared = at_short / short if short else 0.0
    sums = float((common * weight).sum() + (shared * (depth[beyond] - short) * weight[beyond]).sum())
    return (1 - p) / p * sums + ((float(common[-1]) - at_short) / long + shared) * p**long  # equation 32
