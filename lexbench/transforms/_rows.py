"""What transforms of sparse vectors share: one form of matrix, and leaving entries out of it."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def canonical(vectors: sparse.csr_array) -> sparse.csr_array:
    """Return *vectors* (n, width) as float32, columns ascending in each row, each once, without zeros; never changed in place.

    What is in that form already, as everything from the store is, is returned itself.
    """
    if vectors.dtype == np.float32 and vectors.has_canonical_format and vectors.data.all():
        return vectors
    matrix = sparse.csr_array(vectors, copy=True)
    matrix.data = matrix.data.astype(np.float32)
    matrix.sum_duplicates()  # sorts, too
    matrix.eliminate_zeros()
    return matrix


def filtered(matrix: sparse.csr_array, values: NDArray[np.float32], kept: NDArray[np.bool_]) -> sparse.csr_array:
    """Return *matrix* with *values* (nonzeros,) for its own, and only those entries for which *kept* (nonzeros,) is true."""
    before = np.zeros(len(kept) + 1, matrix.indptr.dtype)
    np.cumsum(kept, out=before[1:])
    return sparse.csr_array((values[kept], matrix.indices[kept], before[matrix.indptr]), shape=matrix.shape)
