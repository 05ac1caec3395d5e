"""Compiled analysis: the Porter stemmer, and the index terms of lower-case ASCII text for BM25's index.

The stemmer is the one of M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980, with the two changes of his
later programs (-bli becomes -ble, -logi becomes -log), as in Lucene's PorterStemFilter. The `porter` stemmer of Snowball and
PyStemmer lacks these changes. `english_term` and `next_word` equal `term_of` and `word_break.words` byte for byte.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from lexbench.compiling.loops import njit
from lexbench.tokenization.word_break import STOP_WORDS, classes

_LETTER, _DIGIT, _UNDERSCORE, _POINT, _COLON, _COMMA = range(1, 7)
_KIND_OF_CLASS = {"A": _LETTER, "D": _DIGIT, "_": _UNDERSCORE, ".": _POINT, "'": _POINT, ":": _COLON, ",": _COMMA}
_KINDS = np.array([_KIND_OF_CLASS.get(classes()[letter], 0) for letter in range(128)], np.uint8)
_JOINS = np.zeros((7, 7), np.bool_)  # [kind of two characters, kind between them]: whether the latter joins them
_JOINS[_LETTER, [_POINT, _COLON]] = _JOINS[_DIGIT, [_POINT, _COMMA]] = True
_STOP_WORDS = np.array([int.from_bytes(word.encode(), "big") for word in sorted(STOP_WORDS)], np.uint64)
_LONGEST_STOP_WORD = max(map(len, STOP_WORDS))


_OTHER = 255  # stands for the UTF-16 units above it, which are consonants


def _letters(letters: str) -> NDArray[np.bool_]:
    """Return a mask (256,) of the letters that are in *letters*."""
    return np.isin(np.arange(256), list(letters.encode()))


_VOWELS, _STAY_DOUBLE, _NOT_SHORT, _BEFORE_ION = map(_letters, ("aeiou", "lsz", "wxy", "st"))
_E, _I, _L, _Y = np.frombuffer(b"eily", np.uint8)


def _table(replacements: Mapping[str, str]) -> NDArray[np.uint8]:
    """Return (suffixes, 2, 8): each suffix reversed and its replacement, both ended by a 0 byte; longest suffixes first."""
    rows = [(suffix[::-1].encode(), replacements[suffix].encode()) for suffix in sorted(replacements, key=len, reverse=True)]
    return np.array(rows, "S8").view(np.uint8).reshape(len(rows), 2, 8)


STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti", "ous",
    "ive", "ize",
)  # fmt: skip
_SHORTEST = 3  # shorter words are not stemmed
_POSSESSIVE, _PLURAL = _table({"'s": ""}), _table({"sses": "ss", "ies": "i", "ss": "ss", "s": ""})
_EED, _PAST_OR_GERUND, _LOST_E = _table({"eed": "ee"}), _table({"ed": "", "ing": ""}), _table({"at": "", "bl": "", "iz": ""})
_STEP_2, _STEP_3 = _table(STEP_2), _table(STEP_3)
_STEP_4 = _table(dict.fromkeys(STEP_4, ""))
_ION = [bytes(row[0]).strip(b"\0") for row in _STEP_4].index(b"noi")


@njit(nogil=True, cache=True)
def next_word(text, start):  # type: ignore[no-untyped-def]
    """Return the start and end of the next word of *text* (ASCII bytes) at or after *start*, as `words` finds it.

    Without another word, both are the end of *text*. No word may be longer than `word_break.LONGEST`, because it would be cut.
    """
    at = start
    while at < len(text):
        first, empty = at, True
        while at < len(text):
            kind = _KINDS[text[at]]
            if _LETTER <= kind <= _DIGIT:
                empty = False
            elif kind != _UNDERSCORE and not (first < at < len(text) - 1 and _joined(text, at)):
                break
            at += 1
        if not empty:
            return first, at
        at = max(at, first + 1)  # no word began here: go on with the next character
    return at, at


@njit(nogil=True, cache=True)
def _joined(text, at):  # type: ignore[no-untyped-def]
    """Return whether the inner character at *at* joins two letters or two digits."""
    return _KINDS[text[at - 1]] == _KINDS[text[at + 1]] and _JOINS[_KINDS[text[at - 1]], _KINDS[text[at]]]


@njit(nogil=True, cache=True)
def english_term(word):  # type: ignore[no-untyped-def]
    """Turn a lower-case *word* (ASCII bytes) into its index term in place, like `term_of`, and return the term's length.

    The length of a stop word is 0.
    """
    _, stop = _suffix(word, len(word), _POSSESSIVE)
    if stop <= _LONGEST_STOP_WORD:
        # Stop words have at most eight letters, so each is one integer to compare with.
        code = np.uint64(0)
        for i in range(stop):
            code = (code << np.uint64(8)) | np.uint64(word[i])
        for stop_word in _STOP_WORDS:
            if code == stop_word:
                return 0
    return stem(word[:stop])


@njit(nogil=True, cache=True)
def stem(word):  # type: ignore[no-untyped-def]
    """Turn a lower-case *word* (ASCII bytes or UTF-16 units) into its stem in place, and return the stem's length."""
    if len(word) < _SHORTEST:
        return len(word)
    row, base = _suffix(word, len(word), _PLURAL)
    stop = _past_and_gerund(word, _put_replacement(word, base, _PLURAL, row))
    if word[stop - 1] == _Y and _has_vowel(word, stop - 1):
        word[stop - 1] = _I
    stop = _replaced(word, _replaced(word, stop, _STEP_2), _STEP_3)
    row, base = _suffix(word, stop, _STEP_4)
    # Step 4 drops a suffix only after a long stem, and "ion" only after s or t.
    if row >= 0 and _measure(word, base) > 1 and (row != _ION or _BEFORE_ION[min(word[base - 1], _OTHER)]):
        stop = base
    return _final_e_and_l(word, stop)


@njit(nogil=True, cache=True)
def _past_and_gerund(word, stop):  # type: ignore[no-untyped-def]
    row, base = _suffix(word, stop, _EED)
    if row >= 0:
        return stop - 1 if _measure(word, base) else stop
    row, base = _suffix(word, stop, _PAST_OR_GERUND)
    if row < 0 or not _has_vowel(word, base):
        return stop
    lost_e = _suffix(word, base, _LOST_E)[0] >= 0
    if not lost_e and _doubled(word, base):
        return base if _STAY_DOUBLE[min(word[base - 1], _OTHER)] else base - 1
    if lost_e or (_measure(word, base) == 1 and _short(word, base)):
        word[base] = _E
        return base + 1
    return base


@njit(nogil=True, cache=True)
def _replaced(word, stop, table):  # type: ignore[no-untyped-def]
    """Replace the first matching suffix of word[:stop] if the part before it has a measure. Returns the new end."""
    row, base = _suffix(word, stop, table)
    return stop if row < 0 or _measure(word, base) == 0 else _put_replacement(word, base, table, row)


@njit(nogil=True, cache=True)
def _put_replacement(word, base, table, row):  # type: ignore[no-untyped-def]
    """Write the replacement in *row* of *table* (-1: none) at *base*, and return its end."""
    if row < 0:
        return base
    for letter in table[row, 1]:
        if letter == 0:
            break
        word[base] = letter
        base += 1
    return base


@njit(nogil=True, cache=True)
def _suffix(word, stop, table):  # type: ignore[no-untyped-def]
    """Return the row of the first suffix in *table* that ends word[:stop], and its start; -1 and *stop* if none does."""
    for row in range(len(table)):
        base = stop
        for letter in table[row, 0]:
            if letter == 0:
                return row, base
            base -= 1
            if base < 0 or word[base] != letter:
                break
    return -1, stop


@njit(nogil=True, cache=True)
def _final_e_and_l(word, stop):  # type: ignore[no-untyped-def]
    measure = _measure(word, stop)
    if word[stop - 1] == _E and (measure > 1 or (measure == 1 and not _short(word, stop - 1))):
        stop -= 1
    return stop - 1 if word[stop - 1] == _L and measure > 1 and _doubled(word, stop) else stop


@njit(nogil=True, cache=True)
def _is_vowel(letter, after_consonant):  # type: ignore[no-untyped-def]
    return _VOWELS[min(letter, _OTHER)] or (letter == _Y and after_consonant)


@njit(nogil=True, cache=True)
def _measure(word, stop):  # type: ignore[no-untyped-def]
    """Return Porter's m of word[:stop]: the number of vowel-consonant transitions."""
    measure, vowel, consonant = 0, False, False
    for letter in word[:stop]:
        before, vowel = vowel, _is_vowel(letter, consonant)
        consonant = not vowel
        measure += before and consonant
    return measure


@njit(nogil=True, cache=True)
def _has_vowel(word, stop):  # type: ignore[no-untyped-def]
    consonant = False
    for letter in word[:stop]:
        if _is_vowel(letter, consonant):
            return True
        consonant = True
    return False


@njit(nogil=True, cache=True)
def _ending(word, stop):  # type: ignore[no-untyped-def]
    """Return whether the last, second last and third last letter of word[:stop] are consonants; False for missing letters."""
    last = second = third = False
    for letter in word[:stop]:
        last, second, third = not _is_vowel(letter, last), last, second
    return last, second, third


@njit(nogil=True, cache=True)
def _doubled(word, stop):  # type: ignore[no-untyped-def]
    """Return whether word[:stop] ends in a double consonant."""
    return stop > 1 and word[stop - 1] == word[stop - 2] and _ending(word, stop)[0]


@njit(nogil=True, cache=True)
def _short(word, stop):  # type: ignore[no-untyped-def]
    """Return whether word[:stop] ends in consonant, vowel, consonant other than w, x, y: Porter's condition *o."""
    last, second, third = _ending(word, stop)
    return last and not second and third and not _NOT_SHORT[min(word[stop - 1], _OTHER)]
