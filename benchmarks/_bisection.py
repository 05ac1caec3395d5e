"""An order of documents in which those with the same terms are near each other: engines that skip skip more, gaps are smaller.

Recursive graph bisection (L. Dhulipala, I. Kabiljo, B. Karrer, G. Ottaviano, S. Pupyrev, A. Shalita, "Compressing Graphs and
Indexes with Recursive Graph Bisection", KDD 2016): documents are halved, those that would shorten the gaps most on the other
side change sides, in pairs, and each half is treated likewise. What PISA's tools do, and what BMP's authors do beforehand.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

SMALLEST, ROUNDS = 16, 12  # documents that are not halved again; exchanges between two halves at most


def bisected(documents: sparse.csr_array, smallest: int = SMALLEST) -> NDArray[np.int64]:
    """Return the rows of *documents* (n, vocabulary) in the new order."""
    order = np.arange(documents.shape[0])
    waiting = [(0, len(order))]
    while waiting:
        first, last = waiting.pop()
        if last - first > smallest:
            middle = (first + last) // 2
            _exchange(documents.indptr, documents.indices, documents.shape[1], order[first:last], middle - first, ROUNDS)
            waiting += [(first, middle), (middle, last)]
    return order


@njit(cache=True)
def _exchange(starts, terms, vocabulary, order, middle, rounds):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Exchange documents of *order*[:middle] with others of *order* for as long as the gaps become shorter."""
    counts = np.zeros((2, vocabulary), np.int64)  # of the terms on each side
    for at in range(len(order)):
        _count(starts, terms, order[at], counts[int(at >= middle)], 1)
    for _ in range(rounds):
        gains = _gains(counts, middle, len(order) - middle)
        moves = np.zeros(len(order))
        for at in range(len(order)):
            for i in range(starts[order[at]], starts[order[at] + 1]):
                moves[at] += gains[int(at >= middle), terms[i]]
        left, right = np.argsort(-moves[:middle]), middle + np.argsort(-moves[middle:])
        pairs = 0
        while pairs < middle and moves[left[pairs]] + moves[right[pairs]] > 0:
            one, other = left[pairs], right[pairs]
            for document, side in ((order[one], 0), (order[other], 1)):
                _count(starts, terms, document, counts[side], -1)
                _count(starts, terms, document, counts[1 - side], 1)
            order[one], order[other] = order[other], order[one]
            pairs += 1
        if not pairs:
            break


@njit(cache=True)
def _count(starts, terms, document, counts, times):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add *times* to the *counts* of a document's terms."""
    for i in range(starts[document], starts[document + 1]):
        counts[terms[i]] += times


@njit(cache=True)
def _gains(counts, left, right):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return what a posting of each term (2, terms) saves by leaving its side; *left* and *right* are the sides' sizes."""
    gains = np.zeros(counts.shape)
    for term in range(counts.shape[1]):
        here, there = counts[:, term]
        if here + there:
            now = _cost(here, left) + _cost(there, right)
            gains[0, term] = now - _cost(here - 1, left) - _cost(there + 1, right)
            gains[1, term] = now - _cost(here + 1, left) - _cost(there - 1, right)
    return gains


@njit(cache=True)
def _cost(count, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return roughly how many bits the gaps of *count* postings among *size* documents take."""
    return count * np.log2(size / (count + 1.0)) if count > 0 else 0.0
