"""Vectors of any kind, text by text and as bytes, for the contract tests that compare them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench.types import MultiVectors

_ROUNDING = 1e-4  # what other batches may change, relative or absolute


def rows(vectors: Any) -> list[NDArray[np.float32]]:
    """Return one array a text: its vector, or the vectors of its tokens."""
    if isinstance(vectors, MultiVectors):
        return [vectors.values[start:stop] for start, stop in zip(vectors.offsets[:-1], vectors.offsets[1:], strict=True)]
    return list(vectors.toarray() if isinstance(vectors, sparse.csr_array) else vectors)


def content(vectors: Any) -> list[bytes]:
    """Return the bytes of vectors."""
    arrays: list[NDArray[Any]]
    match vectors:
        case MultiVectors():
            arrays = [vectors.values, vectors.offsets]
        case sparse.csr_array():
            arrays = [vectors.data, vectors.indices, vectors.indptr]
        case _:
            arrays = [vectors]
    return [array.tobytes() for array in arrays]


def close(vectors: Sequence[NDArray[np.float32]], expected: Sequence[NDArray[np.float32]]) -> bool:
    """Return whether `rows` are equal but for rounding."""
    return len(vectors) == len(expected) and all(
        row.shape == other.shape and np.allclose(row, other, rtol=_ROUNDING, atol=_ROUNDING)
        for row, other in zip(vectors, expected, strict=True)
    )
