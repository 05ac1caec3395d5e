"""Whether the timed passes returned what the untimed run did: a system cannot be fast in one and good in the other.

Queries that are encoded one by one may get scores that differ in the last digits from those of a batch, so documents may change
places where their scores are equal but for that. Nothing else may differ.
"""

import numpy as np
from numpy.typing import NDArray

from lexbench.trec.runs import Run

_ROUNDING = 1e-3  # of a list's largest score


def differing(timed: Run, untimed: Run, k: int) -> int:
    """Return how many lists of *timed* do not begin like those of *untimed*, for at least *k* documents where it has them.

    Every query of *timed* is one of *untimed*, whose lists may be longer. Both have the same table of documents.
    """
    rows = {query: row for row, query in enumerate(untimed.query_ids)}
    return sum(not _agree(*_list(timed, row), *_list(untimed, rows[query]), k) for row, query in enumerate(timed.query_ids))


def _list(run: Run, row: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    own = slice(int(run.offsets[row]), int(run.offsets[row + 1]))
    return run.docs[own], run.scores[own]


def _agree(
    docs: NDArray[np.int32], scores: NDArray[np.float32], known: NDArray[np.int32], true: NDArray[np.float32], k: int
) -> bool:
    if len(docs) > len(known) or len(docs) < min(k, len(known)):
        return False
    if np.array_equal(docs, known[: len(docs)]):
        return True
    rounding = _ROUNDING * float(np.abs(true).max())
    last = true[len(docs) - 1]
    order = np.argsort(known)
    places = order[np.minimum(np.searchsorted(known, docs, sorter=order), len(known) - 1)]
    there = known[places] == docs
    close = np.abs(scores - np.where(there, true[places], last)) <= rounding  # who is new must be as good as the last
    gone = ~np.isin(known[: len(docs)], docs)
    return bool(close.all() and (np.abs(true[: len(docs)][gone] - last) <= rounding).all())
