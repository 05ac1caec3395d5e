"""Vectors as an inverted index in the Common Index File Format, which PISA, BMP, Lucene, Terrier and JASS import.

The file has protobuf messages, each after its length as a varint:

    Header
    PostingsList    one per term, in the order of the terms' bytes; postings are gaps between document numbers, with the weight
                    as `tf`
    DocRecord       one per document; its length is the sum of its weights

https://github.com/osirrc/ciff (Lin et al., "Supporting Interoperability Between Open-Source Search Engines with the Common
Index File Format", SIGIR 2020). Weights must be integers. Tokens that no document has are lost.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import CommandError, InvalidFile
from lexbench.storage.atomic import writer
from lexbench.storage.reading import open_file
from lexbench.vector_formats import _ciff_kernel as kernel
from lexbench.vector_formats.blocks import ROWS, Block, Vocabulary, block_of, checked

_VERSION = 1
_DESCRIPTION = b"impacts of sparse vectors, written by lexbench"
_NUMBER, _DOUBLE, _BYTES = 0, 1, 2  # protobuf's wire types
_START, _TERM, _TERM_STOP, _DF, _CF, _COUNT = 0, 2, 3, 4, 5, 6  # columns that `kernel.scan_lists` fills
_POSTING = 14  # bytes of a posting at most
_LENGTH_LIMIT = 2**31
_NARROW = 1 << 16

_Rows: TypeAlias = tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]  # offsets, terms and weights of a block


def read(path: Path, vocabulary: Vocabulary | None = None) -> Iterator[Block]:
    """Yield the documents of a file, in the order of its DocRecords. All postings are in memory, 8 bytes each.

    *vocabulary* numbers the tokens and may grow. A compressed file is unpacked in memory. Raises InvalidFile with the byte at
    which the file is malformed.
    """
    known = Vocabulary() if vocabulary is None else vocabulary
    file = _File(path, _content(path))
    lists, records = file.messages()
    ids = [file.text(start, stop) for start, stop in records[:, 1:3].tolist()]
    numbers = _terms(file, lists, known)
    offsets, terms, weights = _by_document(_Lists(file, lists, records[:, 0]), numbers)
    for first in range(0, len(ids), ROWS):
        rows = offsets[first : first + ROWS + 1]
        entries = slice(int(rows[0]), int(rows[-1]))
        yield block_of(ids[first : first + ROWS], weights[entries], terms[entries], rows - rows[0], len(known))


def _content(path: Path) -> NDArray[np.uint8]:
    """Return the bytes of a file, mapped or, if compressed, unpacked into memory."""
    try:
        if path.suffix == ".gz":
            with open_file(path) as file:
                return np.frombuffer(file.read(), np.uint8)
        return np.asarray(np.memmap(path, np.uint8, "r"))
    except (OSError, EOFError, ValueError, zlib.error) as error:  # ValueError: an empty file cannot be mapped
        raise InvalidFile(f"{path}: {getattr(error, 'strerror', None) or error}") from None


@dataclass(frozen=True)
class _File:
    """A file and its bytes."""

    path: Path
    content: NDArray[np.uint8]

    def wrong(self, place: int, what: str) -> InvalidFile:
        """Return the error *what* with the byte *place*."""
        return InvalidFile(f"{self.path}: at byte {place}: {what}")

    def text(self, start: int, stop: int) -> str:
        """Return the string in the bytes *start* to *stop*."""
        try:
            return self.content[start:stop].tobytes().decode()
        except UnicodeDecodeError as error:
            raise self.wrong(start, str(error)) from None

    def messages(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of `kernel.scan_lists` and those of `kernel.scan_records` for all messages."""
        counts, place = self._header()
        lists, records = np.zeros((counts[0], 7), np.int64), np.zeros((counts[1], 4), np.int64)
        for what, rows, scan in (("PostingsList", lists, kernel.scan_lists), ("DocRecord", records, kernel.scan_records)):
            place, count = scan(self.content, place, rows)
            if count < len(rows):
                raise self.wrong(place, f"{what} {count + 1:,} of {len(rows):,} is cut off or does not read")
        if place != len(self.content):
            raise self.wrong(place, f"{len(self.content) - place:,} bytes after the last message")
        return lists, records

    def _header(self) -> tuple[tuple[int, int], int]:
        """Return the numbers of lists and of documents, and where the first list starts."""
        size, place = kernel.read_varint(self.content, 0, len(self.content))
        stop, numbers = place + size, {}
        readable = place >= 0 and 0 <= size <= len(self.content) - place
        while readable and place < stop:
            number, kind, value, place = kernel.read_field(self.content, place, stop)
            readable = place >= 0
            if kind == _NUMBER:
                numbers[number] = value
        lists, documents = numbers.get(2, 0), numbers.get(3, 0)
        possible = range(len(self.content) + 1)  # a message takes at least one byte
        if not readable or numbers.get(1) != _VERSION or lists not in possible or documents not in possible:
            raise self.wrong(0, f"no CIFF header of version {_VERSION}")
        return (lists, documents), stop


def _terms(file: _File, lists: NDArray[np.int64], vocabulary: Vocabulary) -> NDArray[np.int64]:
    """Return the term id of each list (lists,)."""
    tokens = [file.text(start, stop) for start, stop in lists[:, _TERM : _TERM_STOP + 1].tolist()]
    try:
        numbers = np.array(vocabulary.numbers(tokens), np.int64)
    except CommandError as error:
        raise InvalidFile(f"{file.path}: {error}") from None
    first_lists = np.unique(numbers, return_index=True)[1]
    if len(first_lists) < len(numbers):
        second = int(np.setdiff1d(np.arange(len(numbers)), first_lists)[0])
        raise file.wrong(int(lists[second, _START]), f"a second list of the term {tokens[second]!r}")
    return numbers


class _Lists:
    """The postings of each list, with documents as row numbers; *entries* (lists, 7) are from `kernel.scan_lists`."""

    def __init__(self, file: _File, entries: NDArray[np.int64], docids: NDArray[np.int64]) -> None:
        self.file, self.entries, self.documents = file, entries, len(docids)
        self.order = np.argsort(docids, kind="stable")
        self.docids = docids[self.order]
        if np.any(self.docids[1:] == self.docids[:-1]):
            raise InvalidFile(f"{file.path}: two documents have one number")
        self.plain = np.array_equal(docids, np.arange(len(docids)))  # the usual case: document numbers are row numbers

    def read(self, number: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows and weights of the postings of list *number*."""
        entry = self.entries[number]
        docs, weights = np.empty(entry[_COUNT], np.int64), np.empty(entry[_COUNT], np.int64)
        wrong = kernel.decode_postings(self.file.content, entry[0], entry[1], docs, weights)
        if wrong >= 0:
            raise self.file.wrong(wrong, "a posting does not read: numbers of documents ascend, and weights are from 1")
        if entry[_DF] != len(docs) or entry[_CF] != weights.sum():
            counts = f"df {entry[_DF]:,} and cf {entry[_CF]:,}, not {len(docs):,} and {weights.sum():,}"
            raise self.file.wrong(int(entry[_START]), f"the list says {counts}")
        if not np.array_equal(weights.astype(np.float32), weights):
            raise self.file.wrong(int(entry[_START]), "the list has a weight that float32 does not hold")
        return self._rows(docs, int(entry[_START])), weights

    def _rows(self, docs: NDArray[np.int64], place: int) -> NDArray[np.int64]:
        """Return the rows of the documents with the numbers *docs*, for the list at byte *place*."""
        if self.plain:
            known, rows = docs < self.documents, docs
        else:
            ranks = np.minimum(np.searchsorted(self.docids, docs), self.documents - 1)
            known, rows = self.docids[ranks] == docs, self.order[ranks]
        if not known.all():
            raise self.file.wrong(place, f"the list has document {docs[np.argmin(known)]}, which has no DocRecord")
        return rows


def _by_document(lists: _Lists, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Return offsets, terms and weights of a matrix, terms ascending in each row. Lists are read twice."""
    offsets = np.zeros(lists.documents + 1, np.int64)
    for number in range(len(numbers)):
        kernel.count_entries(lists.read(number)[0], offsets)
    np.cumsum(offsets, out=offsets)
    terms, weights, ends = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.float32), offsets[:-1].copy()
    for number in np.argsort(numbers).tolist():
        rows, values = lists.read(number)
        kernel.append_by_document(rows, values, numbers[number], ends, terms, weights)
    return offsets, terms, weights


class _Postings(NamedTuple):
    """Postings by term: those of term t are docs[offsets[t]:offsets[t + 1]]."""

    offsets: NDArray[np.int64]
    docs: NDArray[np.uint32]
    impacts: NDArray[Any]


def write(blocks: Iterable[Block], path: Path, vocabulary: Vocabulary) -> None:
    """Write the documents of *blocks*, compressed if *path* ends in `.gz`. All postings are in memory meanwhile.

    A posting takes 10 bytes if terms and weights fit into 16 bits, and 16 bytes otherwise. Raises CommandError for weights
    that are no integers, or for a document whose weights add up to 2^31 or more.
    """
    ids: list[str] = []
    arrays: list[_Rows] = []
    for block in checked(blocks, vocabulary, "CIFF"):
        ids += block.ids
        terms = block.vectors.indices.astype(np.uint16 if block.vectors.shape[1] <= _NARROW else np.uint32)
        weights = block.vectors.data.astype(np.uint16 if block.vectors.data.max(initial=0) < _NARROW else np.uint32)
        arrays.append((block.vectors.indptr.astype(np.int64), terms, weights))
    lengths = _lengths(ids, arrays)
    postings = _by_term(arrays, len(vocabulary))
    tokens = vocabulary.tokens
    used = sorted((tokens[term].encode(), term) for term in np.flatnonzero(np.diff(postings.offsets)).tolist())
    with writer(path) as file:
        file.write(_header(len(used), lengths))
        for token, term in used:
            _write_list(file, token, postings, term)
        for number, (text_id, length) in enumerate(zip(ids, lengths.tolist(), strict=True)):
            name = text_id.encode()
            file.write(_delimited(_number(1, number) + _bytes(2, name) + _number(3, length)))


def _lengths(ids: list[str], blocks: list[_Rows]) -> NDArray[np.int64]:
    """Return the sum of the weights of each document (documents,)."""
    sums = [np.diff(np.append(0, np.cumsum(weights, dtype=np.int64))[offsets]) for offsets, _, weights in blocks]
    lengths = np.concatenate([np.zeros(0, np.int64), *sums])
    if np.any(lengths >= _LENGTH_LIMIT):
        raise CommandError(
            f"the weights of {ids[int(np.argmax(lengths))]!r} add up to {lengths.max():,}; CIFF holds up to 2^31 - 1"
        )
    return lengths


def _by_term(blocks: list[_Rows], vocabulary: int) -> _Postings:
    """Return the postings of *blocks* by term. The list is emptied on the way, so that memory does not hold all twice."""
    offsets = np.zeros(vocabulary + 1, np.int64)
    for _, terms, _ in blocks:
        offsets[1:] += np.bincount(terms, minlength=vocabulary)
    np.cumsum(offsets, out=offsets)
    wide = any(weights.dtype == np.uint32 for _, _, weights in blocks)
    docs, impacts = np.empty(offsets[-1], np.uint32), np.empty(offsets[-1], np.uint32 if wide else np.uint16)
    ends, first = offsets[:-1].copy(), 0
    blocks.reverse()
    while blocks:
        rows, terms, weights = blocks.pop()
        kernel.append_by_term(rows, terms, weights, first, ends, docs, impacts)
        first += len(rows) - 1
    return _Postings(offsets, docs, impacts)


def _write_list(file: BinaryIO, token: bytes, postings: _Postings, term: int) -> None:
    """Write the PostingsList of one term."""
    inside = slice(postings.offsets[term], postings.offsets[term + 1])
    docs, impacts = postings.docs[inside], postings.impacts[inside]
    target = np.empty(_POSTING * len(docs), np.uint8)
    size = kernel.encode_postings(docs, impacts, target)
    head = _bytes(1, token) + _number(2, len(docs)) + _number(3, int(impacts.sum(dtype=np.int64)))
    file.write(_varint(len(head) + size) + head)
    file.write(target[:size].data)


def _header(lists: int, lengths: NDArray[np.int64]) -> bytes:
    documents, total = len(lengths), int(lengths.sum())
    counts = (_VERSION, lists, documents, lists, documents, total)
    average = struct.pack("<d", total / documents) if total else b""
    message = b"".join(_number(field, value) for field, value in enumerate(counts, 1))
    message += (_varint(7 << 3 | _DOUBLE) + average) if average else b""
    return _delimited(message + _bytes(8, _DESCRIPTION))


def _varint(number: int) -> bytes:
    """Return *number* with seven bits per byte, the lowest first."""
    parts = bytearray()
    while number > 0x7F:  # noqa: PLR2004
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _number(field: int, value: int) -> bytes:
    """Return a field with a number; protobuf leaves out a field that is 0."""
    return _varint(field << 3 | _NUMBER) + _varint(value) if value else b""


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(value)) + value if value else b""


def _delimited(message: bytes) -> bytes:
    return _varint(len(message)) + message
