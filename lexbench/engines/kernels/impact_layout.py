"""What the files of `impact` are.

A *list* is the postings of one term whose weights have a nonzero low byte, or of those with a nonzero high byte: a weight is a
posting of a byte, and one above 255 is two, which add up to it. Positions are cut into windows, and a posting has its place in
its window. Lists of at least one document in DENSE have their places as bitmaps, one bit a document; the others as ids.

    facts.json              documents, vocabulary, window
    document_frequency.npy  int32 (vocabulary,)
    largest_weight.npy      uint16 (vocabulary,)
    lists.npy               int32 (2, vocabulary): the list of a term's low and of its high bytes; -1 = there is none
    starts.npy              int64 (lists, 2): where a list's weights start; where its ids start, or -1 - its row of bitmaps
    counts.npy              uint16 (lists, windows): postings
    ids.npy                 uint16 (postings + PAD,): places, list by list, ascending within a window
    weights.npy             uint8 (postings + PAD,)
    bitmaps.npy             uint64 (dense lists, windows * window / 64): a word a block; see `bit_of`
"""

import numpy as np
from numpy.typing import NDArray

WINDOW = 8192  # positions, whose sums take 32 KB; 4096 and 16,384 were measured to be a few per cent slower
GROUP = 1 << 18  # documents that are sorted at a time when building; a multiple of WINDOW
BLOCK = 64  # positions that are looked at together; divides WINDOW
PAD = 64  # elements after the last, so that vectors can be read past it
DENSE = 12  # measured; from 8 to 16 makes little difference


def is_dense(postings: NDArray[np.int64], documents: int) -> NDArray[np.bool_]:
    """Tell which lists of so many postings are kept as bitmaps: faster, and smaller, than 2 bytes a place."""
    return postings * DENSE >= documents


def bit_of(place: int) -> int:
    """Return which bit of its block's bitmap a place has; the weights of a dense list are in this order within a block.

    It is such that bytes in the order of bits become sums in the order of places by masks and shifts alone (_impact_vector).
    """
    return (place & 15) << 2 | place >> 4


def place_of(bit: int) -> int:
    """Return the place in its block that a bit stands for."""
    return (bit & 3) << 4 | bit >> 2
