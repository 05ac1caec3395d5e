"""The best k of each query out of products that come block by block, at next to no cost beside the products.

A candidate is a key, a whole number: its score, made so that larger numbers are larger scores, then its position with all bits
flipped, as the lower position wins ties. Each query has room for twice k of them. 64 products at a time are held against
the query's bar, the k-th best score when there was last no more room: most fall short, and cost nothing more.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from lexbench.engines.kernels.impact_best import select
from lexbench.engines.kernels.impact_vector import _Writer, trailing_zeros
from lexbench.engines.kernels.top_k import no_hits
from lexbench.types import Hits

_TOGETHER = 64  # products, one bit of a word each
_SPARE = 64  # keys beyond twice k
_LOW = np.uint64(0xFFFFFFFF)  # where a key has the position


class Best:
    """The best *k* documents of each of so many *queries* so far: 16 bytes times k, and 512, each."""

    def __init__(self, queries: int, k: int) -> None:
        self._k = k
        self._keys = np.zeros((queries, 2 * k + _SPARE), np.uint64)
        self._spare = np.empty(2 * k + _SPARE, np.uint64)
        self._counts, self._bars = np.zeros(queries, np.int64), np.full(queries, -np.inf, np.float32)

    def add(self, products: NDArray[np.float32], position: int, query: int = 0) -> None:
        """Take the *products* (n, documents) of queries *query* and following, and documents *position* and following.

        Blocks come in order of position. A product that is no number is no candidate.
        """
        if self._k:
            rows = slice(query, query + len(products))
            state = self._keys[rows], self._counts[rows], self._bars[rows]
            _keep(products, position, *state, self._spare, self._k)

    def hits(self) -> Hits:
        """Return the best, best first; -1 where there are fewer. Nothing can be added any more."""
        if not self._k:
            return no_hits(len(self._keys), 0)
        _finish(self._keys, self._counts, self._spare, self._k)
        keys = ~np.sort(~self._keys[:, : self._k], axis=1)
        docs = (~keys & _LOW).astype(np.int32)  # a key of 0 is no document, and -1
        ordered = (keys >> np.uint64(32)).astype(np.uint32)
        bits = np.where(ordered >> np.uint32(31), ordered ^ np.uint32(1 << 31), ~ordered)
        return Hits(docs, np.where(docs < 0, np.float32(-np.inf), bits.view(np.float32)))


def _above(_: Any, products: Any, bar: Any) -> Any:  # noqa: ARG001 - numba looks at their number
    """Return which of the 64 float32 at the address *products* are above *bar*, one bit each."""

    def code(_: Any, builder: Any, __: Any, args: Any) -> Any:
        write, kind = _Writer(builder), ir.VectorType(ir.FloatType(), _TOGETHER)
        above = builder.fcmp_ordered(">", write.load(args[0], kind, 4), write.splat(args[1], kind))
        return builder.bitcast(above, ir.IntType(_TOGETHER))

    return types.uint64(types.int64, types.float32), code


above_bar: Any = intrinsic(_above)


@njit(nogil=True, cache=True)
def _keep(products, position, keys, counts, bars, spare, k):  # type: ignore[no-untyped-def]
    """Take products above the bars into *keys*, raising the bars when there is no more room."""
    width = products.shape[1]
    whole = width - width % _TOGETHER
    bits, ends = products.view(np.uint32), bars.view(np.uint32)
    for row in range(len(products)):
        own, count, bar = keys[row], counts[row], bars[row]
        address = products.ctypes.data + 4 * row * width
        for start in range(0, width, _TOGETHER):
            if start < whole:
                above = above_bar(address + 4 * start, bar)
            else:
                above = np.uint64(0)
                for i in range(start, width):
                    above |= np.uint64(products[row, i] > bar) << np.uint64(i - start)
            while above:
                i = start + trailing_zeros(above)
                above &= above - np.uint64(1)
                if products[row, i] > bar:
                    own[count] = (_ordered(bits[row, i]) << np.uint64(32)) | np.uint64(~np.uint32(position + i))
                    count += 1
                    if count == len(own):
                        select(own, count, k, spare)
                        ends[row] = _disordered(np.uint32(own[k - 1] >> np.uint64(32)))
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
    """Return the bits of the float32 that `_ordered` made *number* of."""
    return number ^ np.uint32(1 << 31) if number >> np.uint32(31) else ~number


@njit(nogil=True, cache=True)
def _finish(keys, counts, spare, k):  # type: ignore[no-untyped-def]
    """Move the best *k* of each query to the front."""
    for row in range(len(keys)):
        select(keys[row], counts[row], k, spare)
