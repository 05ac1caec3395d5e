"""BM25 to the bit as Lucene 9 and 10 compute it (`org.apache.lucene.search.similarities.BM25Similarity`).

Every step is rounded to float32 where Lucene rounds it. Of a document's length only a class is kept, one byte: exact up to 40
terms, then four significant bits of what exceeds 24 (`org.apache.lucene.util.SmallFloat.intToByte4`).
"""

import numpy as np
from numpy.typing import NDArray

_EXACT = 24
_MANTISSA_BITS = 3  # and a leading one, which is not stored


def _shortest(length_class: int) -> int:
    """Return the shortest length of a class, which stands for all in it."""
    exponent, mantissa = divmod(max(length_class - _EXACT, 0), 1 << _MANTISSA_BITS)
    if not exponent:
        return length_class
    return _EXACT + ((mantissa | 1 << _MANTISSA_BITS) << (exponent - 1))


LENGTHS = np.array([_shortest(length_class) for length_class in range(256)], np.int64)  # by class, ascending


def length_classes(lengths: NDArray[np.integer]) -> NDArray[np.uint8]:
    """Return the class (n,) of each document length (n,), in index terms."""
    return (np.searchsorted(LENGTHS, lengths, side="right") - 1).astype(np.uint8)


def idf(frequencies: NDArray[np.integer], documents: int) -> NDArray[np.float32]:
    """Return log(1 + (N - n + 0.5) / (n + 0.5)) for terms that are in n (terms,) of the N documents with any term."""
    values: NDArray[np.float64] = np.log(1 + (documents - frequencies + 0.5) / (frequencies + 0.5))
    return values.astype(np.float32)


def inverse_norms(classes: NDArray[np.uint8], average: float, k1: float, b: float) -> NDArray[np.float32]:
    """Return 1 / norm of length *classes* (n,): a term of weight w and frequency tf adds w - w / (1 + tf / norm) to a score.

    *average* is the mean length of documents with any term.
    """
    one, k1_, b_ = np.float32(1), np.float32(k1), np.float32(b)
    with np.errstate(divide="ignore"):  # k1 = 0: a term counts in full wherever it occurs
        inverses: NDArray[np.float32] = one / (k1_ * ((one - b_) + b_ * LENGTHS.astype(np.float32) / np.float32(average)))
    return inverses[classes]
