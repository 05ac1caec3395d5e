"""What a run would be if its scores were kept in fewer bits: ties, documents that change places, and means.

Rounding keeps the order of two scores or makes them equal, so documents change places by ties alone, which are broken by their
ids, as trec_eval does. What a model computes in so few bits differs by more than that: to know it, encode in them and compare.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench import measures
from lexbench.results import Tie
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run

PRECISIONS = ("double", "float32", "float16", "bfloat16")  # of 53, 24, 11 and 8 significant bits
_DEPTH = 10  # documents looked at where a measure looks at all


class AtPrecision(msgspec.Struct, frozen=True, kw_only=True):
    """A run with its scores rounded; places are compared with those of the run as it is, in the first *depth* of each list."""

    precision: str
    depth: int
    beyond: int = 0  # scores that are too large for it: then nothing else is known
    tied: float = 0.0  # share of the first documents that have the score of another one of their list
    across: float = 0.0  # share of queries in which the last of the first documents ties with the next one
    moved: float = 0.0  # share of queries whose first documents are others, or in another order
    flips: int = 0  # pairs of the first documents that changed places, over all queries
    means: dict[str, float] = {}
    ties: dict[str, Tie] = {}  # what the order of tied documents could do to each mean


def at_precisions(run: Run, qrels: Qrels, named: Sequence[str]) -> list[AtPrecision]:
    """Return *run* with its scores as they are, then in each precision that has fewer bits; by the measures *named*.

    The first documents are as many as the first measure looks at, or 10.
    """
    depth = measures.cutoff(named[0]) or _DEPTH
    fewer = PRECISIONS[PRECISIONS.index(run.precision) :]
    return [_at_precision(run, qrels, named, precision, depth) for precision in fewer]


def _at_precision(run: Run, qrels: Qrels, named: Sequence[str], precision: str, depth: int) -> AtPrecision:
    scores = rounded(run.scores, precision)
    if beyond := int(np.count_nonzero(~np.isfinite(scores))):
        return AtPrecision(precision=precision, depth=depth, beyond=beyond)
    low = run.scored(scores)
    same = ~measures.untied(low)[1:]  # whether an entry ties with the one behind it
    tied = np.append(same, False) | np.append(False, same)
    is_first = low.ranks <= depth
    lists = np.flatnonzero(np.diff(low.offsets) > 0)
    last = low.offsets[lists] + depth - 1  # of the first documents, where the list goes on
    goes_on = last + 1 < low.offsets[lists + 1]
    edges = zip(low.offsets[lists].tolist(), low.offsets[lists + 1].tolist(), strict=True)
    pairs = [(run.docs[at], low.docs[at]) for at in (slice(start, min(start + depth, end)) for start, end in edges)]
    scored = measures.score(low, qrels, named)
    return AtPrecision(
        precision=precision,
        depth=depth,
        tied=float(tied[is_first].mean()) if is_first.any() else 0.0,
        across=float(same[last[goes_on]].sum()) / len(lists) if len(lists) else 0.0,
        moved=float(np.mean([not np.array_equal(*pair) for pair in pairs])) if pairs else 0.0,
        flips=sum(_flips(*pair) for pair in pairs),
        means=scored.means,
        ties=measures.tie_report(low, qrels, named),
    )


def _flips(before: NDArray[np.int32], after: NDArray[np.int32]) -> int:
    """Return how many pairs of the documents that both lists have stand in the other order."""
    _, at_before, at_after = np.intersect1d(before, after, assume_unique=True, return_indices=True)
    places = at_after[np.argsort(at_before)]
    return int(np.count_nonzero(np.triu(places[:, np.newaxis] > places[np.newaxis], 1)))


def rounded(scores: NDArray[np.floating], precision: str) -> NDArray[np.floating]:
    """Return *scores* (n,) rounded to the nearest number of that precision, ties to even; too large ones become infinite."""
    with np.errstate(over="ignore"):
        if precision == "double":
            return scores
        if precision == "float16":
            return scores.astype(np.float16).astype(np.float32)
        single = scores.astype(np.float32)
    return single if precision == "float32" else _as_bfloat16(single)


def _as_bfloat16(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return finite float32 numbers with the upper half of their bits alone, rounded to the nearest, ties to even."""
    bits = np.ascontiguousarray(scores).view(np.uint32).astype(np.uint64)
    nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return nearest.astype(np.uint32).view(np.float32)
