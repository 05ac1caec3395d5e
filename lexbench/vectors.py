"""Vectors in memory, of all three kinds: their kind, joining them, taking rows, and the canonical form of sparse ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from lexbench.errors import LexbenchError
from lexbench.types import Kind, MultiVectors


def kind_of(vectors: Any) -> Kind:
    """Return the kind of *vectors*. Raises LexbenchError if an encoder returned something else."""
    if scipy.sparse.issparse(vectors):
        return Kind.SPARSE
    if isinstance(vectors, MultiVectors):
        return Kind.MULTI
    if isinstance(vectors, np.ndarray) and vectors.ndim == 2:  # noqa: PLR2004 - a matrix
        return Kind.DENSE
    raise LexbenchError(
        f"an encoder returned {type(vectors).__name__}; it must be a scipy.sparse matrix, a 2-d numpy array or MultiVectors"
    )


def stacked(blocks: Sequence[Any]) -> Any:
    """Return *blocks*, each the vectors of one batch of texts, joined in order; there is at least one."""
    kind = kind_of(blocks[0])
    if kind is Kind.SPARSE:
        return scipy.sparse.vstack(blocks, format="csr")
    if kind is Kind.DENSE:
        return np.concatenate(blocks)
    counts = np.concatenate([np.diff(block.offsets) for block in blocks])
    return MultiVectors(np.concatenate([block.values for block in blocks]), offsets_of(counts))


def rows_of(vectors: MultiVectors, rows: NDArray[np.integer[Any]]) -> MultiVectors:
    """Return the vectors of the texts *rows* (n,), in that order; no others are read if *vectors* are memory-mapped."""
    offsets = offsets_of(np.diff(vectors.offsets)[rows])
    return MultiVectors(vectors.values[ranges(vectors.offsets[rows], offsets)], offsets)


def offsets_of(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the offsets (n + 1,) of consecutive ranges of *counts* (n,) elements: the starts, and the end of the last."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def ranges(starts: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of n ranges, joined: range i begins at starts[i] and has offsets[i + 1] - offsets[i] indices."""
    return np.repeat(starts - offsets[:-1], np.diff(offsets)) + np.arange(offsets[-1])


def canonical(vectors: "scipy.sparse.csr_array") -> "scipy.sparse.csr_array":
    """Return *vectors* (n, width) as float32, columns ascending in each row, each once, without stored zeros.

    Vectors in this form, e.g. all from the store, are returned unchanged; others are copied, never changed in place.
    """
    if vectors.dtype == np.float32 and vectors.has_canonical_format and vectors.data.all():
        return vectors
    matrix = scipy.sparse.csr_array(vectors, copy=True)
    matrix.data = matrix.data.astype(np.float32)
    matrix.sum_duplicates()  # also sorts
    matrix.eliminate_zeros()
    return matrix


def select_entries(
    matrix: "scipy.sparse.csr_array", values: NDArray[np.float32], mask: NDArray[np.bool_]
) -> "scipy.sparse.csr_array":
    """Return the entries of *matrix* for which *mask* (nonzeros,) is true, with *values* (nonzeros,) in place of its own."""
    before = np.zeros(len(mask) + 1, matrix.indptr.dtype)
    np.cumsum(mask, out=before[1:])
    return scipy.sparse.csr_array((values[mask], matrix.indices[mask], before[matrix.indptr]), shape=matrix.shape)
