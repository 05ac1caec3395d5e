"""Turns text into index terms, exactly as Lucene's EnglishAnalyzer in Anserini's configuration.

The chain is `io.anserini.analysis.DefaultEnglishAnalyzer` of Anserini 1.7.1 (Lucene 9.9.1): StandardTokenizer,
EnglishPossessiveFilter, LowerCaseFilter, StopFilter with Lucene's English stop words, PorterStemFilter. A test compares the two
on every code point.

`analyze` is the whole chain. BM25's index also uses its steps `chunks`, `word_break.words` and `term_of`, to analyse each
distinct word once. `ANALYZERS` has the chain as "english", and "unicode" for any language.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np

from lexbench.tokenization.word_break import STOP_WORDS, words

_POSSESSIVES = tuple(f"{quote}{s}" for quote in "'\u2019\uff07" for s in "sS")
_NARROW_SPACE = "\u202f"  # the only white space inside words: it joins them like an underscore
_UNSPACED = (
    (0x0E00, 0x0E7F),  # Thai
    (0x0E80, 0x0EFF),  # Lao
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),  # marks of repetition, and zero
    (0x3041, 0x30FA),  # Hiragana and Katakana, without the middle dot that follows
    (0x30FC, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9F),  # half-width Katakana
    (0x20000, 0x3FFFF),  # Han of the higher planes
)
_UNSPACED_RUN = re.compile(f"[{''.join(f'{chr(first)}-{chr(last)}' for first, last in _UNSPACED)}]+")


def chunks(text: str) -> list[str]:
    """Return the chunks of *text* between white space. No word spans two chunks, so each can be analysed separately."""
    return text.split() if _NARROW_SPACE not in text else [text]


def analyze(text: str) -> list[str]:
    """Return the index terms of *text* in order, with repetitions."""
    return [term for chunk in chunks(text) for term in english(chunk)]


def english(chunk: str) -> list[str]:
    """Return the index terms of an English *chunk*."""
    return [term for word in words(chunk) if (term := term_of(word)) is not None]


def unicode(chunk: str) -> list[str]:
    """Return the index terms of a *chunk* in any language: Unicode's words, lower-cased, not stemmed, no stop words.

    Scripts without spaces are cut into pairs of neighbouring characters, which needs no dictionary. Lucene's CJKAnalyzer does
    this for Chinese and Japanese; here also Thai, Lao, Burmese and Khmer are cut. Korean has spaces.
    """
    found: list[str] = []
    start = 0
    for run in () if chunk.isascii() else _UNSPACED_RUN.finditer(chunk):
        found += words(chunk[start : run.start()])
        found += [run[0][at : at + 2] for at in range(max(len(run[0]) - 1, 1))]
        start = run.end()
    return [_lower(word) for word in (*found, *words(chunk[start:]))]


ANALYZERS: Mapping[str, Callable[[str], list[str]]] = {"english": english, "unicode": unicode}  # chunk -> index terms


@lru_cache(maxsize=1 << 17)
def term_of(word: str) -> str | None:
    """Return the index term of a word found by `words`: lower-cased, without possessive, stemmed; None for a stop word."""
    if word.endswith(_POSSESSIVES):
        word = word[:-2]
    word = _lower(word)
    return None if word in STOP_WORDS else stem(word)


def stem(word: str) -> str:
    """Return the Porter stem of a lower-case *word*; words of one or two UTF-16 units are unchanged."""
    from lexbench.tokenization import compiled  # imports numba, which takes half a second

    code, unit = ("ascii", np.uint8) if word.isascii() else ("utf-16-le", np.uint16)
    units = np.frombuffer(bytearray(word, code), unit)
    return units[: compiled.stem(units)].tobytes().decode(code)


def _lower(word: str) -> str:
    # Java lower-cases one character at a time: no final sigma, and the capital dotted i loses its dot.
    return word.lower() if word.isascii() else "".join(letter.lower()[0] for letter in word)
