"""A table of byte strings, each with a number, for compiled loops: open addressing, by the hash FNV-1a."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

_OFFSET, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # of the hash
_UPPER = np.uint64(0xFFFFFFFF00000000)


class Strings(NamedTuple):
    """A table of byte strings, numbered in the order in which `number_of` met them first."""

    # (a power of 2,) where the hash of a string points or soon after, the upper half of it and the string's number + 1; or 0
    slots: NDArray[np.uint64]
    bounds: NDArray[np.int64]  # (most strings + 1,) string i is kept[bounds[i]:bounds[i + 1]]
    kept: NDArray[np.uint8]
    size: NDArray[np.int64]  # (1,) strings in the table


def empty(most: int, most_bytes: int) -> Strings:
    """Return an empty table for so many strings, of so many bytes together."""
    slots = np.zeros(1 << (2 * most - 1).bit_length(), np.uint64)  # at least half of them stay empty
    return Strings(slots, np.zeros(most + 1, np.int64), np.empty(most_bytes, np.uint8), np.zeros(1, np.int64))


def clear(table: Strings) -> None:
    """Forget all strings."""
    table.slots.fill(0)
    table.size[0] = 0


def decoded(table: Strings, start: int, stop: int) -> Iterator[str]:
    """Yield the strings from number *start* up to *stop*."""
    bounds = table.bounds[start : stop + 1]
    kept = table.kept[bounds[0] : bounds[-1]].tobytes()
    for first, last in pairwise((bounds - bounds[0]).tolist()):
        yield kept[first:last].decode("utf-8", "surrogatepass")


@njit(nogil=True, cache=True)
def takes(table, length):  # type: ignore[no-untyped-def]
    """Whether the table takes all strings, each of one byte or more, that so many bytes of text can have between others."""
    size = table.size[0]
    return size + (length + 1) // 2 < len(table.bounds) and table.bounds[size] + length <= len(table.kept)


@njit(nogil=True, cache=True)
def number_of(table, content, first, last):  # type: ignore[no-untyped-def]
    """Return the number of the string content[first:last] in the *table*, into which it is put if it is not there."""
    code = _OFFSET
    for i in range(first, last):
        code = (code ^ np.uint64(content[i])) * _PRIME
    upper = code & _UPPER
    mask = np.uint64(len(table.slots) - 1)
    slot = (code ^ (code >> np.uint64(32))) & mask
    while table.slots[slot]:
        if table.slots[slot] & _UPPER == upper:
            number = np.int64(table.slots[slot] & ~_UPPER) - 1
            if _is(table, number, content, first, last):
                return number
        slot = (slot + np.uint64(1)) & mask
    number = table.size[0]
    start, table.bounds[number + 1] = table.bounds[number], table.bounds[number] + last - first
    for i in range(last - first):  # a slice takes 2 s longer to compile
        table.kept[start + i] = content[first + i]
    table.slots[slot] = upper | np.uint64(number + 1)
    table.size[0] += 1
    return number


@njit(nogil=True, cache=True)
def _is(table, number, content, first, last):  # type: ignore[no-untyped-def]
    """Whether the string of that number is content[first:last]."""
    start = table.bounds[number]
    if table.bounds[number + 1] - start != last - first:
        return False
    for i in range(last - first):  # noqa: SIM110 - numba compiles no `all`
        if table.kept[start + i] != content[first + i]:
            return False
    return True
