"""The second step of building `impact`: the postings of each list, out of all groups of documents, and the index's files."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import DTypeLike, NDArray

from lexbench.engines._impact_build import Sorted
from lexbench.engines._impact_layout import BLOCK, PAD, bit_of, is_dense

_GATHERED = 1 << 24  # postings that are gathered at a time, where no list has more

_bit_of = njit(bit_of)
_Batch: TypeAlias = tuple[slice, NDArray[np.uint16], NDArray[np.uint8]]  # lists, ids, weights


def gather(postings: Sorted, path: Path) -> None:
    """Write the index of *postings* into the folder *path*."""
    per_group = [counts.sum(axis=1, dtype=np.int64) for counts in postings.counts]
    totals = np.sum(per_group, axis=0, dtype=np.int64) if per_group else np.zeros(2 * postings.vocabulary, np.int64)
    used = np.flatnonzero(totals)
    sizes = totals[used]
    dense = is_dense(sizes, postings.documents)
    counts = np.concatenate([np.zeros((len(used), 0), np.uint16), *(part[used] for part in postings.counts)], axis=1)
    postings.counts.clear()
    lists = np.full(2 * postings.vocabulary, -1, np.int32)
    lists[used] = np.arange(len(used))
    id_starts = np.cumsum(np.where(dense, 0, sizes)) - sizes
    starts = np.column_stack([np.cumsum(sizes) - sizes, np.where(dense, -np.cumsum(dense), id_starts)])
    facts = {"documents": postings.documents, "vocabulary": postings.vocabulary, "window": postings.window}
    (path / "facts.json").write_text(json.dumps(facts) + "\n", encoding="utf-8")
    np.save(path / "document_frequency.npy", postings.frequency)
    np.save(path / "largest_weight.npy", postings.largest)
    np.save(path / "lists.npy", lists.reshape(2, -1))
    np.save(path / "starts.npy", starts.astype(np.int64))
    np.save(path / "counts.npy", counts)
    words = counts.shape[1] * postings.window // BLOCK
    with ExitStack() as files:
        ids = files.enter_context(_npy(path / "ids.npy", np.uint16, int(sizes[~dense].sum()) + PAD))
        weights = files.enter_context(_npy(path / "weights.npy", np.uint8, int(sizes.sum()) + PAD))
        bitmaps = files.enter_context(_npy(path / "bitmaps.npy", np.uint64, int(dense.sum()), words))
        for some, own_ids, own_weights in _batches(postings.path, [part[used] for part in per_group]):
            rows = np.zeros((int(dense[some].sum()), words), np.uint64)
            kept = _split(own_ids, own_weights, sizes[some], dense[some], counts[some], postings.window, rows)
            own_ids[:kept].tofile(ids)
            own_weights.tofile(weights)
            rows.tofile(bitmaps)
        np.zeros(PAD, np.uint16).tofile(ids)
        np.zeros(PAD, np.uint8).tofile(weights)


def _npy(path: Path, dtype: DTypeLike, *shape: int) -> BinaryIO:
    """Return a file in which the array of that type and shape is to be written."""
    file = path.open("wb")
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)  # type: ignore[arg-type]
    file.flush()
    return file


def _batches(folder: Path, per_group: list[NDArray[np.int64]]) -> Iterator[_Batch]:
    """Yield the postings of consecutive lists; the arrays are the receiver's to change."""
    totals = np.sum(per_group, axis=0, dtype=np.int64) if per_group else np.zeros(0, np.int64)
    bases = np.cumsum([0, *(part.sum() for part in per_group)])
    before = [np.concatenate([np.zeros(1, np.int64), np.cumsum(part)]) + base for part, base in zip(per_group, bases, strict=False)]
    first = 0
    while first < len(totals):
        last = max(first + 1, first + int(np.searchsorted(np.cumsum(totals[first:]), _GATHERED, "right")))
        some = slice(first, last)
        ids, weights = np.empty(totals[some].sum(), np.uint16), np.empty(totals[some].sum(), np.uint8)
        at = np.cumsum(totals[some]) - totals[some]
        for part, starts in zip(per_group, before, strict=True):
            group_ids, group_weights = (
                np.fromfile(folder / name, array.dtype, int(starts[last] - starts[first]), offset=int(starts[first]) * array.itemsize)
                for name, array in (("ids.sorted", ids), ("weights.sorted", weights))
            )
            _interleave(group_ids, group_weights, part[some], at, ids, weights)
        yield some, ids, weights
        first = last


@njit(nogil=True, cache=True)
def _interleave(group_ids, group_weights, sizes, at, ids, weights):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0913, PLR0917
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
def _split(ids, weights, sizes, dense, counts, window, bitmaps):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0913, PLR0917
    """Make bitmaps of dense lists, their weights in the order of bits; move the ids of the others to the front, and count them."""
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
