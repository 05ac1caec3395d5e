"""Plain lines of large TREC run files, read in one pass by a compiled loop; whatever is unusual is left to `columns`.

Most of a line stands in the line before, too: the query, `Q0` and the tag. So what is equal is compared, eight bytes at a time,
and only the document, the rank and the score are read.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lexbench.storage.reading import whole_lines
from lexbench.trec.decimals import parse
from lexbench.trec.swar import before_blank, byte_at, digits, equal, word_at

_ROOM = 1 << 20  # bytes in hand: they stay in the second-level cache while they are read
_SHORTEST = 10  # bytes of a line
_WIDEST = 64  # words of an id, a power of 2
_LONGEST = 8 * _WIDEST  # bytes of any name: `columns` looks at what is longer
_BLANK, _NEWLINE, _COMMENT = ord(" "), ord("\n"), ord("#")
_UNUSUAL, _WIDER = -1, -2  # in place of a number of lines


class Lines(NamedTuple):
    """What a run file says, line by line, and the lists that lines of one query after another make."""

    words: NDArray[np.uint64]  # (lines, words) the document's id, 8 bytes a number, of which the first counts most
    scores: NDArray[np.float64]  # (lines,)
    starts: NDArray[np.int64]  # (lists,) its first line
    queries: list[bytes]  # of each list
    against: NDArray[np.bool_]  # (lists,) whether a later rank of it has a higher score
    tags: list[bytes]  # of the first line, and of each whose tag differs from the one before


def read_lines(path: Path, *, tagged: bool) -> Lines | None:
    """Return the lines of a run file of six columns, or of five where they are not *tagged*; None where one is not plain.

    Plain is a line of just those columns whose rank is a number of at most eight digits and whose score is read for sure.
    InvalidFile for a file that cannot be read.
    """
    room = bytearray(_ROOM)
    text = np.frombuffer(room, np.uint8)
    rows = _ROOM // _SHORTEST  # lines that are in it at most
    firsts, spans, tag_spans = np.empty(rows, np.int64), np.empty((rows, 2), np.int32), np.empty((rows, 2), np.int32)
    rises, counts = np.empty(rows, np.bool_), np.zeros(2, np.int64)
    words, scores = np.empty((rows, 1), np.uint64), np.empty(rows)
    starts: list[int] = []
    queries: list[bytes] = []
    against: list[bool] = []
    tags: list[bytes] = []
    line = behind = 0
    for size, again in whole_lines(path, room):
        line -= again  # what is new in a line is told by the one before
        if line + rows > len(scores):
            more = rows + line + max(line, int(1.1 * line / max(behind, 1) * path.stat().st_size))
            words, scores = _grown(words[:line], more, words.shape[1]), _grown(scores[:line, None], more, 1).ravel()
        behind += size
        while size:
            lines = _read(text, size, tagged, words[line:], scores[line:], firsts, spans, rises, tag_spans, counts)
            if lines != _WIDER or words.shape[1] >= _WIDEST:
                break
            words = _grown(words[:line], len(words), 2 * words.shape[1])
        if not size or lines < 0:
            return None
        lists, changes = counts.tolist()
        if again:
            against[-1] |= bool(rises[0])
        starts += (firsts[again:lists] + line).tolist()
        against += rises[again:lists].tolist()
        queries += _names(text, spans[again:lists])
        tags += _names(text, tag_spans[again:changes])
        line += lines
    return Lines(words[:line], scores[:line], np.array(starts), queries, np.array(against), tags) if line else None


def _grown(rows: NDArray[Any], count: int, width: int) -> NDArray[Any]:
    """Return *rows* with room for *count*, each filled up with zeros to *width*."""
    grown = np.empty((count, width), rows.dtype)
    grown[: len(rows), : rows.shape[1]] = rows
    grown[: len(rows), rows.shape[1] :] = 0
    return grown


def _names(text: NDArray[np.uint8], spans: NDArray[np.int32]) -> list[bytes]:
    """Return text[start:stop] of each of *spans* (names, 2)."""
    return [text[start:stop].tobytes() for start, stop in spans.tolist()]


@njit(nogil=True, cache=True)
def _read(  # type: ignore[no-untyped-def]  # noqa: C901, PLR0912, PLR0913, PLR0917 - a line has few parts; numba is slow with tuples
    text,  # uint8: whole lines, and eight bytes behind them
    size,  # bytes of the lines
    tagged,
    words,  # out: as `Lines` has it, and so the next two
    scores,
    starts,
    spans,  # out: (lists, 2) where the id of its query starts and stops
    against,  # out: as `Lines` has it
    tags,  # out: (tags, 2) where a tag starts and stops that differs from the one before
    counts,  # out: lists and tags
):
    """Return how many lines *text* has, or _UNUSUAL, or _WIDER where an id needs more *words*."""
    first = np.int64(text.ctypes.data)
    at = prefix = ending = query = tag = first
    line = lists = changes = prefix_size = ending_size = query_size = tag_size = 0
    rank_before, score_before = np.uint64(0), 0.0
    while at < first + size:
        same = prefix_size > 0 and equal(at, prefix, prefix_size) and byte_at(at + prefix_size) > _BLANK
        prefix = at
        if same:
            at += prefix_size
        else:
            start, stop, at = _query(at)
            if not at:
                return _UNUSUAL
            same = query_size == stop - start and equal(start, query, query_size)
            query, query_size, prefix_size = start, stop - start, at - prefix
            if not same:
                starts[lists], against[lists] = line, False
                spans[lists, 0], spans[lists, 1] = start - first, stop - first
                lists += 1
        if byte_at(at) <= _BLANK:
            return _UNUSUAL
        at = _document(at, words[line])
        if byte_at(at) > _BLANK:
            return _WIDER
        rank, score, at = _numbers(at)
        if not at:
            return _UNUSUAL
        if same and score > score_before and rank > rank_before:
            against[lists - 1] = True
        scores[line], score_before, rank_before = score, score, rank
        if ending_size and equal(at, ending, ending_size):
            at += ending_size
        else:
            ending = at
            start, stop, at = _ending(at, tagged)
            if not at:
                return _UNUSUAL
            if tagged and (tag_size != stop - start or not equal(start, tag, tag_size)):
                tags[changes, 0], tags[changes, 1] = start - first, stop - first
                changes += 1
            tag, tag_size, ending_size = start, stop - start, at - ending
        line += 1
    counts[0], counts[1] = lists, changes
    return line


@njit(nogil=True, cache=True)
def _query(at):  # type: ignore[no-untyped-def]
    """Return where the query's id starts and stops, and where the third field begins; 0 for that if there are no such two."""
    start = _behind_blanks(at)
    stop = _behind_field(start)
    second = _behind_blanks(stop)
    behind = _behind_field(second)
    plain = 0 < stop - start <= _LONGEST and byte_at(start) != _COMMENT and second > stop and behind > second
    return start, stop, _behind_blanks(behind) if plain else 0


@njit(nogil=True, cache=True)
def _document(at, words):  # type: ignore[no-untyped-def]
    """Put the id at *at* into *words*, uint64 (words,), and return where it ends, or where there is no room for the rest."""
    length = 8
    for column in range(len(words)):
        if length == 8:  # noqa: PLR2004 - bytes of a word
            words[column], length = before_blank(word_at(at))
            at += length
        else:
            words[column] = 0
    return at


@njit(nogil=True, cache=True)
def _numbers(at):  # type: ignore[no-untyped-def]
    """Return the rank and the score behind the blanks at *at*, and where the score ends; 0 for that if one is not plain."""
    first = _behind_blanks(at)
    rank, length = digits(word_at(first))
    second = _behind_blanks(first + length)
    score, stop, sure = parse(second)
    plain = first > at and length > 0 and second > first + length and sure and byte_at(stop) <= _BLANK
    return rank, score, stop if plain else 0


@njit(nogil=True, cache=True)
def _ending(at, tagged):  # type: ignore[no-untyped-def]
    """Return where the tag starts and stops, if lines are *tagged*, and where the next line begins; 0 if that is not so."""
    start = stop = at
    if tagged:
        start = _behind_blanks(at)
        stop = _behind_field(start)
        if start == at or not 0 < stop - start <= _LONGEST:
            return start, stop, 0
    behind = _behind_blanks(stop)
    return start, stop, behind + 1 if byte_at(behind) == _NEWLINE else 0


@njit(nogil=True, cache=True)
def _behind_blanks(at):  # type: ignore[no-untyped-def]
    """Return where the white space at *at* ends, which bytes.split() splits at, or the line."""
    while byte_at(at) == _BLANK or (9 <= byte_at(at) <= 13 and byte_at(at) != _NEWLINE):  # noqa: PLR2004 - tabs and the like
        at += 1
    return at


@njit(nogil=True, cache=True)
def _behind_field(at):  # type: ignore[no-untyped-def]
    """Return where from *at* on there is a byte that is no more than a space."""
    while byte_at(at) > _BLANK:
        at += 1
    return at
