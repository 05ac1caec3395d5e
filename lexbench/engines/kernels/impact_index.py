"""The index of `impact`: its files, and how documents are turned into them in bounded memory.

`impact` writes indexes with `Sorter` and `write_index`, and impact_search reads the lists. The postings of a term are two
*lists*: one of the low bytes of its weights, and one of the high bytes, which only weights above 255 have. Bytes that are 0 are
left out. Documents are cut into windows; the *place* of a posting is the position of its document within the window. A list
with at least one document in DENSE is stored as a bitmap, one bit per place. The others have *gaps*: the distance of a place
from the previous one in its window, or from 0, in as many bits as make the list shortest. If a gap is too long for these bits,
postings of weight 0 come between.

    facts.json              layout, documents, vocabulary, window
    document_frequency.npy  int32 (vocabulary,)
    largest_weight.npy      uint16 (vocabulary,)
    lists.npy               int32 (2, vocabulary): numbers of the lists of each term's low and high bytes; -1 = no list
    starts.npy              int64 (lists, 2): where a list starts in gaps.bin, and its form, below 0; for a dense list
                            where it starts in weights.bin, and its row of bitmaps.npy
    gaps.bin                list by list, window by window: the number of postings, in one byte or two; the gaps, packed from
                            the lowest bit of each byte upwards to a whole byte; the weights
    weights.bin             the weights of dense lists, list by list
    bitmaps.npy             uint64 (dense lists, windows * window / 64): one word per block of 64 places, see `bit_of`

Both .bin files are bytes, and PADDING more. Memory does not grow with the collection, see `inversion`.
"""

import json
from pathlib import Path

import numpy as np
from scipy import sparse

from lexbench.arrays.vectors import offsets_of, pieces
from lexbench.compiling.loops import njit
from lexbench.engines.kernels.checks import whole_weights
from lexbench.engines.kernels.inversion import SortedRun, merge_runs, write_run
from lexbench.engines.kernels.llvm import BLOCK
from lexbench.errors import LexbenchError

WINDOW = 8192  # positions, a power of 2 up to 2**WIDEST: sums take 32 KB; 4096 and 16,384 were a few per cent slower
PART = 1 << 22  # postings sorted or merged at a time
PADDING = 64  # bytes behind the last posting, so that search can read whole vectors
DENSE = 12  # measured; from 8 to 16 makes little difference
WIDEST = 13  # bits of a gap: search reads eight gaps as two words of 64 bits
_BYTE = 8  # bits


# ---- sorting by list -------------------------------------------------------------------------------------------------------


class Sorter:
    """Sorts postings by list and position in runs in the folder *path*, PART postings at a time.

    Term t has list t for low bytes and list vocabulary + t for high bytes.
    """

    def __init__(self, path: Path) -> None:
        self.vocabulary = self.documents = 0
        self.frequency, self.largest = np.zeros(0, np.int32), np.zeros(0, np.uint16)  # (vocabulary,)
        self.sizes = np.zeros(0, np.int64)  # (lists,) postings
        self.runs: list[SortedRun] = []
        self._path = path
        self._waiting: list[sparse.csr_array] = []  # (documents, lists) of bytes

    def add(self, shard: sparse.csr_array) -> None:
        """Add the vectors of the next documents (n, vocabulary). Raises LexbenchError if `whole_weights` refuses a weight."""
        if not self.vocabulary:
            self.vocabulary = shard.shape[1]
            self.frequency, self.largest = np.zeros(self.vocabulary, np.int32), np.zeros(self.vocabulary, np.uint16)
            self.sizes = np.zeros(2 * self.vocabulary, np.int64)
        if shard.shape[1] != self.vocabulary:
            raise LexbenchError(f"impact got vectors of {self.vocabulary:,} terms and of {shard.shape[1]:,}; use one encoder")
        matrix = whole_weights(shard, "impact")
        self.frequency += np.bincount(matrix.indices, minlength=self.vocabulary).astype(np.int32)
        np.maximum.at(self.largest, matrix.indices, matrix.data.astype(np.uint16))
        self.documents += matrix.shape[0]
        planes = (matrix.data & 255, matrix.data >> _BYTE)
        parts = [sparse.csr_array((plane.astype(np.uint8), matrix.indices, matrix.indptr), matrix.shape) for plane in planes]
        lists = sparse.hstack(parts, "csr")
        lists.eliminate_zeros()
        self.sizes += np.bincount(lists.indices, minlength=len(self.sizes))
        self._waiting.append(lists)
        if sum(waiting.nnz for waiting in self._waiting) >= PART:
            self.flush()

    def flush(self) -> None:
        """Sort and write the waiting postings."""
        if self._waiting:
            postings = sparse.vstack(self._waiting, "csr").T.tocsr()
            self.runs.append(write_run(self._path / f"run-{len(self.runs)}", postings))
        self._waiting.clear()


# ---- writing lists ---------------------------------------------------------------------------------------------------------


def write_index(postings: Sorter, path: Path, layout: int) -> None:
    """Write the index of *postings*, with the number *layout*, into the folder *path*."""
    used = np.flatnonzero(postings.sizes)
    sizes, windows = postings.sizes[used], -(-postings.documents // WINDOW)
    dense = sizes * DENSE >= postings.documents  # as bitmaps these are faster and smaller
    maps_before = offsets_of(dense.astype(np.int64))
    shape = int(dense.sum()), windows * WINDOW // BLOCK
    bitmaps = np.lib.format.open_memmap(path / "bitmaps.npy", "w+", np.uint64, shape)  # of zeros
    forms, lengths = np.zeros(len(used), np.int64), np.zeros(len(used), np.int64)  # of lists; lengths in bytes
    with (path / "gaps.bin").open("wb") as gaps, (path / "weights.bin").open("wb") as weights:
        for some in pieces(offsets_of(sizes + windows), PART):  # a list also takes a count per window
            merged = merge_runs(postings.runs, slice(used[some.start], used[some.stop - 1] + 1))
            rows = np.repeat(np.arange(len(sizes[some])), sizes[some])
            counts = np.bincount(rows * windows + merged.indices // WINDOW, minlength=len(sizes[some]) * windows)
            places = (merged.indices % WINDOW).astype(np.uint16)
            batch = places, merged.data, sizes[some], dense[some], counts.reshape(-1, windows)
            maps = np.asarray(bitmaps[maps_before[some.start] : maps_before[some.stop]])
            room = np.empty(3 * (merged.nnz + counts.size), np.uint8)  # the most that lists take, see `_pack_lists`
            room[: _pack_lists(*batch, forms[some], lengths[some], room)].tofile(gaps)
            room[: _make_bitmaps(*batch, WINDOW, maps, room)].tofile(weights)
        for file in (gaps, weights):
            np.zeros(PADDING, np.uint8).tofile(file)
    lengths[dense] = sizes[dense]
    in_gaps, in_weights = (np.cumsum(np.where(kind, lengths, 0)) - lengths for kind in (~dense, dense))
    starts = np.column_stack([np.where(dense, in_weights, in_gaps), np.where(dense, np.cumsum(dense) - 1, forms)])
    lists = np.full(2 * postings.vocabulary, -1, np.int32)
    lists[used] = np.arange(len(used))
    np.save(path / "starts.npy", starts.astype(np.int64))
    np.save(path / "document_frequency.npy", postings.frequency)
    np.save(path / "largest_weight.npy", postings.largest)
    np.save(path / "lists.npy", lists.reshape(2, -1))
    facts = {"layout": layout, "documents": postings.documents, "vocabulary": postings.vocabulary, "window": WINDOW}
    (path / "facts.json").write_text(json.dumps(facts) + "\n", encoding="utf-8")


# ---- forms of lists --------------------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def bit_of(place):  # type: ignore[no-untyped-def]
    """Return which bit of its block's bitmap stands for a place, and so the order of weights: that of `llvm._add_dense`."""
    return (place & 15) << 2 | place >> 4


@njit(nogil=True, cache=True)
def place_of(bit):  # type: ignore[no-untyped-def]
    """Return the place in its block that a bit stands for."""
    return (bit & 3) << 4 | bit >> 2


@njit(nogil=True, cache=True)
def _make_bitmaps(places, weights, sizes, dense, counts, window, bitmaps, ordered):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Fill the *bitmaps* of dense lists, and *ordered* with their weights in the order of bits; return how many weights."""
    spread = np.zeros(window, np.uint8)
    start = at = row = 0
    for number in range(len(sizes)):
        if dense[number]:
            first = start
            for window_number in range(counts.shape[1]):
                # The weights go to the places of their bits first: reading these in order sorts them without comparisons.
                for i in range(first, first + counts[number, window_number]):
                    place = np.int64(places[i])
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
def _pack_lists(places, weights, sizes, dense, counts, forms, lengths, packed):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Write the lists that are not dense to *packed* as gaps.bin has them, fill *forms* and *lengths*, and return the end.

    A posting takes less than three bytes, a window three more. A form has the bits of a gap and, above these, the bytes of a
    count.
    """
    stored = np.empty(counts.shape[1], np.int64)
    start = at = np.int64(0)  # np.int64 and not a plain 0: numba would compile all callees again for another integer type
    for number in range(len(sizes)):
        if not dense[number]:
            first, begin, width, most = start, at, _shortest(places, start, counts[number]), np.int64(0)
            for window_number in range(len(stored)):
                last = first + counts[number, window_number]
                stored[window_number] = _stored(places, first, last, width)
                most = max(most, stored[window_number])
                first = last
            # The width of the counter is known only when all windows are counted, so lists are written in a second pass.
            counters, first = 1 + (most > 255), start  # noqa: PLR2004 - what a byte can hold
            for window_number in range(len(stored)):
                for i in range(counters):
                    packed[at] = stored[window_number] >> 8 * i & 255
                    at += 1
                last = first + counts[number, window_number]
                at = _pack(places, weights, first, last, width, stored[window_number], packed, at)
                first = last
            forms[number], lengths[number] = -(counters << 4 | width), at - begin
        start += sizes[number]
    return at


@njit(nogil=True, cache=True)
def _shortest(places, start, counts):  # type: ignore[no-untyped-def]
    """Return the bits of a gap that make a list shortest, or nearly so.

    The list is in *places* from *start* on, with *counts* (windows,) postings in each window. With WIDEST bits no postings come
    between, so a posting takes less than three bytes. Other widths take no more: every gap counts as the longest of its bits.
    """
    gaps = np.zeros(WIDEST + 1, np.int64)  # by the bits that they need
    for count in counts:
        last = np.int64(0)
        for i in range(start, start + count):
            need = 0
            while (np.int64(places[i]) - last) >> need:
                need += 1
            gaps[need] += 1
            last = np.int64(places[i])
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
def _stored(places, start, stop, width):  # type: ignore[no-untyped-def]
    """Return how many postings a window with places[start:stop] has if gaps have *width* bits."""
    stored, last = 0, np.int64(0)
    for i in range(start, stop):
        stored += 1 + max(np.int64(places[i]) - last - 1, 0) // ((1 << width) - 1)
        last = np.int64(places[i])
    return stored


@njit(nogil=True, cache=True)
def _pack(places, weights, start, stop, width, stored, packed, at):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Write a window's postings, from *start* to *stop*, as *stored* ones to *packed* from *at* on; return the end."""
    longest = (1 << width) - 1
    weight_at = at + (stored * width + 7) // 8
    waiting, ready, last = np.uint64(0), 0, np.int64(0)  # bits that do not fill a byte yet
    for i in range(start, stop):
        gap = np.int64(places[i]) - last
        last = np.int64(places[i])
        while True:  # once, unless the gap is too long for its bits
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
            gap -= longest  # the rest of a long gap follows a posting of weight 0
    if ready:
        packed[at] = waiting & np.uint64(255)
    return weight_at
