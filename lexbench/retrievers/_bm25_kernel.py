"""The inner loop of `bm25`: add up the scores of every posting of every query term, and keep the best k documents.

Term at a time over windows of positions, so that the running sums stay in the second-level cache. Postings are unpacked a block
at a time (see _bm25_postings). numba compiles it on first use and keeps the result; it runs without the interpreter's lock.
Indices that are cast to unsigned are so that numba does not look whether they are negative.

What a posting is worth depends on its term's weight, its frequency and its document's length class alone. So the scores of a
term are worked out once for each class and each frequency below COMMON, not once a posting.

A document that may be among the best is a key, a whole number: the bits of its float32 score, then its position, all of whose
bits are flipped where the lower position is to win ties. The larger key ranks first. The bar is the k-th best key when there
were last enough to tell.
"""

from typing import TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lexbench.retrievers._bm25_postings import BLOCK, codes_at, skip, unpack
from lexbench.trec.swar import word_at

WINDOW = 1 << 16  # positions; with 8 bytes each, half of a common second-level cache
COMMON_BITS = 4  # of a frequency, less 1, that is common
COMMON = 1 << COMMON_BITS
_COMPARED = 64  # sums that are compared together; divides WINDOW
_SPARE = 4  # keys beyond twice k, after which the bar is raised; few, so that it soon is
_MOST_AT_ONCE, _WORD = 16, 57  # codes of one reading, at most, a power of 2; bits of a word, less 7 that may be of codes before
_WORTHWHILE = 128  # postings of a term for which it pays to work out its scores
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
    flip: np.uint64,  # what positions are combined with, by exclusive or: 0 or 2**32 - 1
    best: NDArray[np.uint64],  # (queries, k) out: the keys of the best, in no order; zeros where there are no more
) -> None:
    """Find the best k documents for each query."""
    k = best.shape[1]
    sums = np.zeros(WINDOW)
    keys, seen = np.empty(2 * k + _SPARE, np.uint64), np.empty(WINDOW // _SPARSE + BLOCK, np.int32)
    for query in range(len(best)):
        own = slice(starts[query], starts[query + 1])
        scores = _scores(sizes, terms[own], weights[own], inverse_norms)
        cursors, docs, frequencies = _cursors(offsets, sizes, terms[own])
        count, bar = np.int64(0), np.uint64(0)  # a bare 0 is a type of its own, for which all would be compiled again
        for first in range(0, len(classes), WINDOW):
            length = min(WINDOW, len(classes) - first)
            few = length // _SPARSE
            touched = np.int64(0)
            for i in range(len(cursors)):
                common = sizes[terms[own][i]] >= _WORTHWHILE
                touched = _add_term(
                    packed, cursors[i], docs[i], frequencies[i], classes, weights[own][i], inverse_norms, common, scores[i],
                    first, first + length, sums, seen, touched, few,
                )  # fmt: skip
            if touched > few:
                blocks = (length + _COMPARED - 1) // _COMPARED
                count, bar = _scan(sums[: blocks * _COMPARED], first, flip, keys, count, bar, k)
            else:
                count, bar = _visit(seen[:touched], first, sums, flip, keys, count, bar, k)
        _select(keys, count, k)
        for i in range(min(count, k)):
            best[query, i] = keys[i]


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
            seen[touched : touched + stop - start] = docs[start:stop]
        touched += stop - start
        cursor[3] = stop


@njit(nogil=True, cache=True)
def score(packed, offsets, sizes, classes, inverse_norms, terms, weights, wanted, sums):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Add to the float64 *sums* (n,) the scores of the documents *wanted* (n,), ascending; other arguments as of `search`.

    *terms* and *weights* are of one query. Blocks without any of the documents are passed over.
    """
    cursors, docs, frequencies = _cursors(offsets, sizes, terms)
    for i in range(len(terms)):
        cursor, at = cursors[i], 0
        while at < len(wanted):
            while cursor[1] > BLOCK:
                behind, last = skip(packed, cursor[0])
                if last >= wanted[at]:
                    break
                cursor[0], cursor[1], cursor[2] = behind, cursor[1] - BLOCK, last
            if not _ready(packed, cursor, docs[i], frequencies[i]):
                break
            for j in range(cursor[4]):
                while at < len(wanted) and wanted[at] < docs[i, j]:
                    at += 1
                while at < len(wanted) and wanted[at] == docs[i, j]:
                    sums[at] += _worth(weights[i], frequencies[i, j], inverse_norms[classes[docs[i, j]]])
                    at += 1
            cursor[3] = cursor[4]


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


@njit(nogil=True, cache=True)
def _scan(sums, first, flip, keys, count, bar, k):  # type: ignore[no-untyped-def]
    """Collect what beats the bar, and clear the sums, which are whole blocks."""
    for start in range(0, len(sums), _COMPARED):
        # Sums are not yet rounded to float32: those above the float32 number below the bar's can become equal to the bar's.
        least = np.uint32(max(bar >> np.uint64(32), np.uint64(1)) - np.uint64(1)).view(np.float32)
        above = np.uint8(0)
        for i in range(_COMPARED):  # no branches and a fixed length: this becomes a few vector instructions
            above |= np.uint8(sums[np.uint64(start + i)] > least)
        if above:
            for i in range(start, start + _COMPARED):
                if sums[i] > least:
                    count, bar = _collect(sums[i], (first + i) ^ flip, keys, count, bar, k)
        for i in range(_COMPARED):  # while they are at hand
            sums[np.uint64(start + i)] = 0.0
    return count, bar


@njit(nogil=True, cache=True)
def _visit(docs, first, sums, flip, keys, count, bar, k):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Collect *docs* and clear their sums, so that one that comes again is passed over."""
    for i in range(len(docs)):
        total = sums[docs[i] - first]
        if total > 0:
            count, bar = _collect(total, docs[i] ^ flip, keys, count, bar, k)
            sums[docs[i] - first] = 0.0
    return count, bar


@njit(nogil=True, cache=True)
def _collect(total, place, keys, count, bar, k):  # type: ignore[no-untyped-def]
    key = (np.uint64(np.float32(total).view(np.uint32)) << np.uint64(32)) | np.uint64(place)
    if key > bar:
        keys[count] = key
        count += 1
        if count == len(keys):
            _select(keys, count, k)
            count, bar = k, keys[k - 1]
    return count, bar


@njit(nogil=True, cache=True)
def _select(keys, count, k):  # type: ignore[no-untyped-def]
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
