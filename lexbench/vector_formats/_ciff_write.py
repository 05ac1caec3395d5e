"""Writing the Common Index File Format."""

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import CommandError
from lexbench.storage.atomic import writer
from lexbench.vector_formats import _ciff_kernel as kernel
from lexbench.vector_formats.blocks import Block, Vocabulary, checked

_Rows: TypeAlias = tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]  # offsets, terms and weights of a block

VERSION = 1
_DESCRIPTION = b"impacts of sparse vectors, written by lexbench"
_NUMBER, _DOUBLE, _BYTES = 0, 1, 2  # how protobuf writes a field
_POSTING = 14  # bytes that one can take
_LENGTH_LIMIT = 2**31
_NARROW = 1 << 16


class _Postings(NamedTuple):
    """Postings by term: those of term t are docs[offsets[t]:offsets[t + 1]]."""

    offsets: NDArray[np.int64]
    docs: NDArray[np.uint32]
    impacts: NDArray[Any]


def write(blocks: Iterable[Block], path: Path, vocabulary: Vocabulary) -> None:
    """Write the documents of *blocks*, compressed if *path* ends in `.gz`; all their postings are in memory meanwhile.

    That takes 10 bytes a posting where terms and weights fit 16 bits, and 16 bytes otherwise. CommandError for weights that
    are not whole, and for a document whose weights add up to 2^31 or more.
    """
    ids: list[str] = []
    kept: list[_Rows] = []
    for block in checked(blocks, vocabulary, "CIFF"):
        ids += block.ids
        terms = block.vectors.indices.astype(np.uint16 if block.vectors.shape[1] <= _NARROW else np.uint32)
        weights = block.vectors.data.astype(np.uint16 if block.vectors.data.max(initial=0) < _NARROW else np.uint32)
        kept.append((block.vectors.indptr.astype(np.int64), terms, weights))
    lengths = _lengths(ids, kept)
    postings = _by_term(kept, len(vocabulary))
    tokens = vocabulary.tokens
    used = sorted((tokens[term].encode(), term) for term in np.flatnonzero(np.diff(postings.offsets)).tolist())
    with writer(path) as file:
        file.write(_header(len(used), lengths))
        for token, term in used:
            _write_list(file, token, postings, term)
        for number, (text_id, length) in enumerate(zip(ids, lengths.tolist(), strict=True)):
            name = text_id.encode()
            file.write(_delimited(_number(1, number) + _bytes(2, name) + _number(3, length)))


def _lengths(ids: list[str], kept: list[_Rows]) -> NDArray[np.int64]:
    """Return the sum of the weights of each document (documents,)."""
    sums = [np.diff(np.append(0, np.cumsum(weights, dtype=np.int64))[offsets]) for offsets, _, weights in kept]
    lengths = np.concatenate([np.zeros(0, np.int64), *sums])
    if np.any(lengths >= _LENGTH_LIMIT):
        raise CommandError(
            f"the weights of {ids[int(np.argmax(lengths))]!r} add up to {lengths.max():,}; CIFF holds up to 2^31 - 1"
        )
    return lengths


def _by_term(kept: list[_Rows], vocabulary: int) -> _Postings:
    """Return the postings by term of what *kept* holds by document, which is emptied as it goes."""
    offsets = np.zeros(vocabulary + 1, np.int64)
    for _, terms, _ in kept:
        offsets[1:] += np.bincount(terms, minlength=vocabulary)
    np.cumsum(offsets, out=offsets)
    wide = any(weights.dtype == np.uint32 for _, _, weights in kept)
    docs, impacts = np.empty(offsets[-1], np.uint32), np.empty(offsets[-1], np.uint32 if wide else np.uint16)
    ends, first = offsets[:-1].copy(), 0
    kept.reverse()
    while kept:
        rows, terms, weights = kept.pop()
        kernel.scatter(rows, terms, weights, first, ends, docs, impacts)
        first += len(rows) - 1
    return _Postings(offsets, docs, impacts)


def _write_list(file: BinaryIO, token: bytes, postings: _Postings, term: int) -> None:
    inside = slice(postings.offsets[term], postings.offsets[term + 1])
    docs, impacts = postings.docs[inside], postings.impacts[inside]
    target = np.empty(_POSTING * len(docs), np.uint8)
    size = kernel.encode(docs, impacts, target)
    head = _bytes(1, token) + _number(2, len(docs)) + _number(3, int(impacts.sum(dtype=np.int64)))
    file.write(_varint(len(head) + size) + head)
    file.write(target[:size].data)


def _header(lists: int, lengths: NDArray[np.int64]) -> bytes:
    documents, total = len(lengths), int(lengths.sum())
    counts = (VERSION, lists, documents, lists, documents, total)
    average = struct.pack("<d", total / documents) if total else b""
    message = b"".join(_number(field, value) for field, value in enumerate(counts, 1))
    message += (_varint(7 << 3 | _DOUBLE) + average) if average else b""
    return _delimited(message + _bytes(8, _DESCRIPTION))


def _varint(number: int) -> bytes:
    """Return *number* seven bits a byte, the lowest first."""
    parts = bytearray()
    while number > 0x7F:  # noqa: PLR2004
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _number(field: int, value: int) -> bytes:
    """Return a field that holds a number; protobuf leaves out those that are 0."""
    return _varint(field << 3 | _NUMBER) + _varint(value) if value else b""


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(value)) + value if value else b""


def _delimited(message: bytes) -> bytes:
    return _varint(len(message)) + message
