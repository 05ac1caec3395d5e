"""The lists of `impact` as its index stores them (see impact_index): bitmaps of dense lists, and gaps of the others."""

import numpy as np
from numba import njit

from lexbench.engines.kernels.llvm import BLOCK

WIDEST = 13  # bits of a gap; eight of them are read as two words of 64 bits


@njit(nogil=True, cache=True)
def form_of(bits, counters):  # type: ignore[no-untyped-def]
    """Return what starts.npy says of a list with gaps of *bits* bits that counts postings in so many bytes; it is negative."""
    return -(counters << 4 | bits)


@njit(nogil=True, cache=True)
def formed(form):  # type: ignore[no-untyped-def]
    """Return of what `form_of` has made *form*."""
    return -form & 15, -form >> 4


@njit(nogil=True, cache=True)
def bit_of(place):  # type: ignore[no-untyped-def]
    """Return which bit of its block's bitmap a place has; the weights of a dense list are in this order within a block.

    It is such that bytes in the order of bits become sums in the order of places by masks and shifts alone (`llvm.sweep`).
    """
    return (place & 15) << 2 | place >> 4


@njit(nogil=True, cache=True)
def place_of(bit):  # type: ignore[no-untyped-def]
    """Return the place in its block that a bit stands for."""
    return (bit & 3) << 4 | bit >> 2


@njit(nogil=True, cache=True)
def make_bitmaps(ids, weights, sizes, dense, counts, window, bitmaps, ordered):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Fill the *bitmaps* of dense lists; put their weights, in the order of bits, into *ordered*; return how many."""
    spread = np.zeros(window, np.uint8)
    start = at = row = 0
    for number in range(len(sizes)):
        if dense[number]:
            first = start
            for window_number in range(counts.shape[1]):
                for i in range(first, first + counts[number, window_number]):
                    place = np.int64(ids[i])
                    spread[place // BLOCK * BLOCK + bit_of(place % BLOCK)] = weights[i]
                first += counts[number, window_number]
                for i in range(window):
                    if spread[i]:
                        bitmaps[row, (window_number * window + i) // BLOCK] |= np.uint64(1) << np.uint64(i % BLOCK)
                        ordered[at] = spread[i]
                        spread[i] = 0
                        at += 1
            row += 1
        start += sizes[number]
    return at


@njit(nogil=True, cache=True)
def pack_lists(ids, weights, sizes, dense, counts, forms, lengths, packed):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Put the lists that are not dense into *packed*, as they stand in gaps.bin, and return where they end.

    Fill their *forms* and *lengths*. A posting takes less than three bytes, a window three more.
    """
    stored = np.empty(counts.shape[1], np.int64)
    start = at = np.int64(0)  # a bare 0 is a type of its own, for which all would be compiled again
    for number in range(len(sizes)):
        if not dense[number]:
            first, begin, width, most = start, at, _shortest(ids, start, counts[number]), np.int64(0)
            for window_number in range(len(stored)):
                last = first + counts[number, window_number]
                stored[window_number] = _stored(ids, first, last, width)
                most = max(most, stored[window_number])
                first = last
            counters, first = 1 + (most > 255), start  # noqa: PLR2004 - what a byte can hold
            for window_number in range(len(stored)):
                for i in range(counters):
                    packed[at] = stored[window_number] >> 8 * i & 255
                    at += 1
                last = first + counts[number, window_number]
                at = _pack(ids, weights, first, last, width, stored[window_number], packed, at)
                first = last
            forms[number], lengths[number] = form_of(width, counters), at - begin
        start += sizes[number]
    return at


@njit(nogil=True, cache=True)
def _shortest(ids, start, counts):  # type: ignore[no-untyped-def]
    """Return how many bits a gap should have for the list to be shortest, or nearly so.

    *ids* has the list from *start* on, *counts* (windows,) of each window. With WIDEST bits nothing comes between, so a posting
    takes less than three bytes; with other widths no more, as all gaps are taken for as long as their number of bits allows.
    """
    gaps = np.zeros(WIDEST + 1, np.int64)  # by how many bits they need
    for count in counts:
        last = np.int64(0)
        for i in range(start, start + count):
            need = 0
            while (np.int64(ids[i]) - last) >> need:
                need += 1
            gaps[need] += 1
            last = np.int64(ids[i])
        start += count
    best, least = WIDEST, gaps.sum() * (WIDEST + 8)
    for width in range(WIDEST - 1, 0, -1):
        stored = gaps.sum()
        for need in range(width + 1, WIDEST + 1):
            stored += gaps[need] * (((1 << need) - 2) // ((1 << width) - 1))
        if stored * (width + 8) < least:
            best, least = width, stored * (width + 8)
    return best


@njit(nogil=True, cache=True)
def _stored(ids, start, stop, width):  # type: ignore[no-untyped-def]
    """Return how many postings a window whose places are ids[start:stop] has with gaps of *width* bits."""
    stored, last = 0, np.int64(0)
    for i in range(start, stop):
        stored += 1 + max(np.int64(ids[i]) - last - 1, 0) // ((1 << width) - 1)
        last = np.int64(ids[i])
    return stored


@njit(nogil=True, cache=True)
def _pack(ids, weights, start, stop, width, stored, packed, at):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Write a window's postings, from *start* to *stop*, as *stored* ones to *packed* from *at* on; return where they end."""
    longest = (1 << width) - 1
    weight_at = at + (stored * width + 7) // 8
    waiting, ready, last = np.uint64(0), 0, np.int64(0)  # bits that fill no byte yet
    for i in range(start, stop):
        gap = np.int64(ids[i]) - last
        last = np.int64(ids[i])
        while True:
            waiting |= np.uint64(min(gap, longest)) << np.uint64(ready)
            ready += width
            while ready >= 8:  # noqa: PLR2004 - bits of a byte
                packed[at] = waiting & np.uint64(255)
                waiting >>= np.uint64(8)
                ready -= 8
                at += 1
            packed[weight_at] = weights[i] if gap <= longest else 0
            weight_at += 1
            if gap <= longest:
                break
            gap -= longest
    if ready:
        packed[at] = waiting & np.uint64(255)
    return weight_at
