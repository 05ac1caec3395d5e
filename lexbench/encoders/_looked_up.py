"""The terms of queries whose tokens are looked up in a table: one compiled loop, because a query has few tokens.

A dozen calls of numpy took more than half of the time of a single query.
"""

from typing import Any

import numpy as np

from lexbench.compiling.loops import njit


@njit(nogil=True, cache=True)
def looked_up(ids, ends, weights, starts, terms, factors) -> Any:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Return the vectors of queries as parts of a CSR matrix: values float32, terms ascending, and offsets (queries + 1,).

    *ids* are the tokens of all queries, and *ends* (queries,) where those of each end. Each token counts once, with its weight
    in *weights* (tokens,), and adds the terms of its row of a CSR matrix (*starts*, *terms*, *factors*), each times its weight.
    The weights of a term are added up.
    """
    most = 0
    for token in ids:
        most += starts[token + 1] - starts[token]
    offsets = np.zeros(len(ends) + 1, np.int32)
    found, sums = np.empty(most, np.int32), np.empty(most, np.float32)
    keys, added = np.empty(most, np.int64), np.empty(most, np.float32)  # of one query
    begin = size = 0
    for query in range(len(ends)):
        tokens = np.sort(ids[begin : ends[query]])
        begin = ends[query]
        # What the tokens add, and keys that order it by term and then by token.
        count = 0
        for i in range(len(tokens)):
            token = tokens[i]
            if (i and tokens[i - 1] == token) or not weights[token] > 0:
                continue
            for place in range(starts[token], starts[token + 1]):
                keys[count] = np.int64(terms[place]) * most + count
                added[count] = weights[token] * factors[place]
                count += 1
        ordered = np.sort(keys[:count])
        at = 0
        while at < count:
            term, total = ordered[at] // most, 0.0
            while at < count and ordered[at] // most == term:
                total += added[ordered[at] % most]
                at += 1
            found[size], sums[size] = term, total
            size += 1
        offsets[query + 1] = size
    return sums[:size], found[:size], offsets
