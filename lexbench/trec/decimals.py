"""Numbers as text to float64, rounded as C's `strtod` does, by a compiled loop. What it cannot be sure of, it says.

A whole number up to 2**53, times or by a power of ten up to 10**22, is rounded once and so rightly (W. D. Clinger, "How to read
floating point numbers accurately", PLDI 1990). More digits, up to 19, are multiplied by 128 bits of the power of ten, which
nearly always tells how the whole product is rounded (D. Lemire, "Number parsing at a gigabyte per second", Software: Practice
and Experience 51(8), 2021).
"""

import numpy as np
from numba import njit

from lexbench.trec.swar import byte_at, digits, word_at

_EXACT, _EXACT_POWERS = np.uint64(1 << 53), 22
_POWERS = 10.0 ** np.arange(_EXACT_POWERS + 1)
_DIGITS = 19  # of a whole number that 64 bits surely hold
_FARTHEST = 64  # power of ten in the table below, up and down
_TENS = np.array([10**power for power in range(9)], np.uint64)
_FIVES = np.array([5**power for power in range(28)], np.uint64)
_FRACTION = np.uint64((1 << 52) - 1)
_LOW = np.uint64(0xFFFFFFFF)
_BEHIND = np.uint64(0x1FF)  # bits of a product's upper half that may be behind the 54 that rounding needs


def _leading_bits(power: int) -> int:
    """Return the first 128 bits of 10**power, the rest cut off."""
    ten: int = 10 ** abs(power)
    if power < 0:
        return (1 << 127 + ten.bit_length()) // ten
    return (ten << 128) >> ten.bit_length()


_LEADING = np.array([divmod(_leading_bits(power), 1 << 64) for power in range(-_FARTHEST, _FARTHEST + 1)], np.uint64)


@njit(nogil=True, cache=True)
def parse(at):  # type: ignore[no-untyped-def]
    """Return the number at the address *at*, the address where it ends, and whether it is sure; else it may be none."""
    negative = byte_at(at) == 45  # noqa: PLR2004 - a minus
    if negative or byte_at(at) == 43:  # noqa: PLR2004 - a plus
        at += 1
    first = at
    value, end = _digits(at, np.uint64(0))
    count, places = end - at, 0
    if byte_at(end) == 46:  # noqa: PLR2004 - a point
        value, at = _digits(end + 1, value)
        places = at - end - 1
        count, end = count + places, at
    while count > _DIGITS and (byte_at(first) == 48 or byte_at(first) == 46):  # noqa: PLR2004 - zeros before all others do not count
        count -= byte_at(first) == 48  # noqa: PLR2004
        first += 1
    if not 0 < count <= _DIGITS:
        return 0.0, end, False
    exponent = np.int64(-places)
    if (byte_at(end) | 32) == 101:  # noqa: PLR2004 - an e or E
        down = byte_at(end + 1) == 45  # noqa: PLR2004 - a minus
        end += 1 + (down or byte_at(end + 1) == 43)  # noqa: PLR2004 - a plus
        power, size = digits(word_at(end))
        if not 0 < size <= 4:  # noqa: PLR2004 - digits, of which four are enough
            return 0.0, end, False
        end += size
        exponent += -np.int64(power) if down else np.int64(power)
    sure = True
    if value <= _EXACT and -_EXACT_POWERS <= exponent <= _EXACT_POWERS:
        number = np.float64(np.int64(value))
        number = number / _POWERS[-exponent] if exponent < 0 else number * _POWERS[exponent]
    else:
        number, sure = _scaled(value, exponent)
    return (-number if negative else number), end, sure


@njit(nogil=True, cache=True)
def _digits(at, value):  # type: ignore[no-untyped-def]
    """Return *value* with the digits at the address *at* written behind it, modulo 2**64, and where they end."""
    while True:
        more, size = digits(word_at(at))
        value = value * _TENS[size] + more
        at += size
        if size < 8:  # noqa: PLR2004 - bytes of a word
            return value, at


@njit(nogil=True, cache=True)
def _scaled(value, exponent):  # type: ignore[no-untyped-def]
    """Return *value*, uint64, times 10**exponent, and whether it is rightly rounded for sure."""
    if not value or not -_FARTHEST <= exponent <= _FARTHEST:
        return 0.0, not value
    if -len(_FIVES) < exponent < 0 and value % _FIVES[-exponent] == 0:  # a whole number over a power of 2, as of a float32
        return np.float64(value // _FIVES[-exponent]) / np.float64(np.uint64(1) << np.uint64(-exponent)), True
    exponent_of_two = ((217706 * exponent) >> 16) + 64 + 1023  # 217706 / 2**16 is log2(10)
    while not value >> np.uint64(63):
        value <<= np.uint64(1)
        exponent_of_two -= 1
    high, low = _product(value, _LEADING[exponent + _FARTHEST, 0])
    if high & _BEHIND == _BEHIND and low + value < value:  # what the table leaves out could be carried up to where it counts
        more, rest = _product(value, _LEADING[exponent + _FARTHEST, 1])
        low += more
        high += np.uint64(low < more)
        if high & _BEHIND == _BEHIND and low + np.uint64(1) == 0 and rest + value < value:
            return 0.0, False
    top = high >> np.uint64(63)
    mantissa = high >> (top + np.uint64(9))
    if low == 0 and high & _BEHIND == 0 and mantissa & np.uint64(3) == 1:  # perhaps just between two numbers
        return 0.0, False
    mantissa = (mantissa + (mantissa & np.uint64(1))) >> np.uint64(1)
    carried = mantissa >> np.uint64(53)
    exponent_of_two += np.int64(top) - 1 + np.int64(carried)
    bits = (mantissa >> carried) & _FRACTION
    return np.uint64(bits | np.uint64(exponent_of_two) << np.uint64(52)).view(np.float64), True


@njit(nogil=True, cache=True)
def _product(one, other):  # type: ignore[no-untyped-def]
    """Return the upper and the lower half of the product of two uint64."""
    one_high, one_low = one >> np.uint64(32), one & _LOW
    other_high, other_low = other >> np.uint64(32), other & _LOW
    lowest, middle = one_low * other_low, one_high * other_low
    second = one_low * other_high + (middle & _LOW) + (lowest >> np.uint64(32))
    return one_high * other_high + (middle >> np.uint64(32)) + (second >> np.uint64(32)), one * other
