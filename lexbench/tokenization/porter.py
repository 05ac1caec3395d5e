"""The Porter stemmer, as Lucene's PorterStemFilter applies it.

M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980, with the two changes of his later programs (-bli becomes
-ble, -logi becomes -log). The `porter` stemmer of Snowball and PyStemmer lacks these changes.
"""

import re
from collections.abc import Mapping

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
_SUFFIXES_2, _SUFFIXES_3, _SUFFIXES_4 = (tuple(sorted(step, key=len, reverse=True)) for step in (STEP_2, STEP_3, STEP_4))
SHORTEST_WORD = 3

_ASTRAL = re.compile("[^\0-\uffff]")


def stem(word: str) -> str:
    """Return the stem of a lower-case *word*; words of one or two UTF-16 units are unchanged."""
    if _ASTRAL.search(word):  # Java sees two characters, both consonants
        return _stem(_ASTRAL.sub("\\g<0>\0", word)).replace("\0", "")
    return _stem(word)


def _stem(word: str) -> str:
    if len(word) < SHORTEST_WORD:
        return word
    word = _past_and_gerund(_plural(word))
    if word[-1] == "y" and "v" in _shape(word[:-1]):
        word = word[:-1] + "i"
    word = _replace(_replace(word, STEP_2, _SUFFIXES_2), STEP_3, _SUFFIXES_3)
    suffix = _suffix(word, _SUFFIXES_4)
    base = word[: len(word) - len(suffix)]
    if suffix and (suffix != "ion" or base.endswith(("s", "t"))) and _measure(base) > 1:
        word = base
    return _final_e_and_l(word)


def _plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word[-1] == "s" and word[-2] != "s" else word


def _past_and_gerund(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) else word
    base = word[:-2] if word.endswith("ed") else word[:-3] if word.endswith("ing") else ""
    shape = _shape(base)
    if "v" not in shape:
        return word
    if base.endswith(("at", "bl", "iz")):
        return base + "e"
    if _doubled(base):
        return base if base[-1] in "lsz" else base[:-1]
    return base + "e" if shape.count("vc") == 1 and _short(base) else base


def _replace(word: str, replacements: Mapping[str, str], suffixes: tuple[str, ...]) -> str:
    suffix = _suffix(word, suffixes)
    base = word[: len(word) - len(suffix)]
    return base + replacements[suffix] if suffix and _measure(base) else word


def _final_e_and_l(word: str) -> str:
    measure = _measure(word)
    if word[-1] == "e" and (measure > 1 or (measure == 1 and not _short(word[:-1]))):
        word = word[:-1]
    return word[:-1] if word[-1] == "l" and _doubled(word) and measure > 1 else word


def _suffix(word: str, suffixes: tuple[str, ...]) -> str:
    """Return the first of *suffixes* that ends *word*, or ""."""
    return next(suffix for suffix in suffixes if word.endswith(suffix)) if word.endswith(suffixes) else ""


class _Kinds(dict[int, str]):
    """The kind of each letter by code point: v(owel), c(onsonant) or y, which may be either."""

    def __missing__(self, letter: int) -> str:
        self[letter] = kind = "v" if chr(letter) in "aeiou" else "y" if chr(letter) == "y" else "c"
        return kind


_KINDS = _Kinds()


def _shape(word: str) -> str:
    """Return *word* with v for each vowel and c for each consonant; y is a vowel after a consonant."""
    shape = word.translate(_KINDS)
    while (at := shape.find("y")) >= 0:
        shape = f"{shape[:at]}{'v' if shape[at - 1 : at] == 'c' else 'c'}{shape[at + 1 :]}"
    return shape


def _measure(word: str) -> int:
    """Return Porter's m: the number of vowel-consonant transitions."""
    return _shape(word).count("vc")


def _doubled(word: str) -> bool:
    """Return whether *word* ends in a double consonant."""
    return len(word) > 1 and word[-1] == word[-2] and _shape(word)[-1] == "c"


def _short(word: str) -> bool:
    """Return whether *word* ends in consonant, vowel, consonant other than w, x, y: Porter's condition *o."""
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"
