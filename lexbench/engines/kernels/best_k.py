"""The best k documents of each query, chosen while their scores come block by block, at next to no cost beside the scores.

A candidate is a key, a uint64: its score in the upper 32 bits, made so that larger numbers are larger scores, and below it the
document's position with all bits flipped, as the lower position wins ties. The larger key ranks first. Each query has room for
twice k keys. 64 scores at a time are compared with the query's bar, which is the k-th best score when there was last no more
room: most scores fall short, and cost nothing more.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lexbench.engines.kernels.checks import no_hits
from lexbench.engines.kernels.llvm import BLOCK, above_bar, trailing_zeros
from lexbench.selection import select
from lexbench.types import Hits

_SPARE = 64  # keys beyond twice k
_LOW = np.uint64(0xFFFFFFFF)  # where a key has the position


class Best:
    """The best *k* documents of each of *queries* queries so far, in 16 bytes times k, and 512 more, a query."""

    def __init__(self, queries: int, k: int) -> None:
        self._k = k
        self._keys = np.zeros((queries, 2 * k + _SPARE), np.uint64)
        self._counts, self._bars = np.zeros(queries, np.int64), np.full(queries, -np.inf, np.float32)

    def add(self, scores: NDArray[np.float32], position: int, query: int = 0) -> None:
        """Take the *scores* (n, documents) of the queries from *query* on and of the documents from *position* on.

        Blocks come in order of position. A score that is no number is no candidate.
        """
        if self._k:
            rows = slice(query, query + len(scores))
            state = self._keys[rows], self._counts[rows], self._bars[rows]
            _keep(scores, position, *state, self._k)

    def hits(self) -> Hits:
        """Return the best documents, best first; -1 where there are fewer. Nothing can be added afterwards."""
        if not self._k:
            return no_hits(len(self._keys), 0)
        _finish(self._keys, self._counts, self._k)
        keys = ~np.sort(~self._keys[:, : self._k], axis=1)
        docs = (~keys & _LOW).astype(np.int32)  # a key of 0 is no document, and -1
        ordered = (keys >> np.uint64(32)).astype(np.uint32)
        bits = np.where(ordered >> np.uint32(31), ordered ^ np.uint32(1 << 31), ~ordered)
        return Hits(docs, np.where(docs < 0, np.float32(-np.inf), bits.view(np.float32)))


@njit(nogil=True, cache=True)
def _keep(scores, position, keys, counts, bars, k):  # type: ignore[no-untyped-def]
    """Put scores above the bars into *keys*, raising the bar of a query when it has no more room."""
    width = scores.shape[1]
    whole = width - width % BLOCK
    bits, bar_bits = scores.view(np.uint32), bars.view(np.uint32)
    for row in range(len(scores)):
        row_keys, count, bar = keys[row], counts[row], bars[row]
        address = scores.ctypes.data + 4 * row * width
        for start in range(0, width, BLOCK):
            if start < whole:
                above = above_bar(address + 4 * start, bar)
            else:
                above = np.uint64(0)
                for i in range(start, width):
                    above |= np.uint64(scores[row, i] > bar) << np.uint64(i - start)
            while above:
                i = start + trailing_zeros(above)
                above &= above - np.uint64(1)
                if scores[row, i] > bar:
                    row_keys[count] = (_ordered(bits[row, i]) << np.uint64(32)) | np.uint64(~np.uint32(position + i))
                    count += 1
                    if count == len(row_keys):
                        select(row_keys, count, k)
                        bar_bits[row] = _disordered(np.uint32(row_keys[k - 1] >> np.uint64(32)))
                        count, bar = k, bars[row]
        counts[row] = count


@njit(nogil=True, cache=True)
def _ordered(bits):  # type: ignore[no-untyped-def]
    """Return the bits of a float32 as a number that is larger where the float is; both zeros are one."""
    if bits == np.uint32(1 << 31):
        bits = np.uint32(0)
    return np.uint64(~bits if bits >> np.uint32(31) else bits | np.uint32(1 << 31))


@njit(nogil=True, cache=True)
def _disordered(number):  # type: ignore[no-untyped-def]
    """Return the bits of the float32 of which `_ordered` made *number*."""
    return number ^ np.uint32(1 << 31) if number >> np.uint32(31) else ~number


@njit(nogil=True, cache=True)
def _finish(keys, counts, k):  # type: ignore[no-untyped-def]
    """Move the best *k* keys of each query to the front."""
    for row in range(len(keys)):
        select(keys[row], counts[row], k)
