"""How much of an exact search an approximate one found."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexbench.types import Hits


def overlap(
    shards: Iterable[NDArray[Any]], queries: NDArray[np.float32], hits: Hits, depths: Sequence[int] = (10, 100)
) -> dict[int, float]:
    """Return the mean share of the exact best k that the first k of *hits* contain, for each k of *depths*.

    *shards* (n, dimensions) are the vectors of all documents in order of position, read once; *queries* (queries, dimensions)
    are those that *hits* answer. A hit counts if its true product reaches the k-th of the exact ones, so that of equals any
    will do. k is the number of documents where that is less; without queries or documents nothing is missing: 1.

    As much work as an exact search of *queries*, of which a sample may do. Memory: products by the tile, and 16 bytes x
    queries x the largest k. LexbenchError for shards of another width than the queries.
    """
    from lexbench.engines.kernels.flat_best import Best
    from lexbench.engines.kernels.flat_products import tiles

    found = hits.docs[:, : max(depths)]
    true = np.full(found.shape, -np.inf, np.float32)
    exact, documents = Best(len(found), max(depths)), 0
    for query, position, products in tiles(shards, queries):
        exact.add(products, position, query)
        own = found[query : query + len(products)]
        row, rank = np.nonzero((own >= position) & (own < position + products.shape[1]))
        true[query + row, rank] = products[row, own[row, rank] - position]
        documents = position + products.shape[1]
    scores = exact.hits().scores
    if not len(found) or not documents:
        return dict.fromkeys(depths, 1.0)
    return {k: _share(true[:, :k], scores[:, min(k, documents) - 1]) / min(k, documents) for k in depths}


def _share(true: NDArray[np.float32], least: NDArray[np.float32]) -> float:
    """Return how many scores of a row of *true* (queries, k) reach its *least* (queries,), on average."""
    return float((true >= least[:, None]).sum(axis=1).mean())
