"""Which documents may be among the best of `bm25`'s: their keys, and how they are picked out of a window of sums.

A document that may be among the best is a key, a whole number: the bits of its float32 score, then its position, all of whose
bits are flipped where the lower position is to win ties. The larger key ranks first. The bar is the k-th best key when there
were last enough to tell.
"""

import numpy as np
from numba import njit

from lexbench.selection import select

COMPARED = 64  # sums that are compared together
SPARE = 4  # keys beyond twice k, after which the bar is raised; few, so that it soon is


@njit(nogil=True, cache=True)
def scan(sums, first, flip, keys, count, bar, k):  # type: ignore[no-untyped-def]
    """Collect what beats the bar, and clear the sums, which are whole blocks."""
    for start in range(0, len(sums), COMPARED):
        least = below(bar)
        some = np.uint8(0)
        for i in range(COMPARED):  # no branches and a fixed length: this becomes a few vector instructions
            some |= np.uint8(sums[np.uint64(start + i)] > least)
        if some:
            for i in range(start, start + COMPARED):
                if sums[i] > least:
                    count, bar = collect(sums[i], (first + i) ^ flip, keys, count, bar, k)
        for i in range(COMPARED):  # while they are at hand
            sums[np.uint64(start + i)] = 0.0
    return count, bar


@njit(nogil=True, cache=True)
def visit(docs, first, sums, flip, keys, count, bar, k):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Collect *docs* and clear their sums, so that one that comes again is passed over."""
    for i in range(len(docs)):
        total = sums[docs[i] - first]
        if total > 0:
            count, bar = collect(total, docs[i] ^ flip, keys, count, bar, k)
            sums[docs[i] - first] = 0.0
    return count, bar


@njit(nogil=True, cache=True)
def collect(total, place, keys, count, bar, k):  # type: ignore[no-untyped-def]
    """Take a document with the sum *total* if its key is above the bar; return the number of keys, and the bar."""
    key = (np.uint64(np.float32(total).view(np.uint32)) << np.uint64(32)) | np.uint64(place)
    if key > bar:
        keys[count] = key
        count += 1
        if count == len(keys):
            select(keys, count, k)
            count, bar = k, keys[k - 1]
    return count, bar


@njit(nogil=True, cache=True)
def collect_all(docs, sums, flip, keys, count, bar, k):  # type: ignore[no-untyped-def]
    """Take of *docs*, whose *sums* stand beside them, those whose keys are above the bar; return the same."""
    for i in range(len(docs)):
        count, bar = collect(sums[i], docs[i] ^ flip, keys, count, bar, k)
    return count, bar


@njit(nogil=True, cache=True)
def above(sums, first, least, wanted, wanted_sums):  # type: ignore[no-untyped-def]
    """Put the documents with sums above *least* into *wanted*, ascending, and their sums beside them; return how many.

    *sums* are whole blocks of the window at *first*; all are cleared.
    """
    count = np.int64(0)
    for start in range(0, len(sums), COMPARED):
        some = np.uint8(0)
        for i in range(COMPARED):  # see `scan`
            some |= np.uint8(sums[np.uint64(start + i)] > least)
        if some:
            for i in range(start, start + COMPARED):
                if sums[i] > least:
                    wanted[count], wanted_sums[count] = first + i, sums[i]
                    count += 1
        for i in range(COMPARED):
            sums[np.uint64(start + i)] = 0.0
    return count


@njit(nogil=True, cache=True)
def seen_above(docs, first, sums, least, wanted, wanted_sums):  # type: ignore[no-untyped-def]
    """Do the same where *docs* are all that have a sum, in any order and some of them more than once."""
    count = distinct = np.int64(0)
    for i in range(len(docs)):
        if sums[docs[i] - first] > least:
            wanted[count] = docs[i]
            count += 1
        else:
            sums[docs[i] - first] = 0.0
    _sort(wanted, count)
    for i in range(count):
        if sums[wanted[i] - first] > 0:  # once
            wanted[distinct], wanted_sums[distinct] = wanted[i], sums[wanted[i] - first]
            sums[wanted[i] - first] = 0.0
            distinct += 1
    return distinct


@njit(nogil=True, cache=True)
def _sort(numbers, count):  # type: ignore[no-untyped-def]
    """Sort the first *count* of *numbers*: Shell's sort, as numba takes seconds to compile numpy's."""
    step = count // 2
    while step:
        for i in range(step, count):
            number, at = numbers[i], i
            while at >= step and numbers[at - step] > number:
                numbers[at] = numbers[at - step]
                at -= step
            numbers[at] = number
        step //= 2


@njit(nogil=True, cache=True)
def below(bar):  # type: ignore[no-untyped-def]
    """Return a score above which a sum must be to beat the *bar*, a key.

    Sums are not yet rounded to float32: those above the float32 number below the bar's can become equal to the bar's.
    """
    return np.uint32(max(bar >> np.uint64(32), np.uint64(1)) - np.uint64(1)).view(np.float32)
