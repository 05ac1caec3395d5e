"""Exact lists from engines that order equal scores as they like: what ties with the last document is asked for, too."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench.engines.kernels.checks import fill
from lexbench.errors import LexbenchError
from lexbench.types import Hits

SPARE = 64  # documents asked for beyond k: most ties at the cut are among them
_EXACT = 1 << 24  # below, float32 has every whole number

Found = tuple[NDArray[np.int64], NDArray[np.float32]]  # positions and scores (n,), best first, of equal ones in any order
# Returns the best documents of a query: at most as many as the first says, none whose score is below the second, if given.
Ask = Callable[[int, float | None], Found]


def fill_exactly(hits: Hits, row: int, ask: Ask, documents: int) -> None:
    """Write into a row of *hits* the best of *documents*, of equal scores those of the lowest positions."""
    k = hits.docs.shape[1]
    asked = min(k + SPARE, documents)
    docs, scores = ask(asked, None)
    if k <= len(docs) == asked < documents and scores[-1] == scores[k - 1]:  # there may be more with the same score
        docs, scores = ask(documents, float(scores[k - 1]))
    fill(hits, row, docs, scores)


def largest_weights(known: NDArray[np.float32], shard: sparse.csr_array) -> NDArray[np.float32]:
    """Return the largest weight of each term (vocabulary,) in *shard*, or before it in *known*, which is empty at first."""
    largest = np.zeros(shard.shape[1], np.float32)
    np.maximum.at(largest, shard.indices, shard.data.astype(np.float32))
    return np.maximum(known, largest) if len(known) else largest


def sums_fit(queries: sparse.csr_array, largest: NDArray[np.float32], engine: str) -> None:
    """Raise LexbenchError where a query could have a score that float32, in which *engine* adds, does not have exactly."""
    most = queries.astype(np.float64) @ largest.astype(np.float64)
    if len(most) and most.max() > _EXACT:
        raise LexbenchError(
            f"{engine}: a score could be {most.max():,.0f}, and above {_EXACT:,} sums are no longer exact; "
            f"quantise more coarsely, as in encoder|quantize(10)@{engine}"
        )
