"""Turns text into index terms, exactly as Lucene's EnglishAnalyzer in Anserini's configuration.

The chain is `io.anserini.analysis.DefaultEnglishAnalyzer` of Anserini 1.7.1 (Lucene 9.9.1): StandardTokenizer,
EnglishPossessiveFilter, LowerCaseFilter, StopFilter with Lucene's English stop words, PorterStemFilter. A test compares the two
on every code point.

`analyze` is the whole chain. BM25's index also uses its steps `chunks`, `word_break.words` and `term_of`, to analyse each
distinct word once. `ANALYZERS` has the chain as "english", and "unicode" for any language.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from lexbench.tokenization import unspaced
from lexbench.tokenization.porter import stem
from lexbench.tokenization.word_break import words

STOP_WORDS = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of", "on",
    "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
})  # fmt: skip  # org.apache.lucene.analysis.en.EnglishAnalyzer.ENGLISH_STOP_WORDS_SET

_POSSESSIVES = tuple(f"{quote}{s}" for quote in "'\u2019\uff07" for s in "sS")
_NARROW_SPACE = "\u202f"  # the only white space inside words: it joins them like an underscore


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

    Scripts without spaces are cut into pairs of neighbouring characters, see `unspaced`.
    """
    return [_lower(word) for word in _words_and_pairs(chunk)]


def _words_and_pairs(chunk: str) -> Iterator[str]:
    for spaced, unspaced_run in unspaced.runs(chunk):
        yield from words(spaced)
        yield from unspaced.pairs(unspaced_run)


ANALYZERS: Mapping[str, Callable[[str], list[str]]] = {"english": english, "unicode": unicode}  # chunk -> index terms


@lru_cache(maxsize=1 << 17)
def term_of(word: str) -> str | None:
    """Return the index term of a word found by `words`: lower-cased, without possessive, stemmed; None for a stop word."""
    if word.endswith(_POSSESSIVES):
        word = word[:-2]
    word = _lower(word)
    return None if word in STOP_WORDS else stem(word)


def _lower(word: str) -> str:
    # Java lower-cases one character at a time: no final sigma, and the capital dotted i loses its dot.
    return word.lower() if word.isascii() else "".join(letter.lower()[0] for letter in word)
