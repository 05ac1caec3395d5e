"""The scores of `bm25`: Lucene's formula, the compiled loop that finds the best k documents, and Anserini's order of ties.

`search` adds up scores term at a time over windows of positions, so that the running sums stay in the second-level cache. Every
document that can be among the best becomes a *key*, a uint64: the bits of its float32 score, then its position. The larger key
ranks first; all bits of the positions are flipped where the lower position wins ties. The *bar* is the k-th best key when the
keys were last sorted out: documents below it are dropped at once.

If *k* is small and the collection large, the terms of least weight wait. While all of them together are worth no more than a
share of the bar, they are only looked up in documents that could get above the bar with them (MaxScore: H. Turtle and J. Flood,
"Query evaluation: strategies and optimizations", 1995). Keys stay the same, because float32 numbers of similar size add up
exactly in float64, in any order.

numba compiles the loops on first use, so import this module where it is used. Casts to unsigned keep numba from checking for
negative indices.
"""

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lexbench.arrays.selection import select
from lexbench.compiling.loops import njit
from lexbench.retrievers._bm25_index import BLOCK, LENGTHS, codes_at, skip, unpack, word_at

WINDOW = 1 << 16  # positions; their sums take half of a common second-level cache
COMMON_BITS = 4  # a frequency is common if it, less 1, fits in these bits
COMMON = 1 << COMMON_BITS
COMPARED = 64  # sums that are compared with the bar together
SHARE = 0.2  # share of the bar's score that waiting terms may be worth together; less while waiting does not pay
MANY = 1 << 12  # light terms wait if the collection has this many documents per document of the list
_SPARE = 4  # keys beyond twice k before the bar is raised; few, so that the bar rises soon
_FIRST = WINDOW >> 3  # positions of the first window if terms may wait: they cannot before there is a bar
_CODES, _WORD = 16, 57  # most codes taken from one word, a power of 2; bits of a word less 7 that can belong to earlier codes
_WORTHWHILE = 128  # postings from which on a term's scores are worked out once
_PAYS = 64  # postings that waiting must save for each document that is looked up
_EXACT = 2.0**28  # largest ratio of the sum of all scores to the least score at which float64 adds exactly
_NEXT, _LEFT, _BEFORE, _AT, _STOP, _BITS = range(6)  # columns of a cursor, see `_cursors`
_UNIT, _STEP = np.float32(1e-4), np.float32(1e-6)  # of Anserini's ties

_Ints: TypeAlias = NDArray[np.int64]
_Floats: TypeAlias = NDArray[np.float32]


# ---- the formula, as `org.apache.lucene.search.similarities.BM25Similarity` of Lucene 9 and 10 rounds it --------------------


def idf(sizes: NDArray[np.integer], documents: int) -> _Floats:
    """Return log(1 + (N - n + 0.5) / (n + 0.5)) for terms that are in n, *sizes* (terms,), of N documents with any term."""
    values: NDArray[np.float64] = np.log(1 + (documents - sizes + 0.5) / (sizes + 0.5))
    return values.astype(np.float32)


def inverse_norms(classes: NDArray[np.uint8], average: float, k1: float, b: float) -> _Floats:
    """Return 1 / norm of length *classes* (n,), see `_term_score`; *average* is the mean length of documents with any term."""
    one, k1_, b_ = np.float32(1), np.float32(k1), np.float32(b)
    with np.errstate(divide="ignore"):  # with k1 = 0 a term counts in full wherever it occurs
        inverses: _Floats = one / (k1_ * ((one - b_) + b_ * LENGTHS.astype(np.float32) / np.float32(average)))
    return inverses[classes]


@njit(nogil=True, cache=True)
def _term_score(weight, frequency, inverse_norm):  # type: ignore[no-untyped-def]
    """Return w - w / (1 + tf / norm), rounded to float32 at each step; *frequency* is tf less 1."""
    return weight - weight / (np.float32(1) + np.float32(frequency + 1) * inverse_norm)


# ---- search ----------------------------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def search(  # noqa: PLR0913, PLR0917 - tuples of arrays would take numba five times as long to compile
    packed: NDArray[np.uint8],  # see _bm25_index
    offsets: _Ints,  # (terms,) start of each term's postings in it
    sizes: NDArray[np.int32],  # (terms,) number of postings
    classes: NDArray[np.uint8],  # (documents,)
    inverse_norms: _Floats,  # (classes,)
    starts: _Ints,  # (queries + 1,) the terms of query q are terms[starts[q]:starts[q + 1]]
    terms: NDArray[np.int32],  # (query terms,) without repetition within a query
    weights: _Floats,  # (query terms,)
    share: float,  # SHARE, or 0 if no term may wait
    flip: np.uint64,  # XORed with positions: 0, or 2**32 - 1 if the lower position wins ties
    best: NDArray[np.uint64],  # (queries, k) out: the best keys in no order, then zeros
) -> None:
    """Find the best k documents for each query."""
    k, allowed = best.shape[1], share
    sums = np.zeros(WINDOW)
    keys = np.empty(2 * k + _SPARE, np.uint64)
    found, found_sums = np.empty(WINDOW + 1, np.int32), np.empty(WINDOW + 1)  # documents of the window above the bar
    for query in range(len(best)):
        # Open the postings of the query's terms, and order the terms by what they can add.
        own = slice(starts[query], starts[query + 1])
        scores = _posting_scores(sizes, terms[own], weights[own], inverse_norms)
        cursors, docs, frequencies = _cursors(offsets, sizes, terms[own])
        order, bounds = _by_weight(weights[own], inverse_norms, share)
        count, bar = np.int64(0), np.uint64(0)  # not a plain 0: numba would compile all callees again for another integer type
        first: Any = np.int64(0)
        while first < len(classes):
            length: Any = min(WINDOW if first or share == 0 else _FIRST, len(classes) - first)
            least: Any = score_below(bar)
            # The lightest terms wait: even together they lift no document above the bar.
            waiting = _lightest(bounds, allowed * least)
            for i in order[waiting:]:
                # Scores of common frequencies were worked out once, so adding a posting takes no division.
                common = sizes[terms[own][i]] >= _WORTHWHILE
                _add_term(
                    packed, cursors[i], docs[i], frequencies[i], classes, weights[own][i], inverse_norms, common, scores[i],
                    first, first + length, sums,
                )  # fmt: skip
            # Keep the best documents. Where terms waited, look them up, but only for documents that may pass the bar.
            swept = sums[: (length + COMPARED - 1) // COMPARED * COMPARED]
            if not waiting:
                count, bar = _collect_window(swept, first, flip, keys, count, bar, k)
            else:
                least -= bounds[waiting - 1]  # what the waiting terms can add at most
                size = find_above(swept, first, least, found, found_sums)
                found[size], found_sums[size] = first + length, 0.0  # a sentinel, so that cursors pass the window's end
                postings: Any = np.int64(0)
                for i in order[:waiting]:
                    postings += sizes[terms[own][i]]
                    _look_up(
                        packed, cursors[i], docs[i], frequencies[i], classes, weights[own][i], inverse_norms,
                        found[: size + 1], found_sums,
                    )  # fmt: skip
                for i in range(size):
                    count, bar = _collect(found_sums[i], found[i] ^ flip, keys, count, bar, k)
                # Fewer terms wait in the next window if looking up cost more than adding their postings would have.
                if size * _PAYS > postings / len(classes) * length:
                    allowed /= 2
            allowed = min(share, 1.05 * allowed)  # recovers slowly: the next windows are probably like this one
            first += length
        # Keep the best keys of all windows.
        select(keys, count, k)
        for i in range(min(count, k)):  # a loop: numba takes long to compile the copy of a slice
            best[query, i] = keys[i]


@njit(nogil=True, cache=True)
def score(packed, offsets, sizes, classes, inverse_norms, terms, weights, wanted, sums):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Add the scores of the documents *wanted* (n,), ascending, to the float64 *sums* (n,).

    *terms* and *weights* are those of one query; the other arguments are those of `search`.
    """
    cursors, docs, frequencies = _cursors(offsets, sizes, terms)
    for i in range(len(terms)):
        _look_up(packed, cursors[i], docs[i], frequencies[i], classes, weights[i], inverse_norms, wanted, sums)


@njit(nogil=True, cache=True)
def _posting_scores(sizes, terms, weights, inverse_norms):  # type: ignore[no-untyped-def]
    """Return the score of a posting of each term, (terms, classes * COMMON), by length class and common frequency."""
    scores = np.empty((len(terms), len(inverse_norms) * COMMON))
    for i in range(len(terms)):
        if sizes[terms[i]] >= _WORTHWHILE:
            for number in range(len(inverse_norms)):
                for frequency in range(COMMON):
                    scores[i, number * COMMON + frequency] = _term_score(weights[i], frequency, inverse_norms[number])
    return scores


# ---- terms that wait -------------------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def _by_weight(weights, inverse_norms, share):  # type: ignore[no-untyped-def]
    """Return the terms from the lightest on, and bounds: the first i + 1 are worth at most bounds[i], inf if none may wait."""
    order, bounds = np.empty(len(weights), np.int64), np.empty(len(weights))
    total, lightest, longest = 0.0, np.float32(np.inf), np.float32(np.inf)
    for i in range(len(weights)):
        order[i], bounds[i] = i, np.inf
        total += weights[i]
        lightest = min(lightest, weights[i])
    if share == 0:
        return order, bounds
    for inverse_norm in inverse_norms:
        longest = min(longest, inverse_norm)
    if total > _EXACT * _term_score(lightest, np.int32(0), longest):  # the least score: once in the longest document
        return order, bounds  # terms waiting would change the order of additions, and so perhaps the last bit
    for i in range(1, len(order)):
        while i > 0 and weights[order[i]] < weights[order[i - 1]]:
            order[i], order[i - 1] = order[i - 1], order[i]
            i -= 1  # noqa: PLW2901 - the term that moves up
    total = 0.0
    for i in range(len(order)):
        total += weights[order[i]]  # no posting is worth more than its term's weight
        bounds[i] = total * (1 + 1e-9)  # safe, however the sums are rounded
    return order, bounds


@njit(nogil=True, cache=True)
def _lightest(bounds, most):  # type: ignore[no-untyped-def]
    """Return how many terms are worth at most *most* together, see `_by_weight`; at least one term does not wait."""
    count = np.int64(0)
    while count < len(bounds) - 1 and bounds[count] <= most:
        count += 1
    return count


# ---- reading postings ------------------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def _cursors(offsets, sizes, terms):  # type: ignore[no-untyped-def]
    """Return a cursor for each of *terms*, int64 (terms, 6), and room for an unpacked block of each, two int32 (terms, BLOCK).

    The columns: _NEXT, where the next packed block begins; _LEFT, how many postings are still packed; _BEFORE, the document
    before them; _AT and _STOP, the next posting of the unpacked block and its end; _BITS, its bits of a frequency.
    """
    cursors = np.zeros((len(terms), 6), np.int64)
    for i in range(len(terms)):
        cursors[i, _NEXT], cursors[i, _LEFT], cursors[i, _BEFORE] = offsets[terms[i]], sizes[terms[i]], -1
    return cursors, np.empty((len(terms), BLOCK), np.int32), np.empty((len(terms), BLOCK), np.int32)


@njit(nogil=True, cache=True)
def _has_next(packed, cursor, docs, frequencies):  # type: ignore[no-untyped-def]
    """Unpack the next block if the last one is used up; return whether there is a next posting."""
    if cursor[_AT] == cursor[_STOP]:
        count = min(BLOCK, cursor[_LEFT])
        if not count:
            return False
        cursor[_NEXT], cursor[_BITS] = unpack(packed, cursor[_NEXT], count, cursor[_BEFORE], docs, frequencies)
        cursor[_LEFT], cursor[_BEFORE], cursor[_AT], cursor[_STOP] = cursor[_LEFT] - count, docs[count - 1], 0, count
    return True


@njit(nogil=True, cache=True)
def _first_at(docs, low, high, position):  # type: ignore[no-untyped-def]
    """Return the index of the first of *docs*, from *low* to *high*, at or after *position*; *high* if there is none."""
    if docs[high - 1] < position:  # often the whole block comes before *position*
        return high
    while low < high:
        middle = (low + high) >> 1
        if docs[middle] < position:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True, cache=True)
def _add_term(  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    packed, cursor, docs, frequencies, classes, weight, inverse_norms, common, scores, first, end, sums
):
    """Add a term's scores from position *first* to *end*; *common* says whether it has *scores*."""
    while True:
        # A whole block inside the window is added without unpacking.
        if cursor[_AT] == cursor[_STOP] and common and cursor[_LEFT] >= BLOCK:
            behind, last = skip(packed, cursor[_NEXT])
            if last < end and packed[cursor[_NEXT] + 1] <= COMMON_BITS:
                _add_block(packed, cursor[_NEXT], cursor[_BEFORE], classes, scores, first, sums)
                cursor[_NEXT], cursor[_LEFT], cursor[_BEFORE] = behind, cursor[_LEFT] - BLOCK, last
                continue
        if not _has_next(packed, cursor, docs, frequencies) or docs[cursor[_AT]] >= end:
            return
        start, stop = cursor[_AT], _first_at(docs, cursor[_AT], cursor[_STOP], end)
        if common and cursor[_BITS] <= COMMON_BITS:
            for i in range(start, stop):
                doc = np.uint64(docs[i])
                place = np.uint64(classes[doc]) << np.uint64(COMMON_BITS) | np.uint64(frequencies[i])  # see `_posting_scores`
                sums[doc - np.uint64(first)] += scores[place]
        else:
            for i in range(start, stop):
                sums[np.uint64(docs[i] - first)] += _term_score(weight, frequencies[i], inverse_norms[classes[docs[i]]])
        cursor[_AT] = stop


@njit(nogil=True, cache=True)
def _add_block(packed, at, last, classes, scores, first, sums):  # type: ignore[no-untyped-def]
    """Add the scores of the whole block at *at*, which follows the document *last*, without unpacking it first."""
    gap_bits, count_bits = np.uint64(packed[at]), np.uint64(packed[at + 1])
    bits, address = gap_bits + count_bits, np.uint64(codes_at(packed, at))
    mask, count_mask = (np.uint64(1) << bits) - np.uint64(1), (np.uint64(1) << count_bits) - np.uint64(1)
    doc = np.uint64(last)
    at_once = np.uint64(1)  # codes that one word holds, whichever bit of a byte the first one starts at
    while at_once < _CODES and np.uint64(2) * at_once * bits <= _WORD:
        at_once *= np.uint64(2)
    for i in range(np.uint64(0), np.uint64(BLOCK), at_once):
        word = word_at(np.int64(address + (i * bits >> np.uint64(3)))) >> (i * bits & np.uint64(7))
        for _ in range(at_once):
            doc += ((word & mask) >> count_bits) + np.uint64(1)
            place = np.uint64(classes[doc]) << np.uint64(COMMON_BITS) | word & count_mask
            sums[doc - np.uint64(first)] += scores[place]
            word >>= bits


@njit(nogil=True, cache=True)
def _look_up(packed, cursor, docs, frequencies, classes, weight, inverse_norms, wanted, sums):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Add a term's scores in the documents *wanted* (n,), ascending, to *sums* (n,); the *cursor* moves to the last."""
    at = 0
    while at < len(wanted):
        if cursor[_AT] == cursor[_STOP]:
            while cursor[_LEFT] > BLOCK:  # blocks without a wanted document are not unpacked
                behind, last = skip(packed, cursor[_NEXT])
                if last >= wanted[at]:
                    break
                cursor[_NEXT], cursor[_LEFT], cursor[_BEFORE] = behind, cursor[_LEFT] - BLOCK, last
            if not _has_next(packed, cursor, docs, frequencies):
                return
        i, stop = cursor[_AT], cursor[_STOP]
        while at < len(wanted):
            i = _first_at(docs, i, stop, wanted[at])
            if i == stop:
                break
            if docs[i] == wanted[at]:
                sums[at] += _term_score(weight, frequencies[i], inverse_norms[classes[docs[i]]])
            at += 1
        cursor[_AT] = i


# ---- keys ------------------------------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def score_below(bar):  # type: ignore[no-untyped-def]
    """Return a score that the float64 sum of any document that beats the *bar*, a key, exceeds."""
    # Sums are not rounded to float32 yet: those above the float32 number below the bar's score can become equal to it.
    return np.uint32(max(bar >> np.uint64(32), np.uint64(1)) - np.uint64(1)).view(np.float32)


@njit(nogil=True, cache=True)
def _collect(total, place, keys, count, bar, k):  # type: ignore[no-untyped-def]
    """Add a document with the sum *total* to the *count* *keys* if its key is above the bar; return the new (count, bar)."""
    # Scores are above 0, and the bits of positive float32 numbers ascend like the numbers, so keys compare as integers.
    key = (np.uint64(np.float32(total).view(np.uint32)) << np.uint64(32)) | np.uint64(place)
    if key > bar:
        keys[count] = key
        count += 1
        if count == len(keys):  # sorting out only when the room is full costs little per document
            select(keys, count, k)
            count, bar = k, keys[k - 1]
    return count, bar


@njit(nogil=True, cache=True)
def _collect_window(sums, first, flip, keys, count, bar, k):  # type: ignore[no-untyped-def]
    """Collect the documents above the bar, and clear the sums.

    *sums*, a multiple of COMPARED long, are those of the documents from position *first* on.
    """
    for start in range(0, len(sums), COMPARED):
        least = score_below(bar)
        some = np.uint8(0)
        for i in range(COMPARED):  # no branch and a fixed length: this becomes a few vector instructions
            some |= np.uint8(sums[np.uint64(start + i)] > least)
        if some:
            for i in range(start, start + COMPARED):
                if sums[i] > least:
                    count, bar = _collect(sums[i], (first + i) ^ flip, keys, count, bar, k)
        for i in range(COMPARED):  # while they are in the first-level cache
            sums[np.uint64(start + i)] = 0.0
    return count, bar


@njit(nogil=True, cache=True)
def find_above(sums, first, least, found, found_sums):  # type: ignore[no-untyped-def]
    """Fill *found* with the documents whose sums are above *least*, ascending, and *found_sums*; return how many they are.

    *sums* and *first* are those of `_collect_window`; all sums are cleared.
    """
    count = np.int64(0)
    for start in range(0, len(sums), COMPARED):
        some = np.uint8(0)
        for i in range(COMPARED):  # see `_collect_window`
            some |= np.uint8(sums[np.uint64(start + i)] > least)
        if some:
            for i in range(start, start + COMPARED):
                if sums[i] > least:
                    found[count], found_sums[count] = first + i, sums[i]
                    count += 1
        for i in range(COMPARED):
            sums[np.uint64(start + i)] = 0.0
    return count


# ---- ties ------------------------------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def anserini_order(scores: _Floats, positions: NDArray[np.int32], ranks: _Ints) -> None:
    """Fill *ranks* (queries, k) with the columns of each row in the order that trec_eval gives Anserini's run file.

    *scores* (queries, k) descend; of equal ones the higher of *positions* (queries, k) comes first. A lower position has a
    larger id. A position of -1, no document, stays where it is.

    Anserini searches in the order of score, then id, ascending. Its ScoreTiesAdjusterReranker rounds each score to 1e-4. If the
    adjusted score before it is not more than 1e-4 above, it subtracts 1e-6 once more than from that one, in float32. The run
    file has six decimals. trec_eval 9.0.4, which comes with Anserini, keeps them as float32 and breaks the remaining ties by
    id, descending. From 32 up float32 cannot represent a step of 1e-6, so ties of long queries go the other way than those of
    short ones. Checked with the jar of pyserini 1.7.1, whose release of March 2026 rounds in double; before, it did in float32.
    """
    read = np.empty(scores.shape[1], np.float32)  # scores as trec_eval reads them
    for query in range(len(scores)):
        before, ties = np.float32(0), 0
        for at in range(scores.shape[1]):
            ranks[query, at] = at
            if positions[query, at] < 0:
                continue
            score = np.float32(math.floor(np.float64(scores[query, at]) * 10000.0 + 0.5) / 10000.0)
            if at == 0 or before - score > _UNIT:
                ties = 0
            else:
                ties += 1
                score = np.float32(score - np.float32(_STEP * np.float32(ties)))
            before = score
            read[at] = np.float32(math.floor(np.float64(score) * 1e6 + 0.5) / 1e6)
            place = at  # insertion sort: lists are nearly in order, so a document moves past few others
            while place > 0:
                other = ranks[query, place - 1]
                same = read[other] == read[at]
                if read[other] > read[at] or (same and positions[query, other] < positions[query, at]):
                    break
                ranks[query, place] = other
                place -= 1
            ranks[query, place] = at
