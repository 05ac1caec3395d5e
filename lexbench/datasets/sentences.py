"""Sentences, by rule: for cutting long texts where a reader would, in any language that marks the end of a sentence.

A sentence ends behind . ! ? or one of their kin of other scripts, with the quotes and brackets that close there, where white
space follows; behind the full-width ones anything may. None of them ends it before a lower-case letter ("Why?" he asked), nor
a full stop behind a single letter ("J. Smith") or one of a few abbreviations. An empty line ends one, too. A sentence has a
letter or a digit: dots alone are part of the next.
"""

import re

import numpy as np
from numpy.typing import NDArray

# of Latin, Armenian, Arabic, Indic, Burmese and Ethiopic script
_MARKS = ".!?\u2026\u0589\u061f\u06d4\u0964\u0965\u104a\u104b\u1362\u1367\u1368"
_WIDE = "\u3002\uff01\uff1f\uff61"  # Chinese and Japanese
_CLOSING = "\"'\u201d\u2019\u00bb)\\]\u300d\u300f\uff09\u3011"
_ENDS = re.compile(rf"[{_MARKS}]+[{_CLOSING}]*(?=\s)|[{_WIDE}]+[{_CLOSING}]*|(?=\n[ \t\r]*\n)")
_ABBREVIATIONS = {
    "al", "approx", "ca", "cf", "dept", "dr", "e.g", "eds", "eq", "eqs", "fig", "figs", "i.e", "mr", "mrs", "ms", "mt", "nos",
    "p", "pp", "prof", "ref", "refs", "st", "vol", "vs",
}  # fmt: skip
_NO_RULES = ("", *_WIDE)  # an empty line, and marks that always end one
_LETTER = re.compile(r"\w")
_NEXT = re.compile(r"\s*(\S?)")
_LAST_WORD = re.compile(r"[\w.]+$")


def spans(text: str) -> NDArray[np.int32]:
    """Return where the sentences of *text* are (sentences, 2): the first character of each, and the first behind it.

    White space around sentences is in none; a text of nothing else has none.
    """
    found, start = [], 0
    for match in _ENDS.finditer(text):
        if match.group()[:1] not in _NO_RULES and _goes_on(text, match.start(), match.end()):
            continue
        if not _LETTER.search(text, start, match.end()):  # the dots of a table of contents
            continue
        found.append((start, match.end()))
        start = match.end()
    found.append((start, len(text)))
    bounds = (_stripped(text, first, last) for first, last in found)
    return np.array([(first, last) for first, last in bounds if first < last], np.int32).reshape(-1, 2)


def _goes_on(text: str, stop: int, end: int) -> bool:
    """Whether the mark at *stop*, with what closes there up to *end*, ends no sentence."""
    if _NEXT.match(text, end).group(1).islower():  # type: ignore[union-attr]  # it matches anywhere
        return True
    if text[stop] != ".":
        return False
    word = _LAST_WORD.search(text, max(0, stop - 12), stop)
    return word is not None and (word.group().lower() in _ABBREVIATIONS or (len(word.group()) == 1 and word.group().isalpha()))


def _stripped(text: str, first: int, last: int) -> tuple[int, int]:
    """Return the bounds of text[first:last] without the white space at its ends."""
    inner = text[first:last]
    return first + len(inner) - len(inner.lstrip()), last - len(inner) + len(inner.rstrip())
