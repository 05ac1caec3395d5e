"""Recursive graph bisection: an order of documents in which similar ones are close, for engines that skip blocks.

L. Dhulipala et al., "Compressing graphs and indexes with recursive graph bisection", KDD 2016.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

_LEAF = 16  # documents of a part that is not split again
_ROUNDS = 20  # of swaps per split, as in the paper


def bisected(documents: sparse.csr_array) -> NDArray[np.int64]:
    """Return an order (n,) of the rows of *documents* (n, vocabulary). It starts from a random one; weights do not count."""
    order = np.random.default_rng(1).permutation(documents.shape[0])
    starts, terms = documents.indptr.astype(np.uint64), documents.indices.astype(np.uint32)  # unsigned: numba tests no sign
    counts, logs = np.zeros((2, documents.shape[1]), np.int32), np.log2(np.arange(1, len(order) + 3))
    parts = [(0, len(order))]
    while parts:
        for low, high in parts:
            _split(order, low, high, starts, terms, counts, logs)
        halves = [half for low, high in parts for half in ((low, (low + high) // 2), ((low + high) // 2, high))]
        parts = [(low, high) for low, high in halves if high - low > _LEAF]
    return order


@njit(cache=True)
def _split(order, low, high, starts, terms, counts, logs):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Swap documents of order[low:high] between its halves as long as that shortens the gaps by the estimate of the paper."""
    middle = (low + high) // 2
    counts[:] = 0  # (2, vocabulary): documents that have a term, in the first half and in both
    first, both = counts
    for place in range(low, high):
        _add(order[place], starts, terms, first if place < middle else both, 1)
    both += first
    touched = np.flatnonzero(both)
    gains = np.zeros(counts.shape, np.float32)  # of a document that leaves its half, by its terms
    cost = np.zeros(high - low)
    for _ in range(_ROUNDS):
        _weigh(touched, counts, (logs[middle - low - 1], logs[high - middle - 1]), gains, logs)
        for place in range(low, high):
            own, total = gains[int(place >= middle)], np.float32(0)
            for at in range(starts[order[place]], starts[order[place] + 1]):
                total += own[terms[at]]
            cost[place - low] = -total
        left, right = np.argsort(cost[: middle - low]), middle - low + np.argsort(cost[middle - low :])
        swaps = 0
        while swaps < len(left) and cost[left[swaps]] + cost[right[swaps]] < 0:
            one, two = low + left[swaps], low + right[swaps]
            _add(order[one], starts, terms, first, -1)
            _add(order[two], starts, terms, first, 1)
            order[one], order[two] = order[two], order[one]
            swaps += 1
        if swaps == 0:
            break


@njit(cache=True)
def _add(document, starts, terms, counts, step):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add *step* to the counts of the terms of a document."""
    for at in range(starts[document], starts[document + 1]):
        counts[terms[at]] += step


@njit(cache=True)
def _weigh(touched, counts, sizes, gains, logs):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Set the *gains* (2, vocabulary) of the terms *touched* from the logarithms of the *sizes* of the halves."""
    for term in touched:
        first = counts[0, term]
        second = counts[1, term] - first
        for side in range(2):
            own, other = (second, first) if side else (first, second)
            if own:
                before = own * (sizes[side] - logs[own]) + other * (sizes[1 - side] - logs[other])
                after = (own - 1) * (sizes[side] - logs[own - 1]) + (other + 1) * (sizes[1 - side] - logs[other + 1])
                gains[side, term] = before - after
