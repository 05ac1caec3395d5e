"""MaxSim scores of any documents for any queries: a matrix product of their tokens, and a compiled loop that sums it up.

Importing this module compiles the loop, if this machine never has.
"""

from collections.abc import Iterator

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lexbench.engines.kernels.checks import same_width
from lexbench.types import MultiVectors

_PRODUCTS = 1 << 22  # at a time: 16 MB


def max_sim_scores(queries: MultiVectors, documents: MultiVectors) -> NDArray[np.float32]:
    """Return scores (queries, documents); -inf where a document, or a query, has no token and so nothing matches.

    LexbenchError where the vectors of the two are not of one width.
    """
    scores = np.full((queries.shape[0], documents.shape[0]), -np.inf, np.float32)
    if not (len(queries.values) and len(documents.values)):
        return scores
    same_width(queries.shape[1], documents.shape[1], "dimensions")
    largest, tokens = np.empty(len(queries.values), np.float32), queries.offsets.astype(np.int64)
    for first, last in pieces(documents.offsets, _PRODUCTS // len(queries.values)):
        offsets = documents.offsets[first : last + 1]
        products = np.ascontiguousarray(documents.values[offsets[0] : offsets[-1]] @ queries.values.T)
        _sums_of_maxima(products, offsets - offsets[0], tokens, largest, scores[:, first:last])
    return scores


def pieces(offsets: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of texts that have at most *most* tokens together; a text that has more alone is a range of its own."""
    first, texts = 0, len(offsets) - 1
    while first < texts:
        last = max(first + 1, int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1)
        yield first, last
        first = last


@njit("(float32[:, ::1], int64[::1], int64[::1], float32[::1], float32[:, :])", nogil=True, cache=True)
def _sums_of_maxima(products, documents, queries, largest, scores):  # type: ignore[no-untyped-def]
    """Fill *scores* (queries, documents): for each token of a query the largest product with a document's, added up.

    *products* (tokens of documents, tokens of queries) float32; *documents* and *queries* are offsets into its rows and
    columns. The score of a document, or of a query, without tokens is left as it is. *largest* has room for a row.
    """
    for document in range(len(documents) - 1):
        start, stop = documents[document], documents[document + 1]
        if start == stop:
            continue
        largest[:] = products[start]
        for token in range(start + 1, stop):
            row = products[token]
            for at in range(len(largest)):  # no branch: this becomes a vector instruction
                largest[at] = max(largest[at], row[at])
        for query in range(len(queries) - 1):
            if queries[query] < queries[query + 1]:
                total = 0.0  # in float64, so that the order of the tokens hardly matters
                for at in range(queries[query], queries[query + 1]):
                    total += largest[at]
                scores[query, document] = np.float32(total)
