"""Compiled loops of `ciff`: protobuf's varints, and the conversion between postings by document and by term.

The protobuf library makes an object per posting, which is thirty times slower. Places are byte offsets in the file; the place
-1 means that a message is malformed.
"""

import numpy as np
from numba import njit

TERM, DF, CF, POSTINGS = 1, 2, 3, 4  # fields of PostingsList
_DOCID, _TF = 1, 2  # fields of Posting
_DOC_DOCID, _DOC_NAME, _DOC_LENGTH = 1, 2, 3  # fields of DocRecord
_LONGEST = 10  # bytes of a varint
_INT32 = 2**31 - 1
_NUMBER, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # protobuf's wire types


@njit(nogil=True, cache=True, inline="always")
def read_varint(content, at, stop):  # type: ignore[no-untyped-def]
    """Return the number at the place *at*, and the place after it; -1 if it does not end before *stop*."""
    value = np.uint64(0)
    for i in range(_LONGEST):
        if at + i >= stop:
            break
        byte = content[at + i]
        value |= np.uint64(byte & 0x7F) << np.uint64(7 * i)
        if byte < 0x80:  # noqa: PLR2004 - the high bit means that more follows
            return np.int64(value), at + i + 1
    return np.int64(0), np.int64(-1)


@njit(nogil=True, cache=True)
def read_field(content, at, stop):  # type: ignore[no-untyped-def]
    """Return number, kind and value (a number, or where its bytes start) of the field at *at*, and the place after it."""
    tag, at = read_varint(content, at, stop)
    kind, value, after = tag & 7, np.int64(0), np.int64(-1)
    if at >= 0 and kind == _NUMBER:
        value, after = read_varint(content, at, stop)
    elif at >= 0 and kind == _BYTES:
        size, value = read_varint(content, at, stop)
        if value >= 0 and 0 <= size <= stop - value:
            after = value + size
    elif at >= 0 and (kind == _FIXED64 or kind == _FIXED32):  # noqa: PLR1714, SIM109 - numba compiles this to less
        value, after = at, at + (8 if kind == _FIXED64 else 4)
    number = tag >> 3
    return number, kind, value, after if number > 0 and after <= stop else np.int64(-1)


@njit(nogil=True, cache=True)
def scan_lists(content, at, lists):  # type: ignore[no-untyped-def]
    """Fill *lists* (messages, 7) from the PostingsList messages at the place *at* and behind, without their postings.

    The columns are start and stop of the message, start and stop of its term, df, cf, and the number of postings. Return the
    place after the last message, and the number of well-formed messages.
    """
    for i in range(len(lists)):
        size, start = read_varint(content, at, len(content))
        if start < 0 or size < 0 or size > len(content) - start:
            return at, i
        stop = start + size
        lists[i, 0], lists[i, 1] = start, stop
        place = start
        while place < stop:
            number, kind, value, after = read_field(content, place, stop)
            if after < 0:
                return at, i
            if number == TERM and kind == _BYTES:
                lists[i, 2], lists[i, 3] = value, after
            elif number == DF and kind == _NUMBER:
                lists[i, 4] = value
            elif number == CF and kind == _NUMBER:
                lists[i, 5] = value
            elif number == POSTINGS and kind == _BYTES:
                lists[i, 6] += 1
            place = after
        at = stop
    return at, len(lists)


@njit(nogil=True, cache=True)
def decode_postings(content, start, stop, docs, weights):  # type: ignore[no-untyped-def]
    """Read the postings of one PostingsList into *docs* and *weights*. Return the place of a malformed one, or -1.

    Document numbers are sums of gaps, so they ascend; weights are at least 1.
    """
    place, count, doc = start, 0, np.int64(0)
    while place < stop:
        number, kind, value, after = read_field(content, place, stop)
        if number == POSTINGS and kind == _BYTES:
            gap, weight, at = np.int64(0), np.int64(0), value
            while at < after:
                inner, inner_kind, inner_value, at_next = read_field(content, at, after)
                if at_next < 0:
                    return at
                if inner == _DOCID and inner_kind == _NUMBER:
                    gap = inner_value
                elif inner == _TF and inner_kind == _NUMBER:
                    weight = inner_value
                at = at_next
            if gap < (count > 0) or gap > _INT32 - doc or weight < 1 or weight > _INT32:
                return place
            doc += gap
            docs[count], weights[count] = doc, weight
            count += 1
        place = after
    return np.int64(-1)


@njit(nogil=True, cache=True)
def scan_records(content, at, rows):  # type: ignore[no-untyped-def]
    """Read the DocRecord messages at *at* and behind into *rows* (documents, 4): docid, start and stop of the name, length.

    Return the place after the last message, and the number of well-formed messages.
    """
    for i in range(len(rows)):
        size, place = read_varint(content, at, len(content))
        if place < 0 or size < 0 or size > len(content) - place:
            return at, i
        stop = place + size
        while place < stop:
            number, kind, value, after = read_field(content, place, stop)
            if after < 0:
                return at, i
            if number == _DOC_DOCID and kind == _NUMBER:
                rows[i, 0] = value
            elif number == _DOC_NAME and kind == _BYTES:
                rows[i, 1], rows[i, 2] = value, after
            elif number == _DOC_LENGTH and kind == _NUMBER:
                rows[i, 3] = value
            place = after
        at = stop
    return at, len(rows)


@njit(nogil=True, cache=True)
def append_by_term(offsets, terms, weights, first, ends, docs, impacts):  # type: ignore[no-untyped-def]
    """Append the rows of a block, whose first document is *first*, to the postings of their terms, which end at *ends*."""
    for row in range(len(offsets) - 1):
        for i in range(offsets[row], offsets[row + 1]):
            place = ends[terms[i]]
            docs[place], impacts[place] = first + row, weights[i]
            ends[terms[i]] = place + 1


@njit(nogil=True, cache=True)
def count_entries(rows, offsets):  # type: ignore[no-untyped-def]
    """Count the entries of each row: add one to offsets[row + 1] for each of *rows*."""
    for row in rows:
        offsets[row + 1] += 1


@njit(nogil=True, cache=True)
def append_by_document(docs, weights, term, ends, terms, values):  # type: ignore[no-untyped-def]
    """Append the postings of *term* to the rows of their documents, which end at *ends*."""
    for i in range(len(docs)):
        place = ends[docs[i]]
        terms[place], values[place] = term, weights[i]
        ends[docs[i]] = place + 1


@njit(nogil=True, cache=True, inline="always")
def _write_varint(number, target, at):  # type: ignore[no-untyped-def]
    while number >= 0x80:  # noqa: PLR2004 - the high bit means that more follows
        target[at] = np.uint8(number & 0x7F) | np.uint8(0x80)
        number >>= 7
        at += 1
    target[at] = np.uint8(number)
    return at + 1


@njit(nogil=True, cache=True)
def encode_postings(docs, impacts, target):  # type: ignore[no-untyped-def]
    """Write the postings of one term as fields of a PostingsList into *target*. Return the number of bytes, at most 14 each.

    A gap of 0, which only the first posting can have, is left out, because protobuf leaves out default values.
    """
    at, before = 0, np.int64(0)
    for i in range(len(docs)):
        target[at] = np.uint8(POSTINGS << 3 | _BYTES)
        inner = at + 2  # the message is shorter than 128 bytes, so its length takes one
        gap = np.int64(docs[i]) - before
        before = np.int64(docs[i])
        if gap:
            target[inner] = np.uint8(_DOCID << 3)
            inner = _write_varint(gap, target, inner + 1)
        target[inner] = np.uint8(_TF << 3)
        inner = _write_varint(np.int64(impacts[i]), target, inner + 1)
        target[at + 1] = np.uint8(inner - at - 2)
        at = inner
    return at
