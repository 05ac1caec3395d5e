"""The compiled loop of `impact`: it adds up the postings of a query, one window after another, and keeps the best k documents.

Term at a time within a window (H. Turtle and J. Flood, "Query evaluation: strategies and optimizations", 1995), so that the
sums stay in the first-level cache. Gaps become places as they are added. While the postings of one window are added, those of
the next are prefetched, which saves a third of the time where the index is larger than the caches. Dense lists are added while
the window is swept for its best documents: their sums never leave the registers.

Sums above a *bar* become keys (see `dense.Best`). The bar is the k-th best score when the keys were last sorted out.
"""

import numpy as np
from numpy.typing import NDArray

from lexbench.arrays.selection import select
from lexbench.compiling.loops import njit
from lexbench.engines.kernels.impact_index import place_of
from lexbench.engines.kernels.llvm import BLOCK, CURSOR, NARROW, SHORT, add, prefetch, sweep, trailing_zeros

_SPARE = 64  # keys beyond twice k before the bar is raised


@njit(nogil=True, cache=True)
def lists_of(starts, terms, weights, lists, largest):  # type: ignore[no-untyped-def]
    """Return the lists that queries need, whether all weights are valid, and the largest possible score.

    Queries are a CSR matrix of *starts*, *terms* and *weights*; *lists* (2, vocabulary) and *largest* (vocabulary,) are those
    of impact_index. Four arrays describe the lists: the start of those of each query (queries + 1,), their numbers, their
    factors, and the most that each adds to a sum.
    """
    list_starts = np.zeros(len(starts), np.int64)
    query_lists, factors, bounds = np.empty((3, 2 * len(terms)), np.int32)
    count, most, valid = 0, np.int64(0), True
    for query in range(len(starts) - 1):
        bound = np.int64(0)
        for i in range(starts[query], starts[query + 1]):
            if not (0 <= weights[i] <= 65_535 and weights[i] == np.floor(weights[i])):  # noqa: PLR2004 - as in whole_weights()
                valid = False
                continue
            weight, term = np.int64(weights[i]), terms[i]
            bound += weight * largest[term]
            for plane in range(2):
                if weight and lists[plane, term] >= 0:
                    query_lists[count], factors[count] = lists[plane, term], weight << 8 * plane
                    bounds[count] = factors[count] * (largest[term] >> 8 if plane else min(largest[term], 255))
                    count += 1
        list_starts[query + 1] = count
        most = max(most, bound)
    return list_starts, query_lists[:count], factors[:count], bounds[:count], valid, most


@njit(nogil=True, cache=True)
def search(  # noqa: PLR0913, PLR0917 - tuples of arrays would take numba several times as long to compile
    gaps: NDArray[np.uint8],
    weights: NDArray[np.uint8],
    bitmaps: NDArray[np.uint64],
    starts: NDArray[np.int64],  # these four are files of impact_index
    window: int,
    documents: int,
    query_starts: NDArray[np.int64],  # (queries + 1,) the lists of query q are lists[query_starts[q]:query_starts[q + 1]]
    lists: NDArray[np.int32],  # (query lists,)
    factors: NDArray[np.int32],  # (query lists,) what the weights of a list are multiplied with
    bounds: NDArray[np.int32],  # (query lists,) the most that a list adds to a sum
    expands: bool,  # noqa: FBT001 - llvm.machine_expands
    best: NDArray[np.uint64],  # (queries, k) out: flipped keys of the best in no order; untouched where there are no more
) -> None:
    """Find the best k documents of each query. No sum may reach 2**31."""
    k = best.shape[1]
    sums, block_sums = np.zeros(window, np.int32), np.empty(BLOCK, np.int32)
    keys = np.empty(2 * k + _SPARE, np.uint64)
    for query in range(len(best)):
        own = slice(query_starts[query], query_starts[query + 1])
        cursors = np.empty((own.stop - own.start, CURSOR), np.int64)
        sparse, swept = _point(gaps, weights, bitmaps, starts, lists[own], factors[own], bounds[own], expands, cursors)
        kinds = cursors[:sparse], cursors[sparse : sparse + swept], cursors[sparse + swept :]
        count = _pass(weights, bitmaps, documents, sums, block_sums, *kinds, keys, k)
        for i in range(min(count, k)):
            best[query, i] = ~keys[i]  # flipped for the caller, who sorts ascending


@njit(nogil=True, cache=True)
def _point(gaps, weights, bitmaps, starts, lists, factors, bounds, expands, cursors):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Fill *cursors* with one row per list; return how many lists are sparse and how many are for `sweep`.

    Sparse lists come first: address, bits of a gap, factor, bytes of a count. Then come those for `sweep`, in its form. Last
    are the other dense lists: of a factor too large for 16 bits, or all of them on a machine that cannot expand bitmaps.
    """
    sparse = swept = 0
    for i in range(len(lists)):
        if starts[lists[i], 1] < 0:
            sparse += 1
        elif expands and factors[i] <= NARROW:
            swept += 1
    places = np.array([0, sparse, sparse + swept])
    # Lists for `sweep` form groups whose sums fit in 16 bits, because a vector holds twice as many of them as of 32 bits.
    room = -1  # what the group may still add to a sum; negative before the first list, which opens a group
    for i in range(len(lists)):
        start, form = starts[lists[i]]
        kind = 0 if form < 0 else 1 if expands and factors[i] <= NARROW else 2
        row = cursors[places[kind]]
        row[2] = factors[i]
        if kind == 0:
            row[0] = gaps.ctypes.data + start
            row[1], row[3] = -form & 15, -form >> 4  # see `_pack_lists`
        else:
            row[0], row[1], row[3] = bitmaps.ctypes.data + 8 * bitmaps.shape[1] * form, weights.ctypes.data + start, 1
            prefetch(row[1])
        if kind == 1:
            row[2] *= 65_537  # the factor twice, see `sweep`
            if bounds[i] <= room:
                cursors[places[kind] - 1, 3] = 0  # the list before is not the last that fits in 16 bits
            else:
                room = SHORT
            room -= bounds[i]
        prefetch(row[0])
        places[kind] += 1
    return sparse, swept


@njit(nogil=True, cache=True)
def _pass(weights, bitmaps, documents, sums, block_sums, sparse, dense, wide, keys, k):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Go through all windows; return the number of keys, the best k first. The last lists are the cursors of `_point`."""
    count = bar = np.int64(0)  # np.int64 and not a plain 0: numba would compile all callees again
    for number in range(-(-documents // len(sums))):
        for i in range(len(sparse)):
            row = sparse[i]
            row[0] = add(row[0], row[3], row[1], np.int32(row[2]), sums.ctypes.data, len(sums))
        for i in range(len(wide)):
            _add_bits(bitmaps, weights, wide[i], number, sums)
        count, bar = _sweep(sums, block_sums, dense, number, keys, count, bar, k)
        # There may be room for many more keys, but a higher bar keeps documents of the next windows out.
        if count > k + k // 4:
            select(keys, count, k)
            count, bar = k, np.int64(keys[k - 1] >> np.uint64(32))
    select(keys, count, k)
    return count


@njit(nogil=True, cache=True)
def _sweep(sums, block_sums, cursors, number, keys, count, bar, k):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Add the dense lists of *cursors* to window *number*, collect keys, and clear the *sums*; return (keys, bar)."""
    blocks = len(sums) // BLOCK
    for block in range(number * blocks, (number + 1) * blocks):
        at = sums.ctypes.data + 4 * BLOCK * (block - number * blocks)
        above = sweep(at, cursors.ctypes.data, len(cursors), block, np.int32(bar), block_sums.ctypes.data)
        while above:
            i = trailing_zeros(above)
            above &= above - np.uint64(1)
            if block_sums[i] > bar:  # the bar may have risen since
                keys[count] = (np.uint64(block_sums[i]) << np.uint64(32)) | np.uint64(~np.uint32(block * BLOCK + i))
                count += 1
                if count == len(keys):
                    select(keys, count, k)
                    count, bar = k, np.int64(keys[k - 1] >> np.uint64(32))
    return count, bar


@njit(nogil=True, cache=True)
def _add_bits(bitmaps, weights, cursor, number, sums):  # type: ignore[no-untyped-def]
    """Add a dense list to the sums of window *number*, one bit after another."""
    at = cursor[1] - weights.ctypes.data
    words = bitmaps.reshape(-1)[(cursor[0] - bitmaps.ctypes.data) // 8 + number * len(sums) // BLOCK :]
    for block in range(len(sums) // BLOCK):
        word = words[block]
        while word:
            sums[block * BLOCK + place_of(trailing_zeros(word))] += np.int32(weights[at]) * np.int32(cursor[2])
            word &= word - np.uint64(1)
            at += 1
    cursor[1] = weights.ctypes.data + at
