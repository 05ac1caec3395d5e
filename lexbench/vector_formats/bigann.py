"""Vectors in the `.csr` files of the big-ann benchmarks' sparse track: the arrays of one CSR matrix, little-endian.

    int64   rows, columns, nonzeros
    int64   offsets (rows + 1,)
    int32   terms (nonzeros,)
    float32 weights (nonzeros,)

https://big-ann-benchmarks.com/neurips23.html. Lost: ids, so a row's number from 0 is its id when it is read; and the strings of
the tokens, so a vocabulary only gives the number of columns.
"""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import InvalidFile
from lexbench.storage.atomic import atomic_path
from lexbench.vector_formats.blocks import ROWS, Block, Vocabulary, block_of, checked

_HEADER = 24  # bytes
_TERM_LIMIT = 2**31


class _Arrays(NamedTuple):
    """The parts of a file, mapped into memory."""

    columns: int
    offsets: NDArray[np.int64]
    terms: NDArray[np.int32]
    weights: NDArray[np.float32]


def read(path: Path, vocabulary: Vocabulary | None = None) -> Iterator[Block]:
    """Yield the vectors of a file, which is mapped into memory; as wide as a *vocabulary* that does not grow, else as the file.

    InvalidFile says what is wrong, and at which byte.
    """
    arrays = _mapped(path)
    width = arrays.columns
    if vocabulary is not None and not vocabulary.grows:
        if arrays.columns > len(vocabulary):
            raise InvalidFile(f"{path}: {arrays.columns:,} columns, and the vocabulary has {len(vocabulary):,} tokens")
        width = len(vocabulary)
    for first in range(0, len(arrays.offsets) - 1, ROWS):
        offsets = np.array(arrays.offsets[first : first + ROWS + 1])
        inside = slice(int(offsets[0]), int(offsets[-1]))
        terms, weights = np.array(arrays.terms[inside]), np.array(arrays.weights[inside])
        _refuse(
            path, (terms < 0) | (terms >= arrays.columns), _place(arrays, 0, inside.start), "the term {} is no column", terms
        )
        _refuse(path, ~np.isfinite(weights), _place(arrays, 1, inside.start), "the weight {} is no number", weights)
        ids = [str(row) for row in range(first, first + len(offsets) - 1)]
        yield block_of(ids, weights, terms, offsets - offsets[0], width)


def _mapped(path: Path) -> _Arrays:
    """Return the arrays of a file; InvalidFile where its header and its size, or its offsets, do not fit."""
    if path.suffix == ".gz":
        raise InvalidFile(f"{path}: such a file is mapped into memory, so it cannot stay compressed; type: gunzip -k {path}")
    try:
        size = path.stat().st_size
        if size < _HEADER:
            raise InvalidFile(f"{path}: {size} bytes, and the header alone has {_HEADER}")
        content = np.memmap(path, np.uint8, "r")
    except OSError as error:
        raise InvalidFile(f"{path}: {error.strerror or error}") from None
    rows, columns, count = content[:_HEADER].view("<i8").tolist()
    expected = _HEADER + 8 * (rows + 1) + 8 * count
    if min(rows, columns, count) < 0 or columns > _TERM_LIMIT or size != expected:
        raise InvalidFile(
            f"{path}: at byte 0: {rows:,} rows, {columns:,} columns and {count:,} weights are no file of {size:,} bytes"
        )
    terms = _HEADER + 8 * (rows + 1)
    offsets = content[_HEADER:terms].view("<i8")
    falls = np.flatnonzero(offsets[1:] < offsets[:-1])
    if offsets[0] != 0 or offsets[-1] != count or len(falls):
        row = int(falls[0]) + 1 if len(falls) else 0 if offsets[0] else rows
        raise InvalidFile(f"{path}: at byte {_HEADER + 8 * row}: the offsets do not ascend from 0 to {count:,}")
    return _Arrays(columns, offsets, content[terms : terms + 4 * count].view("<i4"), content[terms + 4 * count :].view("<f4"))


def _place(arrays: _Arrays, array: int, entry: int) -> int:
    """Return at which byte an entry of the terms (0) or the weights (1) stands."""
    return _HEADER + 8 * len(arrays.offsets) + 4 * (array * len(arrays.terms) + entry)


def _refuse(path: Path, wrong: NDArray[np.bool_], start: int, message: str, values: NDArray[np.generic]) -> None:
    """Raise InvalidFile with *message* for the first of *values*, which start at byte *start*, that is *wrong*."""
    if wrong.any():
        first = int(np.argmax(wrong))
        raise InvalidFile(f"{path}: at byte {start + 4 * first}: {message.format(values[first])}")


def write(blocks: Iterable[Block], path: Path, vocabulary: Vocabulary) -> None:
    """Write the vectors of *blocks*, without their ids. That takes twice the file's size on the disk meanwhile."""
    counts, width = [np.zeros(1, np.int64)], 0
    with TemporaryFile(dir=path.parent) as terms, TemporaryFile(dir=path.parent) as weights:
        for block in checked(blocks, None if vocabulary.grows else vocabulary):
            counts.append(np.diff(block.vectors.indptr).astype(np.int64))
            width = max(width, block.vectors.shape[1])
            terms.write(block.vectors.indices.astype("<i4").tobytes())
            weights.write(block.vectors.data.astype("<f4").tobytes())
        offsets = np.cumsum(np.concatenate(counts))
        header = np.array([len(offsets) - 1, max(width, len(vocabulary)), offsets[-1]], "<i8")
        with atomic_path(path) as draft, draft.open("wb") as file:
            file.write(header.tobytes() + offsets.astype("<i8").tobytes())
            _append(terms, file)
            _append(weights, file)


def _append(source: BinaryIO, target: BinaryIO) -> None:
    source.seek(0)
    shutil.copyfileobj(source, target, 1 << 20)
