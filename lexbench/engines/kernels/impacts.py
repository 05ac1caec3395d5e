"""Quantised weights: what engines take that add whole numbers."""

import numpy as np
from scipy import sparse

from lexbench.errors import LexbenchError


def impacts(vectors: sparse.csr_array, engine: str, most: int = 65_535) -> sparse.csr_array:
    """Return *vectors* with int32 weights, columns ascending in each row, without stored zeros.

    LexbenchError, naming *engine*, unless every weight is a whole number from 0 to *most*.
    """
    matrix = sparse.csr_array(vectors, copy=True)
    wrong = (matrix.data < 0) | (matrix.data > most) | (matrix.data != np.floor(matrix.data))
    if wrong.any():
        raise LexbenchError(
            f"{engine} takes whole weights from 0 to {most:,}, and there is {matrix.data[wrong][0]:g}; "
            f"quantise the vectors, as in encoder|quantize(100)@{engine}"
        )
    matrix.data = matrix.data.astype(np.int32)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix
