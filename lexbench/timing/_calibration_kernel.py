"""The compiled part of the calibration: adding up impacts, as sparse engines do."""

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(nogil=True, cache=True)
def scatter(docs: NDArray[np.int32], weights: NDArray[np.uint8], sums: NDArray[np.int32]) -> None:
    """Add *weights* (postings,) to the *sums* of *docs* (postings,)."""
    for i in range(len(docs)):
        sums[docs[i]] += weights[i]
