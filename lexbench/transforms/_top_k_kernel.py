"""The inner loop of `top_k`."""

from numba import njit

from lexbench.selection import select


@njit(nogil=True, cache=True)
def mark(offsets, weights, k, cut, largest):  # type: ignore[no-untyped-def]
    """Clear *largest* (nonzeros,) for the weights of each row that are not among its *k* largest; *cut* as the setting."""
    for row in range(len(offsets) - 1):
        start, stop = offsets[row], offsets[row + 1]
        if stop - start <= k:
            continue
        ranked = weights[start:stop].copy()
        select(ranked, stop - start, k)
        bar = ranked[k - 1]
        level = stop - start  # how many of those that equal the bar may stay
        if cut:
            level = k
            for i in range(start, stop):
                level -= weights[i] > bar
        for i in range(start, stop):
            level -= weights[i] == bar
            largest[i] = weights[i] > bar or (weights[i] == bar and level >= 0)
