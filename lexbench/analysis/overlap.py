"""How alike the ranked lists of two systems are, whatever is relevant: overlap at a depth, and rank-biased overlap.

Overlap at k is the share of the first k documents that two lists have in common. Rank-biased overlap (RBO) is the mean of the
overlaps at all depths, each weighted by (1 - p) p^(depth - 1): the expected overlap of what a reader sees who goes on to the
next document with probability p. At p = .9 the first ten documents have .86 of the weight. Lists end before infinity, so RBO
has a least and a greatest value, and in between the extrapolated one, as if the overlap went on as it is: Webber, Moffat and
Zobel, "A similarity measure for indefinite rankings", ACM TOIS 28(4), 2010; numbers of equations are theirs.

Ties of score are broken as trec_eval breaks them, as everywhere here: two lists that tie alike are alike.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench.errors import CommandError
from lexbench.trec.ids import lookup
from lexbench.trec.runs import Run

PERSISTENCE = 0.9


class Rbo(NamedTuple):
    """Rank-biased overlap of two lists."""

    extrapolated: float  # RBO_EXT
    lowest: float  # RBO_MIN: if the lists had nothing more in common
    residual: float  # RBO_RES: by how much it could be higher than the lowest

    @property
    def highest(self) -> float:
        """RBO if the lists had all the rest in common."""
        return self.lowest + self.residual


class Overlap(msgspec.Struct, frozen=True, kw_only=True):
    """How alike the lists of a system are to those of another: means over the queries that one of them has lists for."""

    system: str
    queries: int
    one_sided: int  # queries that only one of the two has a list for; they count 0
    overlaps: dict[int, float]  # by depth k: documents in common, as a share of k or of the longer list where both are shorter
    same: dict[int, float]  # by depth k: share of queries whose first k documents are the same in the same order
    rbo: float  # extrapolated
    rbo_lowest: float
    rbo_highest: float


def overlaps(runs: Mapping[str, Run], depths: Sequence[int], p: float = PERSISTENCE) -> list[Overlap]:
    """Return how alike each of *runs* is to the first of them; CommandError where there is one alone, or p is not in (0, 1)."""
    if len(runs) < 2:  # noqa: PLR2004 - nothing to be alike
        raise CommandError("an overlap takes two runs or more")
    if not 0 < p < 1:
        raise CommandError(f"p is above 0 and below 1, not {p:g}: the chance that a reader goes on to the next document")
    (_, first), *others = runs.items()
    return [_overlap(name, first, other, depths, p) for name, other in others]


def _overlap(name: str, first: Run, other: Run, depths: Sequence[int], p: float) -> Overlap:
    codes = lookup(first.table, other.table).astype(np.int64)  # of the other's documents, in the first's table
    unknown = codes < 0
    codes[unknown] = len(first.table) + np.arange(int(unknown.sum()))
    ours, theirs = _lists(first, np.arange(len(first.table))), _lists(other, codes)
    queries = list(dict.fromkeys([*ours, *theirs]))
    empty = np.zeros(0, np.int64)
    pairs = [(ours.get(query, empty), theirs.get(query, empty)) for query in queries]
    common = [_in_common(*pair) for pair in pairs]
    found = [rbo(*pair, p) for pair in pairs]
    return Overlap(
        system=name,
        queries=len(queries),
        one_sided=sum(not len(one) or not len(two) for one, two in pairs),
        overlaps={k: _mean([_at(both, one, two, k) for both, (one, two) in zip(common, pairs, strict=True)]) for k in depths},
        same={k: _mean([float(np.array_equal(one[:k], two[:k])) for one, two in pairs]) for k in depths},
        rbo=_mean([one.extrapolated for one in found]),
        rbo_lowest=_mean([one.lowest for one in found]),
        rbo_highest=_mean([one.highest for one in found]),
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def _lists(run: Run, codes: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Return the documents of every list that has any (depth,), by its query, as *codes* of the run's own table."""
    edges = zip(run.query_ids, run.offsets[:-1].tolist(), run.offsets[1:].tolist(), strict=True)
    return {query: codes[run.docs[start:stop]] for query, start, stop in edges if stop > start}


def _in_common(one: NDArray[np.int64], two: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many documents the first d of two lists have in common, for d from 1 to the longer one's length (longer,)."""
    _, at_one, at_two = np.intersect1d(one, two, assume_unique=True, return_indices=True)
    longer = max(len(one), len(two))
    return np.cumsum(np.bincount(np.maximum(at_one, at_two), minlength=longer))[:longer]


def _at(common: NDArray[np.int64], one: NDArray[np.int64], two: NDArray[np.int64], k: int) -> float:
    reached = min(k, len(common))
    return float(common[reached - 1]) / reached if len(one) and len(two) else 0.0


def rbo(one: NDArray[np.int64], two: NDArray[np.int64], p: float = PERSISTENCE) -> Rbo:
    """Return the rank-biased overlap of two lists of documents (n,) and (m,), as any whole numbers, each once in a list."""
    short, long = sorted((len(one), len(two)))
    if not long:
        return Rbo(0.0, 0.0, 1.0)
    depth = np.arange(1, long + 1)
    weight = p**depth / depth
    common = _in_common(one, two)  # X_d
    seen = float(common[-1])
    weights = -math.log1p(-p)  # the sum of p^d / d over all d
    lowest = (1 - p) / p * (float(((common - seen) * weight).sum()) + seen * weights)  # equation 11
    at_short = float(common[short - 1]) if short else 0.0
    beyond = depth > short
    shared = at_short / short if short else 0.0
    sums = float((common * weight).sum() + (shared * (depth[beyond] - short) * weight[beyond]).sum())
    extrapolated = (1 - p) / p * sums + ((seen - at_short) / long + shared) * p**long  # equation 32
    return Rbo(extrapolated, lowest, _residual(short, long, seen, p))


def _residual(short: int, long: int, seen: float, p: float) -> float:
    """Return how much of RBO the documents that lists do not have could add: equation 30."""
    full = int(long + short - seen)  # from this depth on lists that have all else in common agree wholly
    depth = np.arange(1, full + 1)
    weight = p**depth / depth
    sums = float(short * weight[depth > short].sum() + long * weight[depth > long].sum())
    sums += seen * (-math.log1p(-p) - float(weight.sum()))
    return float(p**short + p**long - p**full - (1 - p) / p * sums)


def weight_of_first(depth: int, p: float = PERSISTENCE) -> float:
    """Return the share of RBO's weight that the first *depth* documents have: equation 21."""
    terms = math.fsum(p**place / place for place in range(1, depth))
    return 1 - p ** (depth - 1) + (1 - p) / p * depth * (-math.log1p(-p) - terms)
