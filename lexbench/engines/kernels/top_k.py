"""What exact engines share: refusing queries that do not fit, and the best k of many scores, ties to the lower position."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import LexbenchError
from lexbench.types import Hits


def same_width(queries: int, index: int, unit: str = "terms") -> None:
    """Raise LexbenchError unless query vectors are as wide as those of the index, in *unit*."""
    if queries != index:
        raise LexbenchError(f"the queries have {queries:,} {unit} and the index has {index:,}; encode both with one encoder")


def one_width(engine: str, known: int, width: int) -> int:
    """Return *width*, of the next shard; LexbenchError where the shards before had another, *known*, which is 0 at first."""
    if known not in {0, width}:
        raise LexbenchError(f"{engine} got vectors of {known:,} dimensions and of {width:,}; use one encoder")
    return width


def all_finite(vectors: NDArray[Any], what: str) -> None:
    """Raise LexbenchError, naming *what* one of them is, unless *vectors* (n, dimensions) are finite numbers."""
    finite = np.isfinite(vectors)
    if not finite.all():
        row, column = np.argwhere(~finite)[0].tolist()
        raise LexbenchError(
            f"{what} has {vectors[row, column]} at dimension {column}, which is no finite {vectors.dtype} number; "
            "mend the encoder, or store its vectors in a wider type"
        )


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
