"""The compiled loop of `maxsim`: from the dot products of tokens to the scores of documents."""

import numpy as np
from numba import njit


@njit("(float32[:, ::1], int64[::1], int64[::1], float32[::1], float32[:, :])", nogil=True, cache=True)
def sums_of_maxima(products, documents, queries, best, scores):  # type: ignore[no-untyped-def]
    """Fill *scores* (queries, documents): for each token of a query the largest product with a document's, added up.

    *products* (tokens of documents, tokens of queries) float32; *documents* and *queries* are offsets into its rows and
    columns. The score of a document, or of a query, without tokens is left as it is. *best* has room for a row.
    The types are given, so that importing this module compiles it, if this machine never has.
    """
    for document in range(len(documents) - 1):
        start, stop = documents[document], documents[document + 1]
        if start == stop:
            continue
        best[:] = products[start]
        for token in range(start + 1, stop):
            row = products[token]
            for at in range(len(best)):  # no branch: this becomes a vector instruction
                best[at] = max(best[at], row[at])
        for query in range(len(queries) - 1):
            if queries[query] < queries[query + 1]:
                total = 0.0  # in float64, so that the order of the tokens hardly matters
                for at in range(queries[query], queries[query + 1]):
                    total += best[at]
                scores[query, document] = np.float32(total)
