"""Texts to numbers of their terms, a block at a time, by a compiled loop: for collections that are worth compiling it.

Text repeats itself: most chunks, the parts between white space, were met before. The loop finds them in the bytes of a text and
looks each up in a table; only what is new to it is analysed, in Python, in the order in which it is met. So terms get the
numbers that they would get one document after the other. The table is cleared when full: what it forgot is analysed again.

So that less is new, letters of ASCII are lower-cased first, as every analyser does with terms, and chunks of ASCII lose the
punctuation at their ends, with which no word begins or ends.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lexbench.tokenization.word_break import EDGES

_MOST_CHUNKS = 1 << 19  # in the table
_MOST_BYTES = 1 << 25  # of them, in UTF-8
_SPACE = np.isin(np.arange(256), [9, 10, 11, 12, 13, 28, 29, 30, 31, 32])  # what str.split takes for white space in ASCII
_EDGE = np.isin(np.arange(256), list(EDGES.encode()))
_ASCII = 128  # bytes below it
_OFFSET, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # of the hash FNV-1a

_Ints: TypeAlias = NDArray[np.int64]


class _Found(NamedTuple):
    """What `find` found."""

    chunks: NDArray[np.int32]
    counts: _Ints
    stop: int  # the first text that the table had no room for
    known: int  # chunks in the table


class Begun(NamedTuple):
    """Texts whose chunks are looked up."""

    texts: Sequence[str]
    content: NDArray[np.uint8]  # their bytes
    bounds: _Ints  # (texts + 1,) text i is content[bounds[i]:bounds[i + 1]]
    found: _Found


class TermsOfTexts:
    """The numbers of the terms of texts; *numbers* gives those of one chunk, repetitions kept, in order."""

    def __init__(
        self, numbers: Callable[[str], Iterable[int]], most_chunks: int = _MOST_CHUNKS, most_bytes: int = _MOST_BYTES
    ) -> None:
        self._numbers = numbers
        self._hashes = np.empty(most_chunks, np.uint64)
        self._bounds = np.zeros(most_chunks + 1, np.int64)  # chunk i is kept[bounds[i]:bounds[i + 1]]
        self._kept = np.empty(most_bytes, np.uint8)
        self._slots = np.empty(1 << (2 * most_chunks - 1).bit_length(), np.int32)  # at least half of them stay empty
        self._clear()

    def _clear(self) -> None:
        self._slots.fill(-1)
        self._known = 0  # chunks
        self._terms = array("i")  # of all chunks; those of chunk i are terms[ends[i]:ends[i + 1]]
        self._ends = array("q", [0])

    def of(self, texts: Sequence[str], times: Sequence[int]) -> tuple[NDArray[np.int32], _Ints]:
        """Return the terms of *texts*, each text as often as *times* says, joined, and how many each text then has."""
        return self.finish(self.begin(texts), times)

    def begin(self, texts: Sequence[str]) -> "Begun":
        """Look up the chunks of *texts*, as far as the table has room: the part of `of` that needs no lock of the interpreter.

        Nothing else may be begun before that is finished.
        """
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        content = np.frombuffer(b"".join(encoded).lower(), np.uint8)
        bounds = np.concatenate([[0], np.cumsum([len(text) for text in encoded], dtype=np.int64)])
        return Begun(texts, content, bounds, self._find(content, bounds, 0))

    def _find(self, content: NDArray[np.uint8], bounds: _Ints, start: int) -> "_Found":
        found = np.empty((int(bounds[-1] - bounds[start]) + len(bounds)) // 2 + 1, np.int32)
        counts = np.zeros(len(bounds) - 1, np.int64)
        table = self._slots, self._hashes, self._bounds, self._kept
        return _Found(found, counts, *find(content, bounds, start, *table, self._known, found, counts))

    def finish(self, begun: "Begun", times: Sequence[int]) -> tuple[NDArray[np.int32], _Ints]:
        """Return what `of` does, given what `begin` returned."""
        texts, content, bounds, found = begun
        repeated = np.array(times, np.int64)
        blocks, lengths, start = [np.zeros(0, np.int32)], np.zeros(len(texts), np.int64), 0
        while start < len(texts):
            stop = found.stop
            if stop > start:
                self._analyse(found.known)
                part = slice(start, stop)
                blocks.append(self._terms_of(found.chunks, found.counts[part], repeated[part], lengths[part]))
            elif self._known:
                self._clear()
            else:  # larger than the table
                terms = np.fromiter(self._numbers(texts[start]), np.int32)
                blocks.append(np.tile(terms, times[start]))
                stop, lengths[start] = start + 1, len(blocks[-1])
            start = stop
            if start < len(texts):
                found = self._find(content, bounds, start)
        return np.concatenate(blocks), lengths

    def _analyse(self, known: int) -> None:
        """Work out the terms of the chunks from the last that has been up to *known*."""
        bounds = self._bounds[self._known : known + 1]
        kept = self._kept[bounds[0] : bounds[-1]].tobytes()
        for start, stop in pairwise((bounds - bounds[0]).tolist()):
            self._terms.extend(self._numbers(kept[start:stop].decode("utf-8", "surrogatepass")))
            self._ends.append(len(self._terms))
        self._known = known

    def _terms_of(self, found: NDArray[np.int32], counts: _Ints, times: _Ints, lengths: _Ints) -> NDArray[np.int32]:
        """Return the terms of the chunks *found*, of which each text has *counts*; its number of terms into *lengths*."""
        ends, terms = np.frombuffer(self._ends, np.int64), np.frombuffer(self._terms, np.int32)
        count_terms(found, counts, times, ends, lengths)
        joined = np.empty(lengths.sum(), np.int32)
        join(found, counts, times, ends, terms, joined)
        return joined


@njit(nogil=True, cache=True)
def find(  # noqa: PLR0913, PLR0917 - tuples of arrays would take numba longer to compile
    content: NDArray[np.uint8],  # the bytes of all texts
    texts: _Ints,  # (texts + 1,) text i is content[texts[i]:texts[i + 1]]
    start: int,  # the first text to look at
    slots: NDArray[np.int32],  # (a power of 2,) the table: the number of a chunk where its hash points, or soon after; -1 empty
    hashes: NDArray[np.uint64],  # (most chunks,)
    bounds: _Ints,  # (most chunks + 1,) chunk i is kept[bounds[i]:bounds[i + 1]]
    kept: NDArray[np.uint8],
    known: int,  # chunks in the table
    found: NDArray[np.int32],  # out: the numbers of the chunks, text by text
    counts: _Ints,  # (texts,) out: how many chunks each text has
) -> tuple[int, int]:
    """Find the chunks of the texts from *start*; return the first text that the table has no room for, and the chunks in it."""
    mask = np.uint64(len(slots) - 1)
    written = 0
    for text in range(start, len(texts) - 1):
        at, stop = texts[text], texts[text + 1]
        if known + (stop - at + 1) // 2 > len(hashes) or bounds[known] + stop - at > len(kept):
            return text, known
        before = written
        while at < stop:
            if _SPACE[content[at]]:
                at += 1
                continue
            first = at
            while at < stop and not _SPACE[content[at]]:
                at += 1
            first, last, code = _core(content, first, at)
            if first == last:
                continue
            slot = (code ^ (code >> np.uint64(32))) & mask
            while slots[slot] >= 0 and not _is(slots[slot], code, content[first:last], hashes, bounds, kept):
                slot = (slot + np.uint64(1)) & mask
            if slots[slot] < 0:
                slots[slot], hashes[known] = known, code
                bounds[known + 1] = bounds[known] + last - first
                kept[bounds[known] : bounds[known + 1]] = content[first:last]
                known += 1
            found[written] = slots[slot]
            written += 1
        counts[text] = written - before
    return len(texts) - 1, known


@njit(nogil=True, cache=True)
def _core(content, first, last):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return where a chunk, content[first:last], starts and ends without the punctuation at its ends, and the hash of that."""
    highest = np.uint8(0)
    for i in range(first, last):
        highest = max(highest, content[i])
    if highest < _ASCII:
        while first < last and _EDGE[content[first]]:
            first += 1
        while first < last and _EDGE[content[last - 1]]:
            last -= 1
    code = _OFFSET
    for i in range(first, last):
        code = (code ^ np.uint64(content[i])) * _PRIME
    return first, last, code


@njit(nogil=True, cache=True)
def _is(chunk, code, content, hashes, bounds, kept):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether the *chunk* of that number has the bytes *content*, whose hash is *code*."""
    if hashes[chunk] != code or bounds[chunk + 1] - bounds[chunk] != len(content):
        return False
    own = kept[bounds[chunk] : bounds[chunk + 1]]
    for i in range(len(own)):  # noqa: SIM110 - numba compiles no `all`
        if own[i] != content[i]:
            return False
    return True


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
