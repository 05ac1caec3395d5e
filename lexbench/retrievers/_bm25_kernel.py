"""The inner loop of `bm25`: add up the scores of every posting of every query term, and keep the best k documents.

Term at a time over windows of positions, so that the running sums stay in the second-level cache. numba compiles it on first
use and keeps the result; it runs without the interpreter's lock. Indices that are cast to unsigned are so that numba does not
look whether they are negative.

What a posting is worth depends on its term's weight and on its pair (term frequency, length class) alone, and a collection
has a few thousand pairs. A posting therefore carries the number of its pair, and the scores of a term are worked out once a
pair, not once a posting.

A document that may be among the best is a key, a whole number: the bits of its float32 score, then its position, all of whose
bits are flipped where the lower position is to win ties. The larger key ranks first. The bar is the k-th best key when there
were last enough to tell.
"""

from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

WINDOW = 1 << 16  # positions; with 8 bytes each, half of a common second-level cache
_BLOCK = 64  # sums that are compared together; divides WINDOW
_SPARE = 4  # keys beyond twice k, after which the bar is raised; few, so that it soon is
_SPARSE = 32  # where fewer than one in so many positions of a window can have a sum, its postings are read again instead

_Ints: TypeAlias = NDArray[np.int64]
_Floats: TypeAlias = NDArray[np.float32]


@njit(nogil=True, cache=True)
def search(  # noqa: PLR0913, PLR0917 - tuples of arrays would take numba five times as long to compile
    offsets: _Ints,  # (terms + 1,) the postings of term t are offsets[t]:offsets[t + 1]
    docs: NDArray[np.int32],  # (postings,) positions, ascending within a term
    pairs: NDArray[np.unsignedinteger],  # (postings,)
    ratios: _Floats,  # (pairs,) 1 + frequency / norm
    starts: _Ints,  # (queries + 1,) the terms of query q are terms[starts[q]:starts[q + 1]]
    terms: NDArray[np.int32],  # (query terms,) without repetition within a query
    weights: _Floats,  # (query terms,)
    documents: int,
    flip: np.uint64,  # what positions are combined with, by exclusive or: 0 or 2**32 - 1
    best: NDArray[np.uint64],  # (queries, k) out: the keys of the best, in no order; zeros where there are no more
) -> None:
    """Find the best k of *documents* documents for each query."""
    k = best.shape[1]
    sums = np.zeros(WINDOW)
    keys = np.empty(2 * k + _SPARE, np.uint64)
    for query in range(len(best)):
        first_term, size = starts[query], starts[query + 1] - starts[query]
        scores = np.empty((size, len(ratios)), np.float32)
        at, before = np.empty(size, np.int64), np.empty(size, np.int64)
        for i in range(size):
            at[i] = offsets[terms[first_term + i]]
        count, bar = 0, np.uint64(0)
        for first in range(0, documents, WINDOW):
            length = min(WINDOW, documents - first)
            touched = 0
            for i in range(size):
                start, stop = offsets[terms[first_term + i]], offsets[terms[first_term + i] + 1]
                before[i] = at[i]
                at[i] = _first_at(docs, at[i], stop, first + length)
                own_docs, own_pairs = docs[before[i] : at[i]], pairs[before[i] : at[i]]
                if stop - start < len(ratios):
                    _add_rare(own_docs, own_pairs, weights[first_term + i], ratios, first, sums)
                else:
                    if first == 0:
                        _score(weights[first_term + i], ratios, scores[i])
                    _add(own_docs, own_pairs, scores[i], first, sums)
                touched += len(own_docs)
            if touched * _SPARSE > length:
                blocks = (length + _BLOCK - 1) // _BLOCK
                count, bar = _scan(sums[: blocks * _BLOCK], first, flip, keys, count, bar, k)
            else:
                for i in range(size):
                    count, bar = _visit(docs[before[i] : at[i]], first, sums, flip, keys, count, bar, k)
        _select(keys, count, k)
        for i in range(min(count, k)):
            best[query, i] = keys[i]


@njit(nogil=True, cache=True)
def _first_at(docs, low, high, position):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the first of the postings *low* to *high* at or after *position*; *high* if there is none."""
    while low < high:
        middle = (low + high) >> 1
        if docs[middle] < position:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True, cache=True)
def _score(weight, ratios, scores):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Fill *scores* with Lucene's w - w / ratio, rounded to float32 at each step."""
    for i in range(len(ratios)):
        scores[i] = weight - weight / ratios[i]


@njit(nogil=True, cache=True)
def _add(docs, pairs, scores, first, sums):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add the scores of postings to the sums of the window at *first*."""
    for i in range(len(docs)):
        sums[np.uint64(docs[i] - first)] += scores[pairs[i]]


@njit(nogil=True, cache=True)
def _add_rare(docs, pairs, weight, ratios, first, sums):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Do the same for a term that has fewer postings than there are pairs."""
    for i in range(len(docs)):
        sums[np.uint64(docs[i] - first)] += weight - weight / ratios[pairs[i]]


@njit(nogil=True, cache=True)
def _scan(sums, first, flip, keys, count, bar, k):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Collect what beats the bar, and clear the sums, which are whole blocks."""
    for start in range(0, len(sums), _BLOCK):
        # Sums are not yet rounded to float32: those above the float32 number below the bar's can become equal to the bar's.
        least = np.uint32(max(bar >> np.uint64(32), np.uint64(1)) - np.uint64(1)).view(np.float32)
        above = np.uint8(0)
        for i in range(_BLOCK):  # no branches and a fixed length: this becomes a few vector instructions
            above |= np.uint8(sums[np.uint64(start + i)] > least)
        if above:
            for i in range(start, start + _BLOCK):
                if sums[i] > least:
                    count, bar = _collect(sums[i], (first + i) ^ flip, keys, count, bar, k)
    for i in range(len(sums)):
        sums[i] = 0.0
    return count, bar


@njit(nogil=True, cache=True)
def _visit(docs, first, sums, flip, keys, count, bar, k):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0913, PLR0917
    """Collect the documents of a term's postings and clear their sums, so that the next term passes them over."""
    for i in range(len(docs)):
        total = sums[docs[i] - first]
        if total > 0:
            count, bar = _collect(total, docs[i] ^ flip, keys, count, bar, k)
            sums[docs[i] - first] = 0.0
    return count, bar


@njit(nogil=True, cache=True)
def _collect(total, place, keys, count, bar, k):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    key = (np.uint64(np.float32(total).view(np.uint32)) << np.uint64(32)) | np.uint64(place)
    if key > bar:
        keys[count] = key
        count += 1
        if count == len(keys):
            _select(keys, count, k)
            count, bar = k, keys[k - 1]
    return count, bar


@njit(nogil=True, cache=True)
def _select(keys, count, k):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Move the *k* largest of the first *count* keys to the front, the least of them last: Hoare's quickselect."""
    low, high = 0, count - 1
    while low < high:
        pivot = keys[(low + high) >> 1]
        i, j = low, high
        while i <= j:
            while keys[i] > pivot:
                i += 1
            while keys[j] < pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
