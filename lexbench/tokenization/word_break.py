"""Finds words like Lucene's StandardTokenizer: Unicode's word breaks (UAX #29), with emoji and Thai runs kept whole.

The rules are those of `StandardTokenizerImpl.jflex` in Lucene 9, written over classes of characters. Each character is first
replaced by its class letter (`U.S.A.` becomes `A.A.A.`), so each rule is a short pattern over ASCII and the result does not
depend on Python's Unicode version. The classes are in `word_break.txt`.
"""

import re
import string
from bisect import bisect_right
from functools import cache
from importlib.resources import files

STOP_WORDS = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of", "on",
    "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
})  # fmt: skip  # org.apache.lucene.analysis.en.EnglishAnalyzer.ENGLISH_STOP_WORDS_SET
LONGEST = 255  # UTF-16 units; a longer word is cut into pieces of this length

_ANY = "[xzcsMgGtp]*+"  # attached to the character before: marks, formats, joiners, skin tones, tags, selectors
_MARKS = "[xzcsMgG]*+"  # the same without the two selectors of text or emoji presentation


def _word() -> str:
    """Return the pattern of words of letters, digits and Katakana, with the characters that may join these."""
    letter, digit, kana, joiner = f"[AaH]{_ANY}", f"[DN]{_ANY}", f"K{_ANY}", f"_{_ANY}"
    hebrew = f"""H{_ANY}(?:'{_ANY}|"{_ANY}H{_ANY})"""  # a letter with its geresh, or two around a gershayim
    letters = f"{letter}(?:[:.']{_ANY}{letter}|(?!{hebrew}){letter})*"
    digits = f"{digit}(?:[,.']{_ANY}{digit}|{digit})*"
    core = f"(?:(?:{kana})+|(?:{hebrew}|{digits}|{letters})+)"
    return f"(?:{joiner})*{core}(?:(?:{joiner})+{core})*(?:{joiner})*"


def _emoji() -> str:
    """Return the pattern of a pictograph with its marks and joined pictographs, of a flag, and of a keycap."""
    joined = "(?:z+(?=[Pa])|z(?=M))"
    first = f"(?:[Pa]{_MARKS}(?:p(?:{joined}|g+G)?+)?|M{_MARKS})"
    later = f"(?:[Pa]{_MARKS}(?:p(?:{joined})?+)?|M{_MARKS})"
    keycap = f"k{_MARKS}pc{_MARKS}|k[xzsMgG]*c{_MARKS}"  # of # and *; a digit's is a word already
    return f"(?:z+(?=[Pa]))?{first}(?:(?<=z){later})*|F{_ANY}F{_ANY}|{keycap}"


_WORD, _SINGLE, _EMOJI = re.compile(_word()), re.compile(f"[IR]{_ANY}"), re.compile(_emoji())
_SOUTH_EAST_ASIAN = re.compile(f"(?:[Ss]{_ANY})+")
EDGES = string.punctuation.replace("_", "")  # characters that no ASCII word begins or ends with
_RULES = {  # by the class of the first character; of two rules, the longer match counts
    **dict.fromkeys("AHDNK_", (_WORD,)),
    **dict.fromkeys("PMFkz", (_EMOJI,)),
    **dict.fromkeys("IR", (_SINGLE,)),  # an ideograph, a Hiragana character
    **dict.fromkeys("Ss", (_SOUTH_EAST_ASIAN,)),
    "a": (_WORD, _EMOJI),  # a letter that is also a pictograph
}


class _Classes(dict[int, str]):
    """The class letter of each code point, `-` for none. Looks a code point up in the table when it is first used."""

    def __init__(self) -> None:
        ranges = [(0, 0, "-")]
        for line in files(__package__).joinpath("word_break.txt").read_text("ascii").splitlines():
            letter, *spans = line.split()
            if letter != "#":
                bounds = ([int(bound, 16) for bound in span.split("-")] for span in spans)
                ranges += [(bound[0], bound[-1], letter) for bound in bounds]
        self._ranges = sorted(ranges)
        self._firsts = [first for first, _, _ in self._ranges]

    def __missing__(self, code_point: int) -> str:
        _, last, letter = self._ranges[bisect_right(self._firsts, code_point) - 1]
        self[code_point] = class_letter = letter if code_point <= last else "-"
        return class_letter


classes = cache(_Classes)  # read at the first word, not at import


def words(text: str) -> list[str]:
    """Return the words of *text* in order, in their original case."""
    if not text.isascii() or len(text) > LONGEST:
        return _words(text)
    inner = text.strip(EDGES)
    if inner.isalnum():
        return [inner]
    return [text[slice(*match.span())] for match in _WORD.finditer(text.translate(classes()))]


def _words(text: str) -> list[str]:
    spelled = text.translate(classes())
    tokens = []
    position = 0
    while position < len(text):
        limit = _limit(text, position)
        matches = (rule.match(spelled, position, limit) for rule in _RULES.get(spelled[position], ()))
        end = max((match.end() for match in matches if match), default=position)
        if end > position:
            tokens.append(text[position:end])
        position = max(end, position + 1)
    return tokens


def _limit(text: str, position: int) -> int:
    """Return the latest end of a word that starts at *position* of *text*."""
    if len(text) - position <= LONGEST // 2:  # even if each character is two units
        return len(text)
    units = text[position : position + LONGEST].encode("utf-16-le")
    return position + len(units[: 2 * LONGEST].decode("utf-16-le", "ignore"))  # half a character at the end is left out
