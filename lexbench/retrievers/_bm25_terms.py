"""Numbers of the terms of many texts, found by a compiled loop; `bm25` indexes large collections with it.

Text repeats itself: most *chunks*, the parts between white space, have been met before. The loop finds the chunks in the bytes
of a text and looks each up in a table. It works out the terms of a new ASCII chunk itself (`compiled`) and looks their
*spellings* up in a second table. Only spellings that are new, and chunks beyond ASCII, go through Python, in the order in which
they are met, so that terms get the same numbers as if documents came one at a time. A full table is cleared; its chunks are
analysed again when they are met again.

To meet fewer new chunks, ASCII letters are lower-cased first, as every analyser does with its terms, and ASCII chunks lose the
punctuation at their ends, which belongs to no word.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lexbench.compiling.loops import njit
from lexbench.tokenization.compiled import english_term, next_word
from lexbench.tokenization.word_break import EDGES, LONGEST

_CHUNKS = 1 << 19  # in a table
_BYTES = 1 << 25  # of them, in UTF-8
_SPACE = np.isin(np.arange(256), [9, 10, 11, 12, 13, 28, 29, 30, 31, 32])  # ASCII at which str.split splits
_EDGE = np.isin(np.arange(256), list(EDGES.encode()))
_ASCII = 128  # bytes below it
_UNICODE, _ENGLISH, _OTHER = range(3)
_COMPILED = {"unicode": _UNICODE, "english": _ENGLISH}  # names in lexbench.tokenization.ANALYZERS
_IN_PYTHON = -1  # stands for the terms of a chunk that the loop cannot analyse
_OFFSET, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # of the hash FNV-1a
_UPPER = np.uint64(0xFFFFFFFF00000000)

_Ints: TypeAlias = NDArray[np.int64]


class Started(NamedTuple):
    """Texts whose chunks have been looked up."""

    texts: Sequence[str]
    content: NDArray[np.uint8]  # their bytes
    bounds: _Ints  # (texts + 1,) text i is content[bounds[i]:bounds[i + 1]]
    chunks: NDArray[np.int32]  # numbers, text by text
    counts: _Ints  # (texts,) chunks of each text
    stop: int  # the first text that the tables had no room for


class TermsOfTexts:
    """Numbers the terms of texts. *number* returns the number of a term, *numbers* the terms of a chunk in *analyzer*."""

    def __init__(
        self,
        analyzer: str,
        number: Callable[[str], int],
        numbers: Callable[[str], Iterable[int]],
        chunks: int = _CHUNKS,
        size: int = _BYTES,
    ) -> None:
        self._analyzer = _COMPILED.get(analyzer, _OTHER)
        self._number, self._numbers = number, numbers
        self._chunks, self._spellings = empty_table(chunks, size), empty_table(chunks, size)
        # The spellings of chunk i are spelled[spelled_ends[i]:spelled_ends[i + 1]].
        self._spelled = np.empty((chunks + size) // 2, np.int32)
        self._spelled_ends = np.zeros(chunks + 1, np.int64)
        self._clear()

    def _clear(self) -> None:
        for table in (self._chunks, self._spellings):
            table.slots.fill(0)
            table.size[0] = 0
        self._numbered = array("i")  # by spelling, the number of the term
        self._terms = array("i")  # of all chunks; chunk i has terms[ends[i]:ends[i + 1]]
        self._ends = array("q", [0])

    def start(self, texts: Sequence[str]) -> Started:
        """Look up the chunks of *texts* as far as there is room, without the interpreter lock; call `finish` afterwards."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        content = np.frombuffer(bytearray().join(encoded).lower(), np.uint8)  # writable: numba compiles for one type only
        bounds = np.concatenate([[0], np.cumsum([len(text) for text in encoded], dtype=np.int64)])
        return self._look_up(texts, content, bounds, 0)

    def finish(self, started: Started, times: Sequence[int]) -> tuple[NDArray[np.int32], _Ints]:
        """Return the terms of all texts, each text as often as *times* says, and how many terms each text then has (texts,)."""
        texts = started.texts
        repeated = np.array(times, np.int64)
        blocks, lengths, start = [np.zeros(0, np.int32)], np.zeros(len(texts), np.int64), 0
        while start < len(texts):
            stop = started.stop
            if stop > start:
                self._number_new()
                part = slice(start, stop)
                blocks.append(self._joined(started.chunks, started.counts[part], repeated[part], lengths[part]))
            elif self._chunks.size[0]:  # the tables are full
                self._clear()
            else:  # the text is larger than the tables
                terms = np.fromiter(self._numbers(texts[start]), np.int32)
                blocks.append(np.tile(terms, times[start]))
                stop, lengths[start] = start + 1, len(blocks[-1])
            start = stop
            if start < len(texts):
                started = self._look_up(texts, started.content, started.bounds, start)
        return np.concatenate(blocks), lengths

    def _look_up(self, texts: Sequence[str], content: NDArray[np.uint8], bounds: _Ints, start: int) -> Started:
        """Look up the chunks of texts[start:], as far as the tables have room."""
        chunks = np.empty((int(bounds[-1] - bounds[start]) + len(bounds)) // 2 + 1, np.int32)
        counts = np.zeros(len(bounds) - 1, np.int64)
        tables = self._chunks, self._spellings, self._spelled, self._spelled_ends
        stop = _find(content, bounds, start, self._analyzer, *tables, chunks, counts)
        return Started(texts, content, bounds, chunks, counts, stop)

    def _number_new(self) -> None:
        """Assign numbers to the terms of new chunks, in the order in which they were met."""
        first, last = len(self._ends) - 1, int(self._chunks.size[0])
        ends = self._spelled_ends[first : last + 1]
        spelled = self._spelled[ends[0] : ends[-1]]
        in_python = np.flatnonzero(spelled == _IN_PYTHON)
        met = np.maximum.accumulate(spelled)[in_python] + 1  # spellings met before each of these chunks: numbered before it
        others = []  # the terms of the chunks that Python analyses
        for chunk, before in zip(np.searchsorted(ends - ends[0], in_python, "right").tolist(), met.tolist(), strict=True):
            self._number_spellings(before)
            [text] = _decoded(self._chunks, first + chunk - 1, first + chunk)
            others.append(list(self._numbers(text)))
        self._number_spellings(int(self._spellings.size[0]))
        # Each spelling becomes one term, and each _IN_PYTHON the terms of its chunk.
        counts = np.ones(len(spelled), np.int64)
        counts[in_python] = [len(terms) for terms in others]
        terms = np.repeat(np.append(np.frombuffer(self._numbered, np.int32), np.int32(0))[spelled], counts)
        terms[np.repeat(spelled == _IN_PYTHON, counts)] = list(chain.from_iterable(others))
        self._terms.frombytes(terms.tobytes())
        after = np.concatenate([[0], np.cumsum(counts)])[ends[1:] - ends[0]]
        self._ends.frombytes((after + self._ends[-1]).tobytes())

    def _number_spellings(self, stop: int) -> None:
        """Assign numbers to the terms of the spellings up to number *stop* that have none yet."""
        start = len(self._numbered)
        if start < stop:
            self._numbered.extend(map(self._number, _decoded(self._spellings, start, stop)))

    # It must stay a separate method: the arrays `_ends` and `_terms` cannot grow while a variable refers to their buffers.
    def _joined(self, found: NDArray[np.int32], counts: _Ints, times: _Ints, lengths: _Ints) -> NDArray[np.int32]:
        """Return the terms of texts that have *counts* of the chunks *found*, each text *times*; fill their *lengths*."""
        ends, terms = np.frombuffer(self._ends, np.int64), np.frombuffer(self._terms, np.int32)
        joined = np.empty(_count_terms(found, counts, times, ends, lengths), np.int32)
        _join(found, counts, times, ends, terms, joined)
        return joined


# ---- tables of strings -----------------------------------------------------------------------------------------------------


class Strings(NamedTuple):
    """A hash table of byte strings, numbered in the order in which they came: open addressing, hash FNV-1a."""

    # (a power of 2,): the upper half of a string's hash above its number + 1, at the slot of the hash or the next free; or 0
    slots: NDArray[np.uint64]
    bounds: _Ints  # (most strings + 1,) string i is kept[bounds[i]:bounds[i + 1]]
    kept: NDArray[np.uint8]
    size: _Ints  # (1,) strings in the table


def empty_table(strings: int, size: int) -> Strings:
    """Return an empty table with room for this number of *strings* and *size* bytes in all."""
    slots = np.zeros(1 << (2 * strings - 1).bit_length(), np.uint64)  # at least half of them stay empty
    return Strings(slots, np.zeros(strings + 1, np.int64), np.empty(size, np.uint8), np.zeros(1, np.int64))


def _decoded(table: Strings, start: int, stop: int) -> Iterator[str]:
    """Yield the strings from number *start* up to *stop*."""
    bounds = table.bounds[start : stop + 1]
    kept = table.kept[bounds[0] : bounds[-1]].tobytes()
    for first, last in pairwise((bounds - bounds[0]).tolist()):
        yield kept[first:last].decode("utf-8", "surrogatepass")


@njit(nogil=True, cache=True)
def _has_room(table, length):  # type: ignore[no-untyped-def]
    """Return whether the table has room for all strings in *length* bytes of text: at most one per two bytes."""
    size = table.size[0]
    return size + (length + 1) // 2 < len(table.bounds) and table.bounds[size] + length <= len(table.kept)


@njit(nogil=True, cache=True)
def _number_of(table, content, first, last):  # type: ignore[no-untyped-def]
    """Return the number of the string content[first:last], which is added to the *table* if it is new."""
    code = _OFFSET  # of FNV-1a, a short hash that is good enough for words
    for i in range(first, last):
        code = (code ^ np.uint64(content[i])) * _PRIME
    upper = code & _UPPER
    mask = np.uint64(len(table.slots) - 1)
    slot = (code ^ (code >> np.uint64(32))) & mask
    while table.slots[slot]:
        if table.slots[slot] & _UPPER == upper:  # half of the hash: strings themselves are seldom compared in vain
            number = np.int64(table.slots[slot] & ~_UPPER) - 1
            if _equals(table, number, content, first, last):
                return number
        slot = (slot + np.uint64(1)) & mask
    number = table.size[0]
    start, table.bounds[number + 1] = table.bounds[number], table.bounds[number] + last - first
    for i in range(last - first):  # numba takes two seconds longer to compile the copy of a slice
        table.kept[start + i] = content[first + i]
    table.slots[slot] = upper | np.uint64(number + 1)
    table.size[0] += 1
    return number


@njit(nogil=True, cache=True)
def _equals(table, number, content, first, last):  # type: ignore[no-untyped-def]
    """Return whether content[first:last] is the string of that *number*."""
    start = table.bounds[number]
    if table.bounds[number + 1] - start != last - first:
        return False
    for i in range(last - first):  # noqa: SIM110 - numba compiles no `all`
        if table.kept[start + i] != content[first + i]:
            return False
    return True


# ---- chunks and terms ------------------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def _find(content, texts, start, analyzer, chunks, spellings, spelled, ends, found, counts):  # type: ignore[no-untyped-def]  # noqa: PLR0913, PLR0917
    """Find the chunks of the texts from number *start* on, and the spellings of new ones; return the first text without room.

    *content* is the bytes of all texts, of which text i is content[texts[i]:texts[i + 1]]; *chunks* and *spellings* are the
    tables. *spelled* and *ends* get the spellings of new chunks, *found* the numbers of all chunks, text by text, and *counts*
    (texts,) how many chunks each text has.
    """
    written = 0
    for text in range(start, len(texts) - 1):
        at, stop = texts[text], texts[text + 1]
        if not (_has_room(chunks, stop - at) and _has_room(spellings, stop - at)):
            return text
        before = written
        while at < stop:
            while at < stop and _SPACE[content[at]]:
                at += 1
            first, highest = at, np.uint8(0)
            while at < stop and not _SPACE[content[at]]:
                highest = max(highest, content[at])
                at += 1
            last = at
            if highest < _ASCII:
                first, last = _stripped(content, first, last)
            if first == last:
                continue
            known = chunks.size[0]
            found[written] = _number_of(chunks, content, first, last)
            if chunks.size[0] > known:
                in_python = highest >= _ASCII or last - first > LONGEST or analyzer == _OTHER
                chunk = content[first:last]
                ends[known + 1] = _analyse(chunk, in_python, analyzer == _ENGLISH, spellings, spelled, ends[known])
            written += 1
        counts[text] = written - before
    return len(texts) - 1


@njit(nogil=True, cache=True)
def _stripped(content, first, last):  # type: ignore[no-untyped-def]
    """Return the start and end of the ASCII chunk content[first:last] without punctuation at its ends."""
    while first < last and _EDGE[content[first]]:
        first += 1
    while first < last and _EDGE[content[last - 1]]:
        last -= 1
    return first, last


@njit(nogil=True, cache=True)
def _analyse(chunk, in_python, english, spellings, spelled, written):  # type: ignore[no-untyped-def]
    """Write the numbers of the spellings of a chunk's terms into *spelled* from *written* on; return the end."""
    if in_python:
        spelled[written] = _IN_PYTHON
        return written + 1
    first, at = next_word(chunk, np.int64(0))
    while first < at:
        word = chunk[first:at].copy()  # becomes its stem in place
        length = english_term(word) if english else len(word)
        if length:
            spelled[written] = _number_of(spellings, word, np.int64(0), length)
            written += 1
        first, at = next_word(chunk, at)
    return written


@njit(nogil=True, cache=True)
def _count_terms(found, counts, times, ends, lengths):  # type: ignore[no-untyped-def]
    """Fill *lengths* (texts,) with the number of terms of each text, and return their sum; arguments as of `_join`."""
    at = every = 0
    for text in range(len(counts)):
        total = 0
        for i in range(at, at + counts[text]):
            total += ends[found[i] + 1] - ends[found[i]]
        at += counts[text]
        lengths[text] = total * times[text]
        every += lengths[text]
    return every


@njit(nogil=True, cache=True)
def _join(found, counts, times, ends, terms, joined):  # type: ignore[no-untyped-def]
    """Write the terms of texts into *joined*: *counts* (texts,) of the chunks *found*, all that *times* (texts,).

    The terms of chunk c are terms[ends[c]:ends[c + 1]].
    """
    at = written = 0
    for text in range(len(counts)):
        for _ in range(times[text]):
            for i in range(at, at + counts[text]):
                for j in range(ends[found[i]], ends[found[i] + 1]):
                    joined[written] = terms[j]
                    written += 1
        at += counts[text]
