"""The inner loop of `impact`: add up the postings of a query, one window after another, and keep the best k documents.

Term at a time within a window (H. Turtle and J. Flood, "Query evaluation: strategies and optimizations", 1995), on
windows whose sums stay in the first-level cache. Gaps become places as they are added. While a list's postings of one window
are added those of the next are prefetched, which saves a third of their time where the index is larger than the caches. Dense
lists are added when the window is swept for its best documents: their sums then never leave the registers.

Sums above a bar become keys (see best_k). The bar is the k-th best score when there were last many keys, or a guess from the
documents so far. If fewer than k sums turn out to be above a bar that was a guess, the query is searched again without
guessing, so hits are always exact.

Dense lists that can add least wait: they are added to a block only if one of its sums could get above the bar by all that
they can add (Turtle and Flood's MaxScore, a block at a time). That changes no hit.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lexbench.engines.kernels.impact_lists import formed, place_of
from lexbench.engines.kernels.llvm import AHEAD, BLOCK, CURSOR, NARROW, SHORT, add, ones, prefetch, sweep, trailing_zeros
from lexbench.selection import select

_SPARE = 64  # keys beyond twice k, after which the bar is raised
_DEVIATIONS, _AT_LEAST = 4.0, 8  # how careful a guess is
SHARE = 0.4  # of the bar: what lists that wait may add together at most; less while waiting does not pay
_PAYS = 2  # lists fewer a block are added where waiting pays, as looking at sums costs time too
_PATIENCE = 6  # a call goes on guessing while no more than a third of its guesses, and two, were wrong


@njit(nogil=True, cache=True)
def lists_of(starts, terms, weights, lists, largest):  # type: ignore[no-untyped-def]
    """Return the lists that queries need, as four arrays, whether all weights are valid, and the largest possible score.

    Queries are a CSR matrix of *starts*, *terms* and *weights*; *lists* (2, vocabulary) and *largest* (vocabulary,) are as in
    impact_index. The arrays: where the lists of each query start (queries + 1,), the lists, their factors, and the most
    that each adds to a sum.
    """
    list_starts = np.zeros(len(starts), np.int64)
    query_lists, factors, bounds = np.empty((3, 2 * len(terms)), np.int32)
    count, most, valid = 0, np.int64(0), True
    for query in range(len(starts) - 1):
        bound = np.int64(0)
        for i in range(starts[query], starts[query + 1]):
            if not (0 <= weights[i] <= 65_535 and weights[i] == np.floor(weights[i])):  # noqa: PLR2004 - as in impacts()
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
    starts: NDArray[np.int64],  # these four as in impact_index
    window: int,
    documents: int,
    query_starts: NDArray[np.int64],  # (queries + 1,) the lists of query q are lists[query_starts[q]:query_starts[q + 1]]
    lists: NDArray[np.int32],  # (query lists,)
    factors: NDArray[np.int32],  # (query lists,) what a list's weights are multiplied with
    bounds: NDArray[np.int32],  # (query lists,) the most that a list adds to a sum
    share: float,  # SHARE; 0 where no list is to wait
    expands: bool,  # noqa: FBT001 - whether the machine spreads bytes by a mask in one instruction
    passes: NDArray[np.int64],  # (queries,) out: how often a query was searched, twice where a guess was wrong
    best: NDArray[np.uint64],  # (queries, k) out: flipped keys of the best, in no order; untouched where there are no more
) -> None:
    """Find the best k documents of each query. No sum may reach 2**31."""
    k = best.shape[1]
    sums, block_sums = np.zeros(window, np.int32), np.empty(BLOCK, np.int32)
    keys = np.empty(2 * k + _SPARE, np.uint64)
    guessed = wrong = 0  # queries
    for query in range(len(best)):
        first, last = query_starts[query], query_starts[query + 1]
        sample = documents if 3 * wrong <= guessed + _PATIENCE else 0
        guessed += sample > 0
        while True:
            passes[query] += 1
            cursors = np.empty((last - first, CURSOR), np.int64)
            of_query = lists[first:last], factors[first:last], bounds[first:last]
            sparse, swept = _point(gaps, weights, bitmaps, starts, *of_query, expands, cursors)
            kinds = cursors[:sparse], cursors[sparse : sparse + swept], cursors[sparse + swept :]
            count, floor = _pass(weights, bitmaps, documents, sums, block_sums, *kinds, share, sample, keys, k)
            if floor == 0 or (count >= k and np.int32(keys[k - 1] >> np.uint64(32)) > floor):
                break
            sample = 0  # no guessing
            wrong += 1
        for i in range(min(count, k)):
            best[query, i] = ~keys[i]


@njit(nogil=True, cache=True)
def unpacked(best):  # type: ignore[no-untyped-def]
    """Return the keys that `search` leaves (queries, k) as positions and scores, -1 and -inf where there is none."""
    docs, scores = np.empty(best.shape, np.int32), np.empty(best.shape, np.float32)
    for query in range(len(best)):
        for i in range(best.shape[1]):
            key = best[query, i]
            docs[query, i] = np.int32(np.uint32(key))  # no document is -1
            scores[query, i] = np.float32(~key >> np.uint64(32)) if docs[query, i] >= 0 else -np.inf
    return docs, scores


@njit(nogil=True, cache=True)
def _pass(weights, bitmaps, documents, sums, block_sums, sparse, dense, wide, most, sample, keys, k):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Go through all windows; return the number of keys, the best k first, and the largest bar that was a guess, 0 for none.

    *sparse*, *dense* and *wide* are cursors as `_point` has them. Lists that wait can add the share *most* of the bar, at most.
    Guesses are as of *sample* documents, of which 0 have none.
    """
    count = bar = floor = np.int64(0)  # a bare 0, or int32, is a type of its own, for which all would be compiled again
    share, blocks = most, len(sums) // BLOCK
    for number in range(-(-documents // len(sums))):
        for i in range(len(sparse)):
            row = sparse[i]
            row[0] = add(row[0], row[3], row[1], np.int32(row[2]), sums.ctypes.data, len(sums))
        for i in range(len(wide)):
            _add_bits(bitmaps, weights, wide[i], number, sums)
        first, rest = split(dense, share * bar)
        count, bar, floor, reached = _sweep(
            bitmaps, sums, block_sums, dense, first, rest, number, sample, keys, count, bar, floor, k
        )
        if count > k + k // 4:  # there may be room for many more, but a higher bar is worth it
            select(keys, count, k)
            count, bar = k, np.int64(keys[k - 1] >> np.uint64(32))
        if first < len(dense) and (len(dense) - first) * (blocks - reached) < _PAYS * blocks:
            share /= 2
        else:
            share = min(share * 1.05, most)
    select(keys, count, k)
    return count, floor


@njit(nogil=True, cache=True)
def _point(gaps, weights, bitmaps, starts, lists, factors, bounds, expands, cursors):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Fill *cursors* with a row a list, and return how many lists are sparse and how many are for `sweep`.

    The rows of sparse lists come first: address, bits of a gap, factor, bytes of a count. Then come those for `sweep`, as it
    takes them, but for what `split` fills in; those that can add most come first. Last are those of other dense lists.
    """
    sparse = swept = 0
    for i in range(len(lists)):
        if starts[lists[i], 1] < 0:
            sparse += 1
        elif expands and factors[i] <= NARROW:
            swept += 1
    places = np.array([0, sparse, sparse + swept])
    for i in range(len(lists)):
        start, form = starts[lists[i]]
        kind = 0 if form < 0 else 1 if expands and factors[i] <= NARROW else 2
        row = cursors[places[kind]]
        row[2] = factors[i]
        if kind == 0:
            row[0] = gaps.ctypes.data + start
            row[1], row[3] = formed(form)
        else:
            row[0], row[1], row[3] = bitmaps.ctypes.data + 8 * bitmaps.shape[1] * form, weights.ctypes.data + start, 1
            prefetch(row[1])
        if kind == 1:
            row[2] *= 65_537  # see `sweep`
            row[4] = bounds[i]
        prefetch(row[0])
        places[kind] += 1
    for i in range(sparse + 1, sparse + swept):
        while i > sparse and cursors[i, 4] > cursors[i - 1, 4]:
            for column in range(CURSOR):
                cursors[i, column], cursors[i - 1, column] = cursors[i - 1, column], cursors[i, column]
            i -= 1  # noqa: PLW2901 - the row that moves up
    return sparse, swept


@njit(nogil=True, cache=True)
def split(cursors, limit):  # type: ignore[no-untyped-def]
    """Return how many of the lists for `sweep` are added to every block, and what the others, which wait, add at most.

    Those are the last that add no more than *limit* together, or none where so few could not pay. Set in each row whether the
    list is the last of those that `sweep` adds up in 16 bits, as the last that is added to every block must be.
    """
    first, rest = len(cursors), 0
    while first and rest + cursors[first - 1, 4] <= limit:
        first -= 1
        rest += cursors[first, 4]
    if len(cursors) - first <= _PAYS:
        first, rest = len(cursors), 0
    room = 0
    for i in range(len(cursors)):
        cursors[i, 3] = 1
        if i != first and cursors[i, 4] <= room:
            cursors[i - 1, 3] = 0
        else:
            room = SHORT
        room -= cursors[i, 4]
    return first, np.int32(rest)


@njit(nogil=True, cache=True)
def _sweep(bitmaps, sums, block_sums, cursors, first, rest, number, documents, keys, count, bar, floor, k):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Collect what is above the bar in window *number*; *first* and *rest* are what `split` says of the *cursors*.

    Return the number of keys, the new bar, the new largest guess, and to how many blocks the lists that wait were added.
    """
    blocks, reached, waiting, words = len(sums) // BLOCK, 0, len(cursors) - first, bitmaps.reshape(-1)
    for block in range(number * blocks, (number + 1) * blocks):
        at = sums.ctypes.data + 4 * BLOCK * (block - number * blocks)
        above = sweep(at, cursors.ctypes.data, first, block, bar - rest, block_sums.ctypes.data)
        if waiting and above:
            reached += 1
            above = sweep(block_sums.ctypes.data, cursors[first:].ctypes.data, waiting, block, bar, block_sums.ctypes.data)
        elif waiting:
            for i in range(first, len(cursors)):
                prefetch(cursors[i, 1] + BLOCK)
                prefetch(cursors[i, 0] + 8 * block + AHEAD[1])
                cursors[i, 1] += ones(words[np.uint64((cursors[i, 0] - bitmaps.ctypes.data) >> 3) + np.uint64(block)])
        while above:
            i = trailing_zeros(above)
            above &= above - np.uint64(1)
            if block_sums[i] > bar:
                keys[count] = (np.uint64(block_sums[i]) << np.uint64(32)) | np.uint64(~np.uint32(block * BLOCK + i))
                count += 1
                if count == len(keys):
                    select(keys, count, k)
                    count, bar = k, np.int32(keys[k - 1] >> np.uint64(32))
        if block & (block + 1) == 0 and block > 1 and (block + 1) * BLOCK < documents:
            count, bar, floor = _guess((block + 1) * BLOCK / documents, keys, count, bar, floor, k)
    return count, bar, floor, reached


@njit(nogil=True, cache=True)
def _guess(seen, keys, count, bar, floor, k):  # type: ignore[no-untyped-def]
    """Raise the bar to just below what the k-th document will probably score, after the share *seen* of all documents.

    Return the number of keys, the bar, and the largest bar that was a guess; all unchanged where it is too early for a guess.
    If the documents so far are a fair sample, the k-th of all has the rank k * seen among them, give or take the root of that:
    the guess is the score a few deviations further down. Equals of that score are kept, as the k-th is often one of many.
    """
    expected = k * seen
    rank = np.int64(expected + _DEVIATIONS * np.sqrt(expected) + _AT_LEAST)
    if rank < min(count, k):
        select(keys, count, rank)
        least = np.int32(keys[rank - 1] >> np.uint64(32)) - np.int32(1)
        if least > bar:
            count_above = rank
            for i in range(rank, count):
                if np.int32(keys[i] >> np.uint64(32)) > least:
                    keys[count_above] = keys[i]
                    count_above += 1
            return count_above, least, least
    return count, bar, floor


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
