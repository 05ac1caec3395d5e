"""Compiled loops that read the columns of large run files. Importing this module takes half a second.

`scan` gives up on unusual lines and leaves them to `columns`.
"""

import numpy as np

from lexbench.compiling.loops import njit

TYPES = ("id", "float", "grade")  # of columns, by number
_DIGITS = 18  # an integer of so many digits fits into 64 bits
_EXACT = 1 << 53  # up to here, times or divided by a power of ten up to 10**22, a number is rounded once, and so correctly
_POWERS = 10.0 ** np.arange(23)
_TAB, _NEWLINE, _RETURN, _SPACE, _PLUS, _MINUS, _POINT, _ZERO, _NINE, _E = map(ord, "\t\n\r +-.09e")


@njit(nogil=True, cache=True)
def scan(text, column_of, types, starts, stops, numbers, hard):  # type: ignore[no-untyped-def]
    """Read the lines of *text*, uint8 (bytes,), which ends in a newline. Return their number, or -1 if a line is unusual.

    *column_of* (fields,) is the column of each field, -1 to skip it; *types* (columns,) are numbers of TYPES. The other arrays
    (lines, columns) are filled: where each field starts and stops, the *numbers* as float64, and whether a number is *hard*,
    which means not parsed: too many digits to be exact, `nan`, or no number at all. A line is unusual if it has another number
    of fields, is blank, or has a NUL.
    """
    at, line, end = 0, 0, len(text)
    while at < end:
        for field in range(len(column_of)):
            while _is_blank(text[at]):
                at += 1
            start = at
            # Almost every byte is above the space, so this is compared first.
            while text[at] > _SPACE or not (_is_blank(text[at]) or text[at] == _NEWLINE or text[at] == 0):
                at += 1
            if start == at or text[at] == 0:
                return -1
            column = column_of[field]
            if column >= 0:
                starts[line, column], stops[line, column] = start, at
                if types[column]:
                    numbers[line, column], hard[line, column] = _number(text, start, at)
        while _is_blank(text[at]):
            at += 1
        if text[at] != _NEWLINE:
            return -1
        at += 1
        line += 1
    return line


@njit(nogil=True, cache=True)
def _is_blank(code):  # type: ignore[no-untyped-def]
    """Return whether this byte is white space inside a line, where bytes.split() splits."""
    return code == _SPACE or (_TAB <= code <= _RETURN and code != _NEWLINE)


@njit(nogil=True, cache=True)
def _number(text, start, stop):  # type: ignore[no-untyped-def]
    """Return the number in text[start:stop], and whether it is too hard."""
    at, negative = start, text[start] == _MINUS
    if negative or text[start] == _PLUS:
        at += 1
    digits, places, value, point = 0, 0, np.int64(0), False
    while at < stop and (_ZERO <= text[at] <= _NINE or (text[at] == _POINT and not point)):
        if text[at] == _POINT:
            point = True
        else:
            value = value * 10 + (text[at] - _ZERO)
            digits += 1
            places += point
        if digits > _DIGITS:
            return 0.0, True
        at += 1
    exponent = 0
    if digits and at + 1 < stop and (text[at] | 32) == _E:  # the bit 32 makes a letter lower case
        down = text[at + 1] == _MINUS
        at += 1 + (down or text[at + 1] == _PLUS)
        first = at
        while at < stop and _ZERO <= text[at] <= _NINE and at < first + 4:  # four digits are more than enough
            exponent = exponent * 10 + (text[at] - _ZERO)
            at += 1
        if at == first:
            return 0.0, True
        exponent = -exponent if down else exponent
    exponent -= places
    # Only here one multiplication or division by an exact power of ten rounds correctly (W. D. Clinger, PLDI 1990).
    if at < stop or not digits or value > _EXACT or not -len(_POWERS) < exponent < len(_POWERS):
        return 0.0, True
    exact = value * _POWERS[exponent] if exponent >= 0 else value / _POWERS[-exponent]
    return (-exact if negative else exact), False


@njit(nogil=True, cache=True)
def gather(text, starts, stops, fields):  # type: ignore[no-untyped-def]
    """Copy text[starts[i]:stops[i]] to row i of *fields*, uint8 (lines, width), which is all zeros before."""
    for line in range(len(starts)):
        start = starts[line]
        for i in range(stops[line] - start):
            fields[line, i] = text[start + i]
