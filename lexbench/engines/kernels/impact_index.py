"""The index of `impact`: what its files are, and how documents are made into them.

The postings of a term are two *lists*: one of the low bytes of its weights, and one of the high bytes, which weights above 255
have. Bytes that are 0 are left out. Documents are cut into windows, and a posting has its *place*, the position of the document
within its window. Lists of at least one document in DENSE have bitmaps, one bit a place. The others have *gaps*: how far a
place is from the one before it in its window, or from 0, in as many bits as make the list shortest. Where a gap is too long for
them, postings of weight 0 come between.

    facts.json              layout, documents, vocabulary, window
    document_frequency.npy  int32 (vocabulary,)
    largest_weight.npy      uint16 (vocabulary,)
    lists.npy               int32 (2, vocabulary): the list of a term's low and of its high bytes; -1 = there is none
    starts.npy              int64 (lists, 2): where a list starts in gaps.bin, and its form, see impact_lists; of a dense
                            one where it starts in weights.bin, and its row of bitmaps
    gaps.bin                list by list, window by window: how many postings, in one byte or two; gaps, from the lowest bit of
                            each byte on, up to a whole byte; weights
    weights.bin             of dense lists, list by list
    bitmaps.npy             uint64 (dense lists, windows * window / 64): a word a block; see impact_lists

Both .bin are bytes, and PAD more.

Memory does not grow with the collection but for a table of counts, because postings are sorted in two steps. Groups of
documents are sorted by list as they come (a counting sort) and written to two files; when all are there, the postings of some
lists at a time are gathered from all groups.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from lexbench.engines.kernels.checks import impacts
from lexbench.engines.kernels.impact_lists import make_bitmaps, pack_lists
from lexbench.engines.kernels.llvm import BLOCK
from lexbench.errors import LexbenchError

WINDOW = 8192  # positions, a power of 2 up to 2**WIDEST: sums take 32 KB; 4096 and 16,384 were measured a few per cent slower
GROUP = 1 << 18  # documents that are sorted at a time when building; a multiple of WINDOW
PAD = 64  # bytes after the last, so that vectors can be read past it
DENSE = 12  # measured; from 8 to 16 makes little difference
_GATHERED = 1 << 24  # postings that are gathered at a time, where no list has more

_Batch: TypeAlias = tuple[slice, NDArray[np.uint16], NDArray[np.uint8]]  # lists, ids, weights


class Sorted:
    """Postings in files of the folder *path*, sorted by list within each group of documents.

    The postings of term t are list t, of low bytes, and list vocabulary + t, of high bytes.
    """

    def __init__(self, path: Path, window: int, group: int) -> None:
        self.path = path
        self.window, self.group = window, group  # *group* is a multiple of *window*
        self.vocabulary = self.documents = 0
        self.counts: list[NDArray[np.uint16]] = []  # of each group (lists, its windows)
        self.frequency, self.largest = np.zeros(0, np.int32), np.zeros(0, np.uint16)  # (vocabulary,)
        self._waiting: list[sparse.csr_array] = []

    def add(self, shard: sparse.csr_array) -> None:
        """Take the vectors of the next documents (n, vocabulary)."""
        if not self.vocabulary:
            self.vocabulary = shard.shape[1]
            self.frequency, self.largest = np.zeros(self.vocabulary, np.int32), np.zeros(self.vocabulary, np.uint16)
        if shard.shape[1] != self.vocabulary:
            raise LexbenchError(f"impact got vectors of {self.vocabulary:,} terms and of {shard.shape[1]:,}; use one encoder")
        if not shard.has_canonical_format:
            shard = shard.copy()
            shard.sum_duplicates()
        matrix = impacts(shard, "impact")
        start, rows = 0, matrix.shape[0]
        while start < rows:
            stop = min(rows, start + self.group - self.documents % self.group)
            self._waiting.append(matrix[start:stop] if (start, stop) != (0, rows) else matrix)
            self.documents += stop - start
            start = stop
            if self.documents % self.group == 0:
                self.flush()

    def flush(self) -> None:
        """Sort the postings of the documents that are waiting by list, and write them: a group, or the last documents."""
        if not self._waiting:
            return
        rows = sum(shard.shape[0] for shard in self._waiting)
        counts = np.zeros((2 * self.vocabulary, -(-rows // self.window)), np.uint16)
        first = 0
        for shard in self._waiting:
            _count(shard.indptr, shard.indices, shard.data, first, self.window, counts, self.frequency, self.largest)
            first += shard.shape[0]
        ends = np.cumsum(counts.sum(axis=1, dtype=np.int64))
        at = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        ids, weights = np.empty(ends[-1], np.uint16), np.empty(ends[-1], np.uint8)
        first = 0
        for shard in self._waiting:
            _place(shard.indptr, shard.indices, shard.data, first, self.window, at, ids, weights)
            first += shard.shape[0]
        for name, array in (("ids", ids), ("weights", weights)):
            with (self.path / f"{name}.sorted").open("ab") as file:
                array.tofile(file)
        self.counts.append(counts)
        self._waiting.clear()


def gather(postings: Sorted, path: Path, layout: int) -> None:
    """Write the index of *postings* into the folder *path*; *layout* is the number of what the files are."""
    per_group = [part.sum(axis=1, dtype=np.int64) for part in postings.counts]
    totals = _sum(per_group, 2 * postings.vocabulary)
    used = np.flatnonzero(totals)
    sizes, dense = totals[used], is_dense(totals[used], postings.documents)
    counts = np.concatenate([np.zeros((len(used), 0), np.uint16), *(part[used] for part in postings.counts)], axis=1)
    postings.counts.clear()
    _save_terms(postings, used, path, layout)
    words = counts.shape[1] * postings.window // BLOCK
    forms, lengths = np.zeros(len(used), np.int64), np.zeros(len(used), np.int64)  # of lists; lengths in bytes
    with ExitStack() as files:
        gaps, weights = (files.enter_context((path / name).open("wb")) for name in ("gaps.bin", "weights.bin"))
        bitmaps = files.enter_context(_npy(path / "bitmaps.npy", np.uint64, int(dense.sum()), words))
        for lists, batch_ids, batch_weights in _batches(postings.path, [part[used] for part in per_group], sizes):
            rows = np.zeros((int(dense[lists].sum()), words), np.uint64)
            batch = batch_ids, batch_weights, sizes[lists], dense[lists], counts[lists]
            room = np.empty(3 * (len(batch_ids) + batch[-1].size), np.uint8)  # as long as lists can get, see `pack_lists`
            room[: pack_lists(*batch, forms[lists], lengths[lists], room)].tofile(gaps)
            room[: make_bitmaps(*batch, postings.window, rows, room)].tofile(weights)
            rows.tofile(bitmaps)
        for file in (gaps, weights):
            np.zeros(PAD, np.uint8).tofile(file)
    lengths[dense] = sizes[dense]
    in_gaps, in_weights = (np.cumsum(np.where(kind, lengths, 0)) - lengths for kind in (~dense, dense))
    starts = np.column_stack([np.where(dense, in_weights, in_gaps), np.where(dense, np.cumsum(dense) - 1, forms)])
    np.save(path / "starts.npy", starts.astype(np.int64))


def _sum(parts: list[NDArray[np.int64]], size: int) -> NDArray[np.int64]:
    """Return the sum of *parts*, arrays (size,), of which there may be none."""
    total = np.zeros(size, np.int64)
    for part in parts:
        total += part
    return total


def _save_terms(postings: Sorted, used: NDArray[np.int64], path: Path, layout: int) -> None:
    """Write the facts, and the files with a row a term; *used* are the numbers of the lists that have postings."""
    facts = {"layout": layout, "documents": postings.documents, "vocabulary": postings.vocabulary, "window": postings.window}
    (path / "facts.json").write_text(json.dumps(facts) + "\n", encoding="utf-8")
    lists = np.full(2 * postings.vocabulary, -1, np.int32)
    lists[used] = np.arange(len(used))
    np.save(path / "document_frequency.npy", postings.frequency)
    np.save(path / "largest_weight.npy", postings.largest)
    np.save(path / "lists.npy", lists.reshape(2, -1))


def _npy(path: Path, dtype: DTypeLike, *shape: int) -> BinaryIO:
    """Return a new `.npy` file whose header is written, and whose elements are to follow."""
    file = path.open("wb")
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    file.flush()
    return file


def _batches(folder: Path, per_group: list[NDArray[np.int64]], sizes: NDArray[np.int64]) -> Iterator[_Batch]:
    """Yield the postings of consecutive lists, gathered from all groups in *folder*; the caller may change the arrays."""
    bases = np.cumsum([0, *(part.sum() for part in per_group)])
    starts = [base + np.cumsum([0, *part]) for base, part in zip(bases, per_group, strict=False)]
    ends = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        before = ends[first] - sizes[first]
        last = max(first + 1, int(np.searchsorted(ends, before + _GATHERED, "right")))
        lists = slice(first, last)
        ids, weights = np.empty(ends[last - 1] - before, np.uint16), np.empty(ends[last - 1] - before, np.uint8)
        at = ends[lists] - sizes[lists] - before
        for group_sizes, start in zip(per_group, starts, strict=True):
            group_ids = _read(folder / "ids.sorted", np.uint16, start[first], start[last])
            group_weights = _read(folder / "weights.sorted", np.uint8, start[first], start[last])
            _interleave(group_ids, group_weights, group_sizes[lists], at, ids, weights)
        yield lists, ids, weights
        first = last


def _read(path: Path, dtype: DTypeLike, start: int, stop: int) -> NDArray[Any]:
    """Return elements *start* to *stop* of a file that is one raw array."""
    kind = np.dtype(dtype)
    return np.fromfile(path, kind, int(stop - start), offset=int(start) * kind.itemsize)


def is_dense(postings: NDArray[np.int64], documents: int) -> NDArray[np.bool_]:
    """Tell which lists, with *postings* (lists,) each, are stored as bitmaps: faster and smaller than 2 bytes a place."""
    return postings * DENSE >= documents


@njit(nogil=True, cache=True)
def _count(starts, terms, weights, first, window, counts, frequency, largest):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Count the postings of each list and window of documents whose first is number *first* of its group."""
    high = len(frequency)
    for row in range(len(starts) - 1):
        inside = (first + row) // window
        for i in range(starts[row], starts[row + 1]):
            term, weight = terms[i], weights[i]
            frequency[term] += 1
            largest[term] = max(largest[term], weight)
            counts[term, inside] += (weight & 255) != 0
            counts[high + term, inside] += weight > 255  # noqa: PLR2004 - bytes


@njit(nogil=True, cache=True)
def _place(starts, terms, weights, first, window, at, ids, weight_bytes):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Write the postings of the same documents to the places *at* (lists,), where their lists go on."""
    high = len(at) // 2
    for row in range(len(starts) - 1):
        place = (first + row) % window
        for i in range(starts[row], starts[row + 1]):
            term, weight = terms[i], weights[i]
            if weight & 255:
                ids[at[term]] = place
                weight_bytes[at[term]] = weight & 255
                at[term] += 1
            if weight > 255:  # noqa: PLR2004 - bytes
                ids[at[high + term]] = place
                weight_bytes[at[high + term]] = weight >> 8
                at[high + term] += 1


@njit(nogil=True, cache=True)
def _interleave(group_ids, group_weights, sizes, at, ids, weights):  # type: ignore[no-untyped-def]
    """Append what one group has of each list at the places *at* (lists,), where the lists go on."""
    start = 0
    for number in range(len(sizes)):
        place, size = at[number], sizes[number]
        for i in range(size):
            ids[place + i] = group_ids[start + i]
            weights[place + i] = group_weights[start + i]
        at[number] += size
        start += size
