"""Loops that beat BLAS and numpy at what `flat` asks of them: products with few queries, and half precision made single.

BLAS rearranges the documents before it multiplies, which takes longer than a product with few queries; and its product with
one query takes twice as long as reading the documents.
"""

from numba import njit
from numpy import empty, float32, uint32

_SUMS = {"reassoc", "contract", "nsz"}  # sums in any order, so that they run in vectors; nothing is supposed of the values


@njit(nogil=True, cache=True, fastmath=_SUMS)
def products(documents, queries, out):  # type: ignore[no-untyped-def]
    """Write the products of float32 *documents* (n, width) and *queries* (m, width) to *out* (m, n)."""
    for row in range(len(documents)):
        for query in range(len(queries)):
            total = float32(0)
            for i in range(documents.shape[1]):
                total += documents[row, i] * queries[query, i]
            out[query, row] = total


@njit(nogil=True, cache=True, fastmath=_SUMS)
def products_of_halves(documents, queries, out):  # type: ignore[no-untyped-def]
    """Do the same with *documents* of float16, given as uint16 bits: each is widened in the first-level cache."""
    single = empty((1, documents.shape[1]), float32)
    for row in range(len(documents)):
        widen(documents[row], single[0])
        products(single, queries, out[:, row : row + 1])


@njit(nogil=True, cache=True)
def widen(halves, singles):  # type: ignore[no-untyped-def]
    """Write finite float16 numbers, given as uint16 bits, into the float32 array *singles* of the same length; exactly.

    The exponent of a half is 112 less than that of the float32 that has its bits in the same places.
    """
    for i in range(len(halves)):
        bits = uint32(halves[i])
        size = float32(uint32((bits & uint32(0x7FFF)) << uint32(13)).view(float32) * float32(2.0**112))
        sign = uint32((bits & uint32(0x8000)) << uint32(16))
        singles[i] = uint32(float32(size).view(uint32) | sign).view(float32)
