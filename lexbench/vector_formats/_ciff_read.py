"""Reading the Common Index File Format."""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import CommandError, InvalidFile
from lexbench.vector_formats import _ciff_kernel as kernel
from lexbench.vector_formats._ciff_write import VERSION
from lexbench.vector_formats.blocks import ROWS, Block, Vocabulary, made

_NUMBER = 0  # how protobuf writes a number
_START, _TERM, _TERM_STOP, _DF, _CF, _COUNT = 0, 2, 3, 4, 5, 6  # what `kernel.scan` finds


def read(path: Path, vocabulary: Vocabulary | None = None) -> Iterator[Block]:
    """Yield the documents of a file, in the order of its DocRecords; their postings are all in memory, 8 bytes each.

    *vocabulary* numbers the tokens, and may be one that grows. A compressed file is unpacked in memory. InvalidFile says what
    is wrong, and at which byte.
    """
    known = Vocabulary() if vocabulary is None else vocabulary
    file = _File(path, _content(path))
    lists, records = file.messages()
    ids = [file.text(start, stop) for start, stop in records[:, 1:3].tolist()]
    numbers = _terms(file, lists, known)
    offsets, terms, weights = _by_document(_Lists(file, lists, records[:, 0]), numbers)
    for first in range(0, len(ids), ROWS):
        rows = offsets[first : first + ROWS + 1]
        inside = slice(int(rows[0]), int(rows[-1]))
        yield made(ids[first : first + ROWS], weights[inside], terms[inside], rows - rows[0], len(known))


def _content(path: Path) -> NDArray[np.uint8]:
    try:
        if path.suffix == ".gz":
            return np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8)
        return np.asarray(np.memmap(path, np.uint8, "r"))
    except (OSError, EOFError, ValueError, zlib.error) as error:  # ValueError: an empty file cannot be mapped
        raise InvalidFile(f"{path}: {getattr(error, 'strerror', None) or error}") from None


@dataclass(frozen=True)
class _File:
    path: Path
    content: NDArray[np.uint8]

    def wrong(self, place: int, what: str) -> InvalidFile:
        """Return the error that something at a byte does not read."""
        return InvalidFile(f"{self.path}: at byte {place}: {what}")

    def text(self, start: int, stop: int) -> str:
        """Return the string of some bytes."""
        try:
            return self.content[start:stop].tobytes().decode()
        except UnicodeDecodeError as error:
            raise self.wrong(start, str(error)) from None

    def messages(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where every PostingsList and every DocRecord is, as the kernel describes them."""
        counts, place = self._header()
        lists, records = np.zeros((counts[0], 7), np.int64), np.zeros((counts[1], 4), np.int64)
        for what, found, scan in (("PostingsList", lists, kernel.scan), ("DocRecord", records, kernel.records)):
            place, count = scan(self.content, place, found)
            if count < len(found):
                raise self.wrong(place, f"{what} {count + 1:,} of {len(found):,} is cut off or does not read")
        if place != len(self.content):
            raise self.wrong(place, f"{len(self.content) - place:,} bytes after the last message")
        return lists, records

    def _header(self) -> tuple[tuple[int, int], int]:
        """Return the numbers of lists and of documents, and where the first list starts."""
        size, place = kernel.varint(self.content, 0, len(self.content))
        stop, numbers = place + size, {}
        readable = place >= 0 and 0 <= size <= len(self.content) - place
        while readable and place < stop:
            number, kind, value, place = kernel.field(self.content, place, stop)
            readable = place >= 0
            if kind == _NUMBER:
                numbers[number] = value
        lists, documents = numbers.get(2, 0), numbers.get(3, 0)
        possible = range(len(self.content) + 1)  # a message takes a byte at least
        if not readable or numbers.get(1) != VERSION or lists not in possible or documents not in possible:
            raise self.wrong(0, f"no CIFF header of version {VERSION}")
        return (lists, documents), stop


def _terms(file: _File, lists: NDArray[np.int64], vocabulary: Vocabulary) -> NDArray[np.int64]:
    """Return the term id of each list (lists,)."""
    tokens = [file.text(start, stop) for start, stop in lists[:, _TERM : _TERM_STOP + 1].tolist()]
    try:
        numbers = np.array(vocabulary.numbers(tokens), np.int64)
    except CommandError as error:
        raise InvalidFile(f"{file.path}: {error}") from None
    once = np.unique(numbers, return_index=True)[1]
    if len(once) < len(numbers):
        twice = int(np.setdiff1d(np.arange(len(numbers)), once)[0])
        raise file.wrong(int(lists[twice, _START]), f"a second list of the term {tokens[twice]!r}")
    return numbers


class _Lists:
    """The postings of each list, with documents as rows."""

    def __init__(self, file: _File, found: NDArray[np.int64], docids: NDArray[np.int64]) -> None:
        self.file, self.found, self.documents = file, found, len(docids)
        self.order = np.argsort(docids, kind="stable")
        self.docids = docids[self.order]
        if np.any(self.docids[1:] == self.docids[:-1]):
            raise InvalidFile(f"{file.path}: two documents have one number")
        self.plain = np.array_equal(docids, np.arange(len(docids)))  # as everyone writes them: numbers are rows

    def read(self, place: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows and weights of the postings of one list."""
        entry = self.found[place]
        docs, weights = np.empty(entry[_COUNT], np.int64), np.empty(entry[_COUNT], np.int64)
        wrong = kernel.decode(self.file.content, entry[0], entry[1], docs, weights)
        if wrong >= 0:
            raise self.file.wrong(wrong, "a posting does not read: numbers of documents ascend, and weights are from 1")
        if entry[_DF] != len(docs) or entry[_CF] != weights.sum():
            counts = f"df {entry[_DF]:,} and cf {entry[_CF]:,}, not {len(docs):,} and {weights.sum():,}"
            raise self.file.wrong(int(entry[_START]), f"the list says {counts}")
        if not np.array_equal(weights.astype(np.float32), weights):
            raise self.file.wrong(int(entry[_START]), "the list has a weight that float32 does not hold")
        return self._rows(docs, int(entry[_START])), weights

    def _rows(self, docs: NDArray[np.int64], place: int) -> NDArray[np.int64]:
        if self.plain:
            known, rows = docs < self.documents, docs
        else:
            places = np.minimum(np.searchsorted(self.docids, docs), self.documents - 1)
            known, rows = self.docids[places] == docs, self.order[places]
        if not known.all():
            raise self.file.wrong(place, f"the list has document {docs[np.argmin(known)]}, which has no DocRecord")
        return rows


def _by_document(lists: _Lists, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Return offsets, terms and weights of a matrix, terms ascending in each row. Lists are read twice."""
    offsets = np.zeros(lists.documents + 1, np.int64)
    for place in range(len(numbers)):
        kernel.count(lists.read(place)[0], offsets)
    np.cumsum(offsets, out=offsets)
    terms, weights, ends = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.float32), offsets[:-1].copy()
    for place in np.argsort(numbers).tolist():
        rows, values = lists.read(place)
        kernel.gather(rows, values, numbers[place], ends, terms, weights)
    return offsets, terms, weights
