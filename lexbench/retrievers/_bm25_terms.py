"""Texts to numbers of their terms, a block at a time, by a compiled loop: for collections that are worth compiling it.

Text repeats itself: most chunks, the parts between white space, were met before. The loop finds them in the bytes of a text and
looks each up in a table. Of a chunk that is new to it, it works out the terms where it is ASCII, as `ascii_terms` does, and
looks them up in a second table; only terms that are new, and chunks beyond ASCII, go through Python, in the order in which they
are met. So terms get the numbers that they would get one document after the other. Tables are cleared when full: what they
forgot is analysed again.

So that less is new, letters of ASCII are lower-cased first, as every analyser does with terms, and chunks of ASCII lose the
punctuation at their ends, with which no word begins or ends.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lexbench.retrievers._string_table import Strings, clear, decoded, empty, number_of, takes
from lexbench.tokenization.ascii_terms import english_term, next_word
from lexbench.tokenization.word_break import EDGES, LONGEST

_MOST_CHUNKS = 1 << 19  # in the table
_MOST_BYTES = 1 << 25  # of them, in UTF-8
_SPACE = np.isin(np.arange(256), [9, 10, 11, 12, 13, 28, 29, 30, 31, 32])  # what str.split takes for white space in ASCII
_EDGE = np.isin(np.arange(256), list(EDGES.encode()))
_ASCII = 128  # bytes below it
_UNICODE, _ENGLISH, _OTHER = range(3)
_COMPILED = {"unicode": _UNICODE, "english": _ENGLISH}  # analysers, by their names in lexbench.tokenization.ANALYZERS
_IN_PYTHON = -1  # in place of the terms of a chunk

_Ints: TypeAlias = NDArray[np.int64]


class _Found(NamedTuple):
    """What `find` found."""

    chunks: NDArray[np.int32]
    counts: _Ints
    stop: int  # the first text that the tables had no room for


class Begun(NamedTuple):
    """Texts whose chunks are looked up."""

    texts: Sequence[str]
    content: NDArray[np.uint8]  # their bytes
    bounds: _Ints  # (texts + 1,) text i is content[bounds[i]:bounds[i + 1]]
    found: _Found


class TermsOfTexts:
    """The numbers of the terms of texts: *number* gives that of a term, *numbers* those of a chunk by *analyzer*."""

    def __init__(
        self,
        analyzer: str,
        number: Callable[[str], int],
        numbers: Callable[[str], Iterable[int]],
        most_chunks: int = _MOST_CHUNKS,
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        self._analyzer = _COMPILED.get(analyzer, _OTHER)
        self._number, self._numbers = number, numbers
        self._chunks, self._spellings = (empty(most_chunks, most_bytes) for _ in range(2))  # of terms
        self._spelled = np.empty((most_chunks + most_bytes) // 2, np.int32)  # see `find`
        self._spelled_ends = np.zeros(most_chunks + 1, np.int64)
        self._clear()

    def _clear(self) -> None:
        clear(self._chunks)
        clear(self._spellings)
        self._numbered = array("i")  # by spelling, the number of the term
        self._terms = array("i")  # of all chunks; those of chunk i are terms[ends[i]:ends[i + 1]]
        self._ends = array("q", [0])

    def of(self, texts: Sequence[str], times: Sequence[int]) -> tuple[NDArray[np.int32], _Ints]:
        """Return the terms of *texts*, each text as often as *times* says, joined, and how many each text then has."""
        return self.finish(self.begin(texts), times)

    def begin(self, texts: Sequence[str]) -> "Begun":
        """Look up the chunks of *texts*, as far as the tables have room: the part of `of` that needs no interpreter.

        Nothing else may be begun before that is finished.
        """
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        content = np.frombuffer(bytearray().join(encoded).lower(), np.uint8)  # not read-only: compiled for one type alone
        bounds = np.concatenate([[0], np.cumsum([len(text) for text in encoded], dtype=np.int64)])
        return Begun(texts, content, bounds, self._find(content, bounds, 0))

    def _find(self, content: NDArray[np.uint8], bounds: _Ints, start: int) -> "_Found":
        chunks = np.empty((int(bounds[-1] - bounds[start]) + len(bounds)) // 2 + 1, np.int32)
        counts = np.zeros(len(bounds) - 1, np.int64)
        tables = self._chunks, self._spellings, self._spelled, self._spelled_ends
        return _Found(chunks, counts, find(content, bounds, start, self._analyzer, *tables, chunks, counts))

    def finish(self, begun: "Begun", times: Sequence[int]) -> tuple[NDArray[np.int32], _Ints]:
        """Return what `of` does, given what `begin` returned."""
        texts, content, bounds, found = begun
        repeated = np.array(times, np.int64)
        blocks, lengths, start = [np.zeros(0, np.int32)], np.zeros(len(texts), np.int64), 0
        while start < len(texts):
            stop = found.stop
            if stop > start:
                self._number_new()
                part = slice(start, stop)
                blocks.append(self._terms_of(found.chunks, found.counts[part], repeated[part], lengths[part]))
            elif self._chunks.size[0]:
                self._clear()
            else:  # larger than the tables
                terms = np.fromiter(self._numbers(texts[start]), np.int32)
                blocks.append(np.tile(terms, times[start]))
                stop, lengths[start] = start + 1, len(blocks[-1])
            start = stop
            if start < len(texts):
                found = self._find(content, bounds, start)
        return np.concatenate(blocks), lengths

    def _number_new(self) -> None:
        """Give numbers to the terms of the chunks that are new, chunk by chunk."""
        first, last = len(self._ends) - 1, int(self._chunks.size[0])
        ends = self._spelled_ends[first : last + 1]
        spelled = self._spelled[ends[0] : ends[-1]]
        in_python = np.flatnonzero(spelled == _IN_PYTHON)
        met = np.maximum.accumulate(spelled)[in_python] + 1  # how many spellings are known before each, if any of them is new
        others = []  # the terms of those chunks
        for chunk, before in zip(np.searchsorted(ends - ends[0], in_python, "right").tolist(), met.tolist(), strict=True):
            self._number_spellings(before)
            [text] = decoded(self._chunks, first + chunk - 1, first + chunk)
            others.append(list(self._numbers(text)))
        self._number_spellings(int(self._spellings.size[0]))
        # Each spelling becomes one number, and each _IN_PYTHON as many as its chunk has.
        counts = np.ones(len(spelled), np.int64)
        counts[in_python] = [len(terms) for terms in others]
        terms = np.repeat(np.append(np.frombuffer(self._numbered, np.int32), np.int32(0))[spelled], counts)
        terms[np.repeat(spelled == _IN_PYTHON, counts)] = list(chain.from_iterable(others))
        self._terms.frombytes(terms.tobytes())
        after = np.concatenate([[0], np.cumsum(counts)])[ends[1:] - ends[0]]
        self._ends.frombytes((after + self._ends[-1]).tobytes())

    def _number_spellings(self, stop: int) -> None:
        """Give numbers to the terms with the spellings up to number *stop*, as far as they have none."""
        start = len(self._numbered)
        if start < stop:
            self._numbered.extend(map(self._number, decoded(self._spellings, start, stop)))

    def _terms_of(self, found: NDArray[np.int32], counts: _Ints, times: _Ints, lengths: _Ints) -> NDArray[np.int32]:
        """Return the terms of the chunks *found*, of which each text has *counts*; its number of terms into *lengths*."""
        ends, terms = np.frombuffer(self._ends, np.int64), np.frombuffer(self._terms, np.int32)
        count_terms(found, counts, times, ends, lengths)
        joined = np.empty(lengths.sum(), np.int32)
        join(found, counts, times, ends, terms, joined)
        return joined


@njit(nogil=True, cache=True)
def find(  # noqa: PLR0913, PLR0917
    content: NDArray[np.uint8],  # the bytes of all texts
    texts: _Ints,  # (texts + 1,) text i is content[texts[i]:texts[i + 1]]
    start: int,  # the first text to look at
    analyzer: int,
    chunks: Strings,
    spellings: Strings,  # of terms
    spelled: NDArray[np.int32],  # by chunk, the numbers of its terms' spellings, or _IN_PYTHON
    ends: _Ints,  # (most chunks + 1,) those of chunk i are spelled[ends[i]:ends[i + 1]]
    found: NDArray[np.int32],  # out: the numbers of the chunks, text by text
    counts: _Ints,  # (texts,) out: how many chunks each text has
) -> int:
    """Find the chunks of the texts from *start*, and the terms of new ones; return the first text that does not fit."""
    written = 0
    for text in range(start, len(texts) - 1):
        at, stop = texts[text], texts[text + 1]
        if not (takes(chunks, stop - at) and takes(spellings, stop - at)):
            return text
        before = written
        while at < stop:
            if _SPACE[content[at]]:
                at += 1
                continue
            first, highest = at, np.uint8(0)
            while at < stop and not _SPACE[content[at]]:
                highest = max(highest, content[at])
                at += 1
            last = at
            if highest < _ASCII:
                first, last = _core(content, first, last)
            if first == last:
                continue
            known = chunks.size[0]
            found[written] = number_of(chunks, content, first, last)
            if chunks.size[0] > known:
                in_python = highest >= _ASCII or last - first > LONGEST or analyzer == _OTHER
                chunk = content[first:last]
                ends[known + 1] = _analyse(chunk, in_python, analyzer == _ENGLISH, spellings, spelled, ends[known])
            written += 1
        counts[text] = written - before
    return len(texts) - 1


@njit(nogil=True, cache=True)
def _core(content, first, last):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return where a chunk of ASCII, content[first:last], starts and ends without the punctuation at its ends."""
    while first < last and _EDGE[content[first]]:
        first += 1
    while first < last and _EDGE[content[last - 1]]:
        last -= 1
    return first, last


@njit(nogil=True, cache=True)
def _analyse(chunk, in_python, english, spellings, spelled, written):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the numbers of the spellings of a chunk's terms into *spelled*, from *written* on; return where they end."""
    if in_python:
        spelled[written] = _IN_PYTHON
        return written + 1
    first, at = next_word(chunk, np.int64(0))
    while first < at:
        word = chunk[first:at].copy()  # becomes its stem in place
        length = english_term(word) if english else len(word)
        if length:
            spelled[written] = number_of(spellings, word, np.int64(0), length)
            written += 1
        first, at = next_word(chunk, at)
    return written


@njit(nogil=True, cache=True)
def count_terms(found: NDArray[np.int32], counts: _Ints, times: _Ints, ends: _Ints, lengths: _Ints) -> None:
    """Write how many terms each text has into *lengths* (texts,): arguments as those of `join`."""
    at = 0
    for text in range(len(counts)):
        total = 0
        for i in range(at, at + counts[text]):
            total += ends[found[i] + 1] - ends[found[i]]
        at += counts[text]
        lengths[text] = total * times[text]


@njit(nogil=True, cache=True)
def join(
    found: NDArray[np.int32],  # chunks, text by text
    counts: _Ints,  # (texts,) of each text
    times: _Ints,  # (texts,) how often each text stands there
    ends: _Ints,  # (chunks + 1,) the terms of chunk c are terms[ends[c]:ends[c + 1]]
    terms: NDArray[np.int32],
    joined: NDArray[np.int32],  # out: the terms of all texts
) -> None:
    """Write the terms of texts one after the other."""
    at = written = 0
    for text in range(len(counts)):
        for _ in range(times[text]):
            for i in range(at, at + counts[text]):
                for j in range(ends[found[i]], ends[found[i] + 1]):
                    joined[written] = terms[j]
                    written += 1
        at += counts[text]
