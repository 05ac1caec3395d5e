"""What exact engines share: refusing queries that do not fit, and the best k of many scores, ties to the lower position."""

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import LexbenchError
from lexbench.types import Hits


def same_width(queries: int, index: int) -> None:
    """Raise LexbenchError unless query vectors are as wide as those of the index."""
    if queries != index:
        raise LexbenchError(f"the queries have {queries:,} terms and the index has {index:,}; encode both with one encoder")


def best_of_row(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the positions of the *k* largest of *scores* (n,), best first, equal ones in ascending position."""
    if k < len(scores):
        threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
        above = np.flatnonzero(scores > threshold)
        level = np.flatnonzero(scores == threshold)[: k - len(above)]
        chosen = np.concatenate([above, level])
    else:
        chosen = np.arange(len(scores))
    return chosen[np.lexsort((chosen, -scores[chosen]))]


def no_hits(queries: int, k: int) -> Hits:
    """Return hits (queries, k) in which nothing has been found yet."""
    return Hits(np.full((queries, k), -1, np.int32), np.full((queries, k), -np.inf, np.float32))


def merged(first: Hits, second: Hits, k: int) -> Hits:
    """Return the best *k* of both; every position in *first* is lower than every one in *second*, so it wins ties."""
    docs = np.concatenate([first.docs, second.docs], axis=1)
    scores = np.concatenate([first.scores, second.scores], axis=1)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return Hits(np.take_along_axis(docs, order, axis=1), np.take_along_axis(scores, order, axis=1))
