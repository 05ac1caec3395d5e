"""The best k of the sums that `impact` has seen so far, and a guess of what a sum must be to be among them in the end.

A document that may be among the best is a key, a whole number: its score, then its position with all bits flipped, as the
lower position wins ties. The larger key ranks first. Sums must be above the bar, which is the k-th best score when there were
last enough to tell, or a guess from the documents so far.
"""

import numpy as np
from numba import njit

_FEW = 12  # keys that are put in order one by one
_DEVIATIONS, _AT_LEAST = 4.0, 8  # how careful a guess is


@njit(nogil=True, cache=True)
def guess(seen, keys, spare, count, bar, floor, k):  # type: ignore[no-untyped-def]
    """Raise the bar to just below what the k-th will probably score, after the part *seen* of all documents.

    Return the number of keys, the bar, and the largest bar that was a guess: as they were, where it is too early for one.
    If they are a fair sample, a document of rank k is of rank k * seen among them, give or take the root of that: the score is
    taken from a few deviations further down. Equals are kept, as the k-th is often one of many.
    """
    expected = k * seen
    rank = np.int64(expected + _DEVIATIONS * np.sqrt(expected) + _AT_LEAST)
    if rank < min(count, k):
        select(keys, count, rank, spare)
        least = np.int32(keys[rank - 1] >> np.uint64(32)) - np.int32(1)
        if least > bar:
            kept = rank
            for i in range(rank, count):
                if np.int32(keys[i] >> np.uint64(32)) > least:
                    keys[kept] = keys[i]
                    kept += 1
            return kept, least, least
    return count, bar, floor


@njit(nogil=True, cache=True)
def select(keys, count, k, spare):  # type: ignore[no-untyped-def]
    """Move the *k* largest of the first *count* distinct keys to the front, the least of them last; *spare* is as long.

    Hoare's quickselect, but each key is written to both ends of *spare* and one of them moves on: no jump to be foreseen.
    """
    if count < k:
        return
    low, high = np.int64(0), np.int64(count)  # those before *low* are among the largest; the k-th is before *high*
    while high - low > _FEW:
        first, middle, last = keys[low], keys[(low + high) >> 1], keys[high - 1]
        pivot = max(min(first, middle), min(max(first, middle), last))
        up, down = np.uint64(low), np.uint64(high - 1)
        for i in range(low, high):
            key = keys[np.uint64(i)]
            larger = np.uint64(key > pivot)
            spare[up] = key
            spare[down] = key
            up += larger
            down -= np.uint64(1) - larger
        keys[low:high] = spare[low:high]
        if np.int64(up) >= k:
            high = np.int64(up)
        else:
            low = np.int64(up)
    for i in range(low + 1, high):
        key, at = keys[i], i
        while at > low and keys[at - 1] < key:
            keys[at] = keys[at - 1]
            at -= 1
        keys[at] = key
