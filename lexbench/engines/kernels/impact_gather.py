"""The second step of building `impact`: the postings of each list, out of all groups of documents, and the index's files."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import DTypeLike, NDArray

from lexbench.engines.kernels.impact_build import Sorted
from lexbench.engines.kernels.impact_layout import BLOCK, PAD, bit_of, is_dense

_GATHERED = 1 << 24  # postings that are gathered at a time, where no list has more

_bit_of: Any = njit(bit_of)
_Batch: TypeAlias = tuple[slice, NDArray[np.uint16], NDArray[np.uint8]]  # lists, ids, weights


def gather(postings: Sorted, path: Path) -> None:
    """Write the index of *postings* into the folder *path*."""
    per_group = [part.sum(axis=1, dtype=np.int64) for part in postings.counts]
    totals = _sum(per_group, 2 * postings.vocabulary)
    used = np.flatnonzero(totals)
    sizes, dense = totals[used], is_dense(totals[used], postings.documents)
    counts = np.concatenate([np.zeros((len(used), 0), np.uint16), *(part[used] for part in postings.counts)], axis=1)
    postings.counts.clear()
    _save_tables(postings, used, sizes, dense, path)
    np.save(path / "counts.npy", counts)
    words = counts.shape[1] * postings.window // BLOCK
    with ExitStack() as files:
        ids = files.enter_context(_npy(path / "ids.npy", np.uint16, int(sizes[~dense].sum()) + PAD))
        weights = files.enter_context(_npy(path / "weights.npy", np.uint8, int(sizes.sum()) + PAD))
        bitmaps = files.enter_context(_npy(path / "bitmaps.npy", np.uint64, int(dense.sum()), words))
        for some, own_ids, own_weights in _batches(postings.path, [part[used] for part in per_group], sizes):
            rows = np.zeros((int(dense[some].sum()), words), np.uint64)
            kept = _split(own_ids, own_weights, sizes[some], dense[some], counts[some], postings.window, rows)
            own_ids[:kept].tofile(ids)
            own_weights.tofile(weights)
            rows.tofile(bitmaps)
        np.zeros(PAD, np.uint16).tofile(ids)
        np.zeros(PAD, np.uint8).tofile(weights)


def _sum(parts: list[NDArray[np.int64]], size: int) -> NDArray[np.int64]:
    """Return the sum of arrays of that size, of which there may be none."""
    total = np.zeros(size, np.int64)
    for part in parts:
        total += part
    return total


def _save_tables(
    postings: Sorted, used: NDArray[np.int64], sizes: NDArray[np.int64], dense: NDArray[np.bool_], path: Path
) -> None:
    """Write what is there once a collection, a term or a list; *used* are the numbers of the lists that have postings."""
    facts = {"documents": postings.documents, "vocabulary": postings.vocabulary, "window": postings.window}
    (path / "facts.json").write_text(json.dumps(facts) + "\n", encoding="utf-8")
    lists = np.full(2 * postings.vocabulary, -1, np.int32)
    lists[used] = np.arange(len(used))
    id_starts = np.cumsum(np.where(dense, 0, sizes)) - sizes
    starts = np.column_stack([np.cumsum(sizes) - sizes, np.where(dense, np.negative(np.cumsum(dense)), id_starts)])
    np.save(path / "document_frequency.npy", postings.frequency)
    np.save(path / "largest_weight.npy", postings.largest)
    np.save(path / "lists.npy", lists.reshape(2, -1))
    np.save(path / "starts.npy", starts.astype(np.int64))


def _npy(path: Path, dtype: DTypeLike, *shape: int) -> BinaryIO:
    """Return a file in which the array of that type and shape is to be written."""
    file = path.open("wb")
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    file.flush()
    return file


def _batches(folder: Path, per_group: list[NDArray[np.int64]], sizes: NDArray[np.int64]) -> Iterator[_Batch]:
    """Yield the postings of consecutive lists; the arrays are the receiver's to change."""
    bases = np.cumsum([0, *(part.sum() for part in per_group)])
    starts = [base + np.cumsum([0, *part]) for base, part in zip(bases, per_group, strict=False)]
    ends = np.cumsum(sizes)
    first = 0
    while first < len(sizes):
        before = ends[first] - sizes[first]
        last = max(first + 1, int(np.searchsorted(ends, before + _GATHERED, "right")))
        some = slice(first, last)
        ids, weights = np.empty(ends[last - 1] - before, np.uint16), np.empty(ends[last - 1] - before, np.uint8)
        at = ends[some] - sizes[some] - before
        for own, start in zip(per_group, starts, strict=True):
            group_ids = _read(folder / "ids.sorted", np.uint16, start[first], start[last])
            group_weights = _read(folder / "weights.sorted", np.uint8, start[first], start[last])
            _interleave(group_ids, group_weights, own[some], at, ids, weights)
        yield some, ids, weights
        first = last


def _read(path: Path, dtype: DTypeLike, start: int, stop: int) -> NDArray[Any]:
    """Return elements *start* to *stop* of a file of nothing else."""
    kind = np.dtype(dtype)
    return np.fromfile(path, kind, int(stop - start), offset=int(start) * kind.itemsize)


@njit(nogil=True, cache=True)
def _interleave(group_ids, group_weights, sizes, at, ids, weights):  # type: ignore[no-untyped-def]
    """Append what one group has of each list to where the list is *at*."""
    start = 0
    for each in range(len(sizes)):
        place, size = at[each], sizes[each]
        for i in range(size):
            ids[place + i] = group_ids[start + i]
            weights[place + i] = group_weights[start + i]
        at[each] += size
        start += size


@njit(nogil=True, cache=True)
def _split(ids, weights, sizes, dense, counts, window, bitmaps):  # type: ignore[no-untyped-def]
    """Make bitmaps of dense lists, their weights in the order of bits; move other ids to the front and return their number."""
    start = kept = row = 0
    spread = np.zeros(window, np.uint8)
    for each in range(len(sizes)):
        if dense[each]:
            at = start
            for number in range(counts.shape[1]):
                for i in range(at, at + counts[each, number]):
                    place = np.int64(ids[i])
                    spread[place // BLOCK * BLOCK + _bit_of(place % BLOCK)] = weights[i]
                for i in range(window):
                    if spread[i]:
                        bitmaps[row, (number * window + i) // BLOCK] |= np.uint64(1) << np.uint64(i % BLOCK)
                        weights[at] = spread[i]
                        spread[i] = 0
                        at += 1
            row += 1
        else:
            for i in range(start, start + sizes[each]):
                ids[kept] = ids[i]
                kept += 1
        start += sizes[each]
    return kept
