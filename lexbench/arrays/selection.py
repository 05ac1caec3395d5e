"""The k largest of many numbers, for compiled loops: numba takes seconds to compile numpy's partition."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexbench.compiling.loops import njit

_FEW = 12  # numbers sorted by insertion


@njit(nogil=True, cache=True)
def select(numbers: NDArray[Any], count: int | np.int64, k: int | np.int64) -> None:
    """Move the *k* largest of the first *count* of *numbers* to the front, the least of them last; do nothing if k > count.

    Hoare's quickselect without branches: each number is written to both ends of a spare array, and only one end moves on. The
    processor has no branch to mispredict, so this takes a third of the time.
    """
    if count < k:
        return
    spare = np.empty(count, numbers.dtype)
    low, high = np.int64(0), np.int64(count)  # numbers before *low* are among the largest; the k-th is before *high*
    while high - low > _FEW:
        first, middle, last = numbers[low], numbers[(low + high) >> 1], numbers[high - 1]
        pivot = max(min(first, middle), min(max(first, middle), last))
        up, down = np.uint64(low), np.uint64(high - 1)
        for i in range(low, high):
            number = numbers[np.uint64(i)]
            larger = np.uint64(number > pivot)
            spare[up] = number
            spare[down] = number
            up += larger
            down -= np.uint64(1) - larger
        for i in range(low, high):  # not a slice: numba takes 1.5 s to compile its copy and the error for wrong sizes
            numbers[np.uint64(i)] = spare[np.uint64(i)]
        if np.int64(up) >= k:
            high = np.int64(up)
        elif np.int64(up) > low:
            low = np.int64(up)
        else:  # the pivot is the largest: it and its equals go to the front
            low = _equals_first(numbers, low, high, pivot)
            if low >= k:
                return
    for i in range(low + 1, high):
        number, at = numbers[i], i
        while at > low and numbers[at - 1] < number:
            numbers[at] = numbers[at - 1]
            at -= 1
        numbers[at] = number


@njit(nogil=True, cache=True)
def _equals_first(numbers, low, high, largest):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Move the numbers that equal the *largest* from *low* to *high* to the front; return where the others begin."""
    for i in range(low, high):
        if not numbers[i] < largest:  # so that this ends even if one is NaN
            numbers[i], numbers[low] = numbers[low], numbers[i]
            low += 1
    return low


@njit(nogil=True, cache=True)
def mark_largest(offsets, weights, k, cut, largest):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Clear *largest* (nonzeros,) for the weights of each CSR row that are not among its *k* largest.

    Of weights that equal the k-th largest all stay, or with *cut* the first ones, so that k stay.
    """
    for row in range(len(offsets) - 1):
        start, stop = offsets[row], offsets[row + 1]
        if stop - start <= k:
            continue
        ranked = weights[start:stop].copy()
        select(ranked, stop - start, k)
        bar = ranked[k - 1]
        level = stop - start  # how many weights that equal the bar may stay
        if cut:
            level = k
            for i in range(start, stop):
                level -= weights[i] > bar
        for i in range(start, stop):
            level -= weights[i] == bar
            largest[i] = weights[i] > bar or (weights[i] == bar and level >= 0)
