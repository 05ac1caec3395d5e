"""Document vectors into the files of `impact`, in memory that does not grow with the collection but for a table of counts.

Postings are sorted in two steps. Groups of documents are sorted by list as they come (a counting sort) and written to two
files; when all are there, the postings of some lists at a time are gathered from all groups (_impact_gather).
"""

from pathlib import Path

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from lexbench.engines.kernels.impacts import impacts
from lexbench.errors import LexbenchError


class Sorted:
    """Postings, sorted by list in each group of documents. The lists of term t are t and vocabulary + t (high bytes)."""

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
        """Sort the documents that are waiting by list, and write them."""
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
    """Write the postings of the same documents to where their lists are *at*."""
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
