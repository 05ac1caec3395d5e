"""The inner loop of `top_k`. numpy's partition is not called here: numba takes three seconds to compile it."""

from numba import njit


@njit(nogil=True, cache=True)
def mark(offsets, weights, k, cut, largest):  # type: ignore[no-untyped-def]
    """Clear *largest* (nonzeros,) for the weights of each row that are not among its *k* largest; *cut* as the setting."""
    for row in range(len(offsets) - 1):
        start, stop = offsets[row], offsets[row + 1]
        if stop - start <= k:
            continue
        bar = _kth_largest(weights[start:stop].copy(), k)
        level = stop - start  # how many of those that equal the bar may stay
        if cut:
            level = k
            for i in range(start, stop):
                level -= weights[i] > bar
        for i in range(start, stop):
            level -= weights[i] == bar
            largest[i] = weights[i] > bar or (weights[i] == bar and level >= 0)


@njit(nogil=True, cache=True)
def _kth_largest(weights, k):  # type: ignore[no-untyped-def]
    """Return the *k*-th largest of *weights*, which are put into another order: Hoare's quickselect."""
    low, high = 0, len(weights) - 1
    while low < high:
        pivot = weights[(low + high) >> 1]
        i, j = low, high
        while i <= j:
            while weights[i] > pivot:
                i += 1
            while weights[j] < pivot:
                j -= 1
            if i <= j:
                weights[i], weights[j] = weights[j], weights[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
    return weights[k - 1]
