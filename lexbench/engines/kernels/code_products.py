"""Scores of codes of dense vectors, exact: Hamming distances of bits, and products of whole numbers.

For `flat` and for scoring given documents. Raw scores are whole numbers in float32; `scored` makes scores of vectors from them.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexbench.engines.kernels.checks import same_width
from lexbench.types import Codes

_EXACT = 1024  # dimensions of int8 whose products add up to less than 2**24, so that float32 is exact
_WORD = 8  # bytes


def raw_scores(queries: Codes, documents: NDArray[Any]) -> NDArray[np.float32]:
    """Return the whole-number scores (queries, documents) of codes of one form; larger is nearer.

    Of bits it is the Hamming distance below 0, of int8 the dot product, which float32 holds exactly up to 2**24. Raises
    LexbenchError for codes of different widths.
    """
    same_width(queries.values.shape[1], documents.shape[1], "bytes")
    return _distances(queries.values, documents) if queries.of_bits else _products(queries.values, documents)


def _distances(queries: NDArray[np.uint8], documents: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the numbers of different bits, below 0, a word of each code at a time."""
    asked, found = _words(queries), _words(documents)
    different = np.zeros((len(queries), len(documents)), np.int32)
    for word in range(len(asked)):
        different += np.bitwise_count(asked[word][:, None] ^ found[word][None, :])
    return -different.astype(np.float32)


def _words(codes: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return *codes* (n, bytes) as (words, n), filled with zeros."""
    filled = np.zeros((len(codes), -(-codes.shape[1] // _WORD) * _WORD), np.uint8)
    filled[:, : codes.shape[1]] = codes
    return np.ascontiguousarray(filled.view(np.uint64).T)


def _products(queries: NDArray[np.int8], documents: NDArray[np.int8]) -> NDArray[np.float32]:
    """Return the dot products; BLAS multiplies floats much faster than NumPy whole numbers."""
    total = np.zeros((len(queries), len(documents)), np.float64)
    for first in range(0, queries.shape[1], _EXACT):
        part = slice(first, first + _EXACT)
        total += queries[:, part].astype(np.float32) @ documents[:, part].astype(np.float32).T
    return total.astype(np.float32)


def scored(queries: Codes, raw: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the scores for *raw* ones (queries, n): of bits the product of signs, of int8 that of what codes stand for."""
    if queries.of_bits:
        return queries.dimensions + 2 * raw
    assert queries.scales is not None and queries.offsets is not None  # noqa: PT018 - `Int8.query` gives both
    return np.asarray(raw * queries.scales[:, None] + queries.offsets[:, None], np.float32)


def source_scores(queries: Codes, documents: NDArray[Any]) -> NDArray[np.float32]:
    """Return the scores (queries, documents) of *documents* (n, dimensions), float or int8, for the source of *queries*."""
    source = queries.source
    if isinstance(source, Codes):
        return scored(source, raw_scores(source, documents))
    return np.asarray(np.asarray(source, np.float32) @ documents.astype(np.float32).T)
