"""The postings of `bm25` as its index stores them, packed and unpacked by compiled loops.

The postings of a term are cut into blocks of BLOCK, of which the last may have fewer. A block is

    one byte    the bits of a gap
    one byte    the bits of a frequency
    four bytes  the position of its last document; only of a block of BLOCK postings
    codes       of each posting (gap - 1) << (bits of a frequency) | (frequency - 1), from the lowest bit of each byte on, up to
                a whole byte

A gap is how far a document's position is from that of the posting before, or from -1. Bits are as many as the largest of the
block needs, so a posting takes a byte to two, and a term of one document six bytes at most. The lists of `impact` have a byte
for each window of documents, which is too much for a vocabulary of words, most of which are rare.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

BLOCK = 128
PAD = 8  # bytes after the last, so that words can be read past it
MOST = 1 << 26  # what a frequency can be: it and a gap of 31 bits are read as one word at any bit of a byte
_HEADER, _LAST = 2, 4  # bytes


def _word_at(_: Any, address: Any) -> Any:  # noqa: ARG001 - numba counts the arguments
    """Return the 8 bytes at *address* as a uint64, the lowest byte first. Nothing checks that 8 bytes are there.

    Addresses (`array.ctypes.data`) are whole numbers: numba counts references to an array that is passed on, which costs more.
    """

    def code(_: Any, builder: Any, __: Any, args: Any) -> Any:
        word = builder.load(builder.inttoptr(args[0], ir.PointerType(ir.IntType(64))))
        word.align = 1
        return word

    return types.uint64(types.int64), code


word_at: Any = intrinsic(_word_at)


def room(postings: int, terms: int) -> int:
    """Return how many bytes so many *postings* of so many *terms* take at most."""
    return 8 * postings + (_HEADER + _LAST) * (postings // BLOCK + terms)


@njit(nogil=True, cache=True)
def pack(docs, frequencies, sizes, packed, lengths):  # type: ignore[no-untyped-def]
    """Put the postings of terms one after another into *packed*, uint8 as long as `room` says; return where they end.

    *sizes* (terms,) says how many of *docs* and *frequencies* (postings,) each term has, ascending by document; *lengths*
    (terms,) how many bytes each then takes.
    """
    first = at = np.int64(0)  # a bare 0 is a type of its own, for which all would be compiled again
    for term in range(len(sizes)):
        begin, stop, last = at, first + sizes[term], np.int64(-1)
        while first < stop:
            count = min(BLOCK, stop - first)
            at = _pack_block(docs[first : first + count], frequencies[first : first + count], last, packed, at)
            first += count
            last = np.int64(docs[first - 1])
        lengths[term] = at - begin
    return at


@njit(nogil=True, cache=True)
def _pack_block(docs, frequencies, last, packed, at):  # type: ignore[no-untyped-def]
    """Put a block behind the posting of document *last* into *packed* from *at* on; return where it ends."""
    gaps, counts, before = np.int64(0), np.int64(0), last
    for i in range(len(docs)):
        gaps |= np.int64(docs[i]) - before - 1
        counts |= np.int64(frequencies[i]) - 1
        before = np.int64(docs[i])
    gap_bits, count_bits = _bits(gaps), _bits(counts)
    packed[at], packed[at + 1] = gap_bits, count_bits
    at += _HEADER
    if len(docs) == BLOCK:
        for i in range(_LAST):
            packed[at + i] = before >> 8 * i & 255
        at += _LAST
    waiting, ready = np.uint64(0), 0  # bits that fill no byte yet
    for i in range(len(docs)):
        code = (np.int64(docs[i]) - last - 1) << count_bits | (np.int64(frequencies[i]) - 1)
        last = np.int64(docs[i])
        waiting |= np.uint64(code) << np.uint64(ready)
        ready += gap_bits + count_bits
        while ready >= 8:  # noqa: PLR2004 - bits of a byte
            packed[at] = waiting & np.uint64(255)
            waiting >>= np.uint64(8)
            ready -= 8
            at += 1
    if ready:
        packed[at] = waiting & np.uint64(255)
        at += 1
    return at


@njit(nogil=True, cache=True)
def _bits(number):  # type: ignore[no-untyped-def]
    """Return how many bits *number* needs."""
    bits = 0
    while number >> bits:
        bits += 1
    return bits


@njit(nogil=True, cache=True)
def unpack(packed, at, count, last, docs, frequencies):  # type: ignore[no-untyped-def]
    """Read a block of *count* postings at *at*, behind document *last*; return where it ends, and the bits of a frequency.

    *docs* and *frequencies* int32 (BLOCK,) are filled: the latter with what they are less 1.
    """
    gap_bits, count_bits = np.int64(packed[at]), np.int64(packed[at + 1])
    at += _HEADER + (_LAST if count == BLOCK else 0)
    bits, address = gap_bits + count_bits, packed.ctypes.data + at
    gap_mask, count_mask = (np.int64(1) << gap_bits) - 1, (np.int64(1) << count_bits) - 1
    for i in range(count):
        code = np.int64(word_at(address + (i * bits >> 3)) >> np.uint64(i * bits & 7))
        docs[i] = code >> count_bits & gap_mask
        frequencies[i] = code & count_mask
    for i in range(count):
        last += docs[i] + 1
        docs[i] = last
    return at + (count * bits + 7 >> 3), count_bits


@njit(nogil=True, cache=True)
def skip(packed, at):  # type: ignore[no-untyped-def]
    """Return where a block of BLOCK postings at *at* ends, and the position of its last document."""
    last = np.int64(word_at(packed.ctypes.data + at + _HEADER) & np.uint64(0xFFFFFFFF))
    bits = np.int64(packed[at]) + np.int64(packed[at + 1])
    return at + _HEADER + _LAST + (BLOCK * bits >> 3), last


@njit(nogil=True, cache=True)
def codes_at(packed, at):  # type: ignore[no-untyped-def]
    """Return the address of the codes of a block of BLOCK postings at *at*."""
    return packed.ctypes.data + at + _HEADER + _LAST
