"""MaxSim scores of any documents for any queries: a matrix product of their tokens, and a compiled loop that sums it up."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lexbench.engines.kernels.top_k import same_width
from lexbench.types import MultiVectors

_PRODUCTS = 1 << 22  # at a time: 16 MB


def scores_of(queries: MultiVectors, documents: MultiVectors) -> NDArray[np.float32]:
    """Return scores (queries, documents); -inf where a document, or a query, has no token and so nothing matches.

    LexbenchError where the vectors of the two are not of one width.
    """
    from lexbench.engines.kernels.maxsim_kernel import sums_of_maxima

    scores = np.full((queries.shape[0], documents.shape[0]), -np.inf, np.float32)
    if not (len(queries.values) and len(documents.values)):
        return scores
    same_width(queries.shape[1], documents.shape[1], "dimensions")
    best, tokens = np.empty(len(queries.values), np.float32), queries.offsets.astype(np.int64)
    for first, last in pieces(documents.offsets, _PRODUCTS // len(queries.values)):
        offsets = documents.offsets[first : last + 1]
        products = np.ascontiguousarray(documents.values[offsets[0] : offsets[-1]] @ queries.values.T)
        sums_of_maxima(products, offsets - offsets[0], tokens, best, scores[:, first:last])
    return scores


def pieces(offsets: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of texts that have at most so many tokens together; one that has more alone is a range of its own."""
    first, texts = 0, len(offsets) - 1
    while first < texts:
        last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1)
        yield first, last
        first = last
