"""The inner loop of `bm25`: add up the scores of every posting of every query term, and keep the best k documents.

Term at a time over windows of positions, so that the running sums stay in the second-level cache. Postings are unpacked a block
at a time (see _bm25_postings). numba compiles it on first use and keeps the result; it runs without the interpreter's lock.
Indices that are cast to unsigned are so that numba does not look whether they are negative.

What a posting is worth depends on its term's weight, its frequency and its document's length class alone. So the scores of a
term are worked out once for each class and each frequency below COMMON, not once a posting.

Where few of many documents are asked for, terms that weigh least wait: as long as all of them together are worth no more than a
share of the bar (see _bm25_keys), they are looked up in those documents alone that could get above it with them (MaxScore: H.
Turtle and J. Flood, "Query evaluation: strategies and optimizations", 1995). That changes no key: what float32 numbers of
similar size add up to in float64 is exact, in whatever order.
"""

from typing import Any, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lexbench.retrievers._bm25_keys import COMPARED, SPARE, above, below, collect_all, scan, seen_above, visit
from lexbench.retrievers._bm25_postings import BLOCK, codes_at, skip, unpack, word_at
from lexbench.selection import select

WINDOW = 1 << 16  # positions; with 8 bytes each, half of a common second-level cache
COMMON_BITS = 4  # of a frequency, less 1, that is common
COMMON = 1 << COMMON_BITS
_FIRST = WINDOW >> 3  # positions of the first window where terms wait, as they cannot before there is a bar
_MOST_AT_ONCE, _WORD = 16, 57  # codes of one reading, at most, a power of 2; bits of a word, less 7 that may be of codes before
_WORTHWHILE = 128  # postings of a term for which it pays to work out its scores
SHARE = 0.2  # of the bar's score: what terms that wait may be worth together, less while waiting does not pay
_PAYS = 64  # postings for each document that they are looked up in
MANY = 1 << 12  # documents of the collection for each that is asked for, from which on waiting pays
_EXACT = 2.0**28  # how many times the least score all scores may be together, so that their sums in float64 are exact
_SPARSE = 32  # where fewer than one in so many positions of a window can have a sum, they are looked up one by one

_Ints: TypeAlias = NDArray[np.int64]
_Floats: TypeAlias = NDArray[np.float32]


@njit(nogil=True, cache=True)
def search(  # noqa: PLR0913, PLR0917 - tuples of arrays would take numba five times as long to compile
    packed: NDArray[np.uint8],  # see _bm25_postings
    offsets: _Ints,  # (terms,) where the postings of term t begin in it
    sizes: NDArray[np.int32],  # (terms,) how many there are
    classes: NDArray[np.uint8],  # (documents,)
    inverse_norms: _Floats,  # (classes,)
    starts: _Ints,  # (queries + 1,) the terms of query q are terms[starts[q]:starts[q + 1]]
    terms: NDArray[np.int32],  # (query terms,) without repetition within a query
    weights: _Floats,  # (query terms,)
    share: float,  # SHARE, or 0 where no term is to wait
    flip: np.uint64,  # what positions are combined with, by exclusive or: 0 or 2**32 - 1
    best: NDArray[np.uint64],  # (queries, k) out: the keys of the best, in no order; zeros where there are no more
) -> None:
    """Find the best k documents for each query."""
    k, most, shortest = best.shape[1], share, _FIRST if share > 0 else WINDOW
    sums = np.zeros(WINDOW)
    keys, seen = np.empty(2 * k + SPARE, np.uint64), np.empty(WINDOW // _SPARSE + BLOCK, np.int32)
    wanted, wanted_sums = np.empty(WINDOW + 1, np.int32), np.empty(WINDOW + 1)
    for query in range(len(best)):
        own = slice(starts[query], starts[query + 1])
        scores = _scores(sizes, terms[own], weights[own], inverse_norms)
        cursors, docs, frequencies = _cursors(offsets, sizes, terms[own])
        order, worth = _by_weight(weights[own], inverse_norms, share)
        count, bar = np.int64(0), np.uint64(0)  # a bare 0 is a type of its own, for which all would be compiled again
        first: Any = np.int64(0)
        while first < len(classes):
            length: Any = min(WINDOW if first else shortest, len(classes) - first)
            few = length // _SPARSE
            touched = np.int64(0)
            least = below(bar)
            waiting = _lightest(worth, most * least)
            for i in order[waiting:]:
                common = sizes[terms[own][i]] >= _WORTHWHILE
                touched = _add_term(
                    packed, cursors[i], docs[i], frequencies[i], classes, weights[own][i], inverse_norms, common, scores[i],
                    first, first + length, sums, seen, touched, few,
                )  # fmt: skip
            blocks = (length + COMPARED - 1) // COMPARED
            if waiting:
                least -= worth[waiting - 1]
                if touched > few:
                    found = above(sums[: blocks * COMPARED], first, least, wanted, wanted_sums)
                else:
                    found = seen_above(seen[:touched], first, sums, least, wanted, wanted_sums)
                wanted[found], wanted_sums[found] = first + length, 0.0  # up to which every term is read
                postings: Any = np.int64(0)
                for i in order[:waiting]:
                    postings += sizes[terms[own][i]]
                    _look_up(
                        packed, cursors[i], docs[i], frequencies[i], classes, weights[own][i], inverse_norms,
                        wanted[: found + 1], wanted_sums,
                    )  # fmt: skip
                count, bar = collect_all(wanted[:found], wanted_sums, flip, keys, count, bar, k)
                if found * _PAYS > postings / len(classes) * length:
                    most /= 2
            elif touched > few:
                count, bar = scan(sums[: blocks * COMPARED], first, flip, keys, count, bar, k)
            else:
                count, bar = visit(seen[:touched], first, sums, flip, keys, count, bar, k)
            most = min(share, 1.05 * most)
            first += length
        select(keys, count, k)
        for i in range(min(count, k)):
            best[query, i] = keys[i]


@njit(nogil=True, cache=True)
def _by_weight(weights, inverse_norms, share):  # type: ignore[no-untyped-def]
    """Return the numbers of terms, the lightest first, and at *i* no less than what terms 0 to *i* of that order are worth.

    Where none may wait, terms are in their own order, and worth more than any bar.
    """
    order, worth = np.empty(len(weights), np.int64), np.empty(len(weights))
    total, lightest, longest = 0.0, np.float32(np.inf), np.float32(np.inf)
    for i in range(len(weights)):
        order[i], worth[i] = i, np.inf
        total += weights[i]
        lightest = min(lightest, weights[i])
    if share == 0:
        return order, worth
    for inverse_norm in inverse_norms:
        longest = min(longest, inverse_norm)
    if total > _EXACT * _worth(lightest, np.int32(0), longest):  # in the longest document, once
        return order, worth
    for i in range(1, len(order)):
        while i > 0 and weights[order[i]] < weights[order[i - 1]]:
            order[i], order[i - 1] = order[i - 1], order[i]
            i -= 1  # noqa: PLW2901 - the term that moves up
    total = 0.0
    for i in range(len(order)):
        total += weights[order[i]]  # no posting is worth more than its term's weight
        worth[i] = total * (1 + 1e-9)  # however sums are rounded
    return order, worth


@njit(nogil=True, cache=True)
def _lightest(worth, most):  # type: ignore[no-untyped-def]
    """Return how many terms are worth no more than *most* together, by what `_by_weight` says; all but one at most."""
    count = np.int64(0)
    while count < len(worth) - 1 and worth[count] <= most:
        count += 1
    return count


@njit(nogil=True, cache=True)
def _add_term(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    packed, cursor, docs, frequencies, classes, weight, inverse_norms, common, scores, first, end, sums, seen, touched, few
):
    """Add what a term has from position *first* to *end*; return how many postings were *touched* in that window by now.

    The documents of the first few of them are put into *seen*. Whole blocks of a term that is *common* go to `_add_block`.
    """
    while True:
        if cursor[3] == cursor[4] and common and cursor[1] >= BLOCK and touched + BLOCK > few:
            behind, last = skip(packed, cursor[0])
            if last < end and packed[cursor[0] + 1] <= COMMON_BITS:
                _add_block(packed, cursor[0], cursor[2], classes, scores, first, sums)
                cursor[0], cursor[1], cursor[2] = behind, cursor[1] - BLOCK, last
                touched += BLOCK
                continue
        if not _ready(packed, cursor, docs, frequencies) or docs[cursor[3]] >= end:
            return touched
        start, stop = cursor[3], _first_at(docs, cursor[3], cursor[4], end)
        if common and cursor[5] <= COMMON_BITS:
            _add(docs[start:stop], frequencies[start:stop], classes, scores, first, sums)
        else:
            _add_rare(docs[start:stop], frequencies[start:stop], classes, weight, inverse_norms, first, sums)
        if touched + stop - start <= few:
            for i in range(stop - start):  # numba takes a second to compile what copies a slice, and its error
                seen[touched + i] = docs[start + i]
        touched += stop - start
        cursor[3] = stop


@njit(nogil=True, cache=True)
def score(packed, offsets, sizes, classes, inverse_norms, terms, weights, wanted, sums):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Add to the float64 *sums* (n,) the scores of the documents *wanted* (n,), ascending; other arguments as of `search`.

    *terms* and *weights* are of one query.
    """
    cursors, docs, frequencies = _cursors(offsets, sizes, terms)
    for i in range(len(terms)):
        _look_up(packed, cursors[i], docs[i], frequencies[i], classes, weights[i], inverse_norms, wanted, sums)


@njit(nogil=True, cache=True)
def _look_up(packed, cursor, docs, frequencies, classes, weight, inverse_norms, wanted, sums):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Add to *sums* (n,) what a term is worth in the documents *wanted* (n,), ascending.

    The *cursor* moves to the last of them. Blocks without any of them are passed over.
    """
    at = 0
    while at < len(wanted):
        if cursor[3] == cursor[4]:
            while cursor[1] > BLOCK:
                behind, last = skip(packed, cursor[0])
                if last >= wanted[at]:
                    break
                cursor[0], cursor[1], cursor[2] = behind, cursor[1] - BLOCK, last
            if not _ready(packed, cursor, docs, frequencies):
                return
        i, stop = cursor[3], cursor[4]
        while at < len(wanted):
            i = _first_at(docs, i, stop, wanted[at])
            if i == stop:
                break
            if docs[i] == wanted[at]:
                sums[at] += _worth(weight, frequencies[i], inverse_norms[classes[docs[i]]])
            at += 1
        cursor[3] = i


@njit(nogil=True, cache=True)
def _cursors(offsets, sizes, terms):  # type: ignore[no-untyped-def]
    """Return how far the postings of *terms* are read, int64 (terms, 6), and room for a block of each.

    A cursor: where the next block begins; postings from there on; the document before them; which posting of the block in hand
    comes next, of how many; the bits of its frequencies.
    """
    cursors = np.zeros((len(terms), 6), np.int64)
    for i in range(len(terms)):
        cursors[i, 0], cursors[i, 1], cursors[i, 2] = offsets[terms[i]], sizes[terms[i]], -1
    return cursors, np.empty((len(terms), BLOCK), np.int32), np.empty((len(terms), BLOCK), np.int32)


@njit(nogil=True, cache=True)
def _ready(packed, cursor, docs, frequencies):  # type: ignore[no-untyped-def]
    """Tell whether there is a next posting; unpack the next block if it is in that."""
    if cursor[3] == cursor[4]:
        count = min(BLOCK, cursor[1])
        if not count:
            return False
        cursor[0], cursor[5] = unpack(packed, cursor[0], count, cursor[2], docs, frequencies)
        cursor[1], cursor[2], cursor[3], cursor[4] = cursor[1] - count, docs[count - 1], 0, count
    return True


@njit(nogil=True, cache=True)
def _first_at(docs, low, high, position):  # type: ignore[no-untyped-def]
    """Return the first of *docs*, from *low* to *high*, at or after *position*; *high* if there is none."""
    if docs[high - 1] < position:
        return high
    while low < high:
        middle = (low + high) >> 1
        if docs[middle] < position:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True, cache=True)
def _worth(weight, frequency, inverse_norm):  # type: ignore[no-untyped-def]
    """Return Lucene's w - w / (1 + tf / norm), rounded to float32 at each step; *frequency* is tf less 1."""
    return weight - weight / (np.float32(1) + np.float32(frequency + 1) * inverse_norm)


@njit(nogil=True, cache=True)
def _scores(sizes, terms, weights, inverse_norms):  # type: ignore[no-untyped-def]
    """Return what a posting of each of *terms* is worth, (terms, classes * COMMON), for each class and common frequency."""
    scores = np.empty((len(terms), len(inverse_norms) * COMMON))
    for i in range(len(terms)):
        if sizes[terms[i]] >= _WORTHWHILE:
            for number in range(len(inverse_norms)):
                for frequency in range(COMMON):
                    scores[i, number * COMMON + frequency] = _worth(weights[i], frequency, inverse_norms[number])
    return scores


@njit(nogil=True, cache=True)
def _add_block(packed, at, last, classes, scores, first, sums):  # type: ignore[no-untyped-def]
    """Add the scores of a whole block at *at* behind document *last*, without unpacking it first."""
    gap_bits, count_bits = np.uint64(packed[at]), np.uint64(packed[at + 1])
    bits, address = gap_bits + count_bits, np.uint64(codes_at(packed, at))
    mask, count_mask = (np.uint64(1) << bits) - np.uint64(1), (np.uint64(1) << count_bits) - np.uint64(1)
    doc = np.uint64(last)
    at_once = np.uint64(1)  # codes that are in one word, whichever bit of a byte it begins at
    while at_once < _MOST_AT_ONCE and np.uint64(2) * at_once * bits <= _WORD:
        at_once *= np.uint64(2)
    for i in range(np.uint64(0), np.uint64(BLOCK), at_once):
        word = word_at(np.int64(address + (i * bits >> np.uint64(3)))) >> (i * bits & np.uint64(7))
        for _ in range(at_once):
            doc += ((word & mask) >> count_bits) + np.uint64(1)
            place = np.uint64(classes[doc]) << np.uint64(COMMON_BITS) | word & count_mask
            sums[doc - np.uint64(first)] += scores[place]
            word >>= bits


@njit(nogil=True, cache=True)
def _add(docs, frequencies, classes, scores, first, sums):  # type: ignore[no-untyped-def]
    """Add the scores of postings to the sums of the window at *first*."""
    for i in range(len(docs)):
        doc = np.uint64(docs[i])
        sums[doc - np.uint64(first)] += scores[np.uint64(classes[doc]) << np.uint64(COMMON_BITS) | np.uint64(frequencies[i])]


@njit(nogil=True, cache=True)
def _add_rare(docs, frequencies, classes, weight, inverse_norms, first, sums):  # type: ignore[no-untyped-def]
    """Do the same for a term with fewer postings than there are scores, or with frequencies that are not common."""
    for i in range(len(docs)):
        sums[np.uint64(docs[i] - first)] += _worth(weight, frequencies[i], inverse_norms[classes[docs[i]]])
