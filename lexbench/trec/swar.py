"""Text eight bytes at a time, as one number: where it has blanks and digits, and what the digits say.

Known as SWAR, SIMD within a register (L. Lamport, "Multiple byte processing with full-word instructions", CACM 18(8), 1975).
Text is given by its address, a whole number, as `array.ctypes.data`: numba counts who has an array that is passed on, which
costs more than what is done here. Nothing is checked: eight bytes behind what is looked at must be there, too.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

_LOWEST, _HIGHEST = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)  # bits of each byte
_ZEROS, _ABOVE_9 = np.uint64(0x3030303030303030), np.uint64(118) * _LOWEST  # what carries a number above 9 to the highest bit
_PLACES = np.uint64(0x0001020304050607)
_PAIRS, _FOURS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
_BY_10, _BY_100, _BY_10000 = np.uint64(1 + (10 << 8)), np.uint64(1 + (100 << 16)), np.uint64(1 + (10000 << 32))


def _word_at(_: Any, address: Any) -> Any:  # noqa: ARG001 - numba counts the arguments
    """Return the 8 bytes at *address*, the lowest first, wherever it is, as uint64."""

    def code(_: Any, builder: Any, __: Any, args: Any) -> Any:
        word = builder.load(builder.inttoptr(args[0], ir.PointerType(ir.IntType(64))))
        word.align = 1
        return word

    return types.uint64(types.int64), code


word_at: Any = intrinsic(_word_at)


@njit(nogil=True, cache=True)
def byte_at(address):  # type: ignore[no-untyped-def]
    """Return the byte at *address*, int64."""
    return np.int64(word_at(address) & np.uint64(255))


@njit(nogil=True, cache=True)
def equal(one, other, size):  # type: ignore[no-untyped-def]
    """Tell whether *size* bytes at the address *one*, at least one byte, are those at *other*."""
    done = 0
    while size - done > 8:  # noqa: PLR2004 - bytes
        if word_at(one + done) != word_at(other + done):
            return False
        done += 8
    return (word_at(one + done) ^ word_at(other + done)) << np.uint64(8 * (8 - size + done)) == 0


@njit(nogil=True, cache=True)
def _first(marks):  # type: ignore[no-untyped-def]
    """Return the number of the first byte with a mark, which is its highest bit; 8 if there is none."""
    lowest = marks & (~marks + np.uint64(1))
    return np.int64((lowest >> np.uint64(7)) * _PLACES >> np.uint64(56)) if marks else 8


@njit(nogil=True, cache=True)
def before_blank(word):  # type: ignore[no-untyped-def]
    """Return the bytes of *word* before the first that is no more than a space, the first highest, and how many they are."""
    length = _first((word - np.uint64(33) * _LOWEST) & ~word & _HIGHEST)  # marks are right up to the first, which counts
    turned = np.uint64(0)
    for i in range(8):
        turned |= (word >> np.uint64(8 * i) & np.uint64(255)) << np.uint64(56 - 8 * i)
    return (turned & ~(~np.uint64(0) >> np.uint64(8 * length)) if length < 8 else turned), length  # noqa: PLR2004 - bytes


@njit(nogil=True, cache=True)
def digits(word):  # type: ignore[no-untyped-def]
    """Return the number that the digits say which *word* begins with, uint64, and how many they are."""
    values = word ^ _ZEROS  # 0 to 9 where there is a digit
    length = _first(((values & ~_HIGHEST) + _ABOVE_9 | values) & _HIGHEST)
    values = values << np.uint64(8 * (8 - length)) if length else np.uint64(0)
    values = (values * _BY_10 >> np.uint64(8)) & _PAIRS
    values = (values * _BY_100 >> np.uint64(16)) & _FOURS
    return values * _BY_10000 >> np.uint64(32), length


@njit(nogil=True, cache=True)
def ones(word):  # type: ignore[no-untyped-def]
    """Return how many bits of *word*, uint64, are 1, as LLVM recognises it to be one instruction."""
    word -= word >> np.uint64(1) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + (word >> np.uint64(2) & np.uint64(0x3333333333333333))
    return np.int64((word + (word >> np.uint64(4)) & np.uint64(0x0F0F0F0F0F0F0F0F)) * _LOWEST >> np.uint64(56))
