"""The compiled loop of `top_k`."""

from numba import njit

from lexbench.selection import select


@njit(nogil=True, cache=True)
def mark(offsets, weights, k, cut, largest):  # type: ignore[no-untyped-def]
    """Set *largest* (nonzeros,) to False for weights that are not among the *k* largest of their row.

    With *cut*, exactly k weights stay: among equal weights those with the lower term ids.
    """
    for row in range(len(offsets) - 1):
        start, stop = offsets[row], offsets[row + 1]
        if stop - start <= k:
            continue
        ranked = weights[start:stop].copy()
        select(ranked, stop - start, k)
        bar = ranked[k - 1]
        level = stop - start  # how many weights equal to the bar may stay
        if cut:
            level = k
            for i in range(start, stop):
                level -= weights[i] > bar
        for i in range(start, stop):
            level -= weights[i] == bar
            largest[i] = weights[i] > bar or (weights[i] == bar and level >= 0)
