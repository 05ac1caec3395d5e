"""What all engines check of the vectors they are given, in one wording, and how they fill in hits."""

from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from lexbench.errors import LexbenchError
from lexbench.types import Hits


def same_width(queries: int, index: int, unit: str = "terms") -> None:
    """Raise LexbenchError unless query vectors are as wide as those of the index; *unit* is what the width counts."""
    if queries != index:
        raise LexbenchError(f"the queries have {queries:,} {unit} and the index has {index:,}; encode both with one encoder")


def one_width(engine: str, known: int, width: int) -> int:
    """Return the *width* of a shard; LexbenchError where it differs from *known*, that of the shards before (0: none yet)."""
    if known not in {0, width}:
        raise LexbenchError(f"{engine} got vectors of {known:,} dimensions and of {width:,}; use one encoder")
    return width


def all_finite(vectors: NDArray[Any], what: str) -> None:
    """Raise LexbenchError unless *vectors* (n, dimensions) are finite numbers; *what* is what the error calls one of them."""
    finite = np.isfinite(vectors)
    if not finite.all():
        row, column = np.argwhere(~finite)[0].tolist()
        raise LexbenchError(
            f"{what} has {vectors[row, column]} at dimension {column}, which is no finite {vectors.dtype} number; "
            "mend the encoder, or store its vectors in a wider type"
        )


def impacts(vectors: "scipy.sparse.csr_array", engine: str, most: int = 65_535) -> "scipy.sparse.csr_array":
    """Return quantised *vectors* with int32 weights, columns ascending in each row, without stored zeros.

    LexbenchError, naming *engine*, unless every weight is a whole number from 0 to *most*.
    """
    matrix = scipy.sparse.csr_array(vectors, copy=True)
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


def no_hits(queries: int, k: int) -> Hits:
    """Return hits (queries, k) in which nothing has been found yet: positions -1, scores -inf."""
    return Hits(np.full((queries, k), -1, np.int32), np.full((queries, k), -np.inf, np.float32))


def fill(hits: Hits, row: int | np.integer[Any], docs: NDArray[np.integer[Any]], scores: NDArray[np.float32]) -> None:
    """Write *docs* (n,) and their *scores* into a row of *hits*: the best first, equal scores by position, as many as fit."""
    order = np.lexsort((docs, -scores))[: hits.docs.shape[1]]
    hits.docs[row, : len(order)], hits.scores[row, : len(order)] = docs[order], scores[order]


def ordered(docs: NDArray[np.int32], scores: NDArray[np.float32]) -> Hits:
    """Return *docs* (queries, k) and their *scores* as hits: the best first, equal scores by position."""
    order = np.lexsort((docs, -scores), axis=1)
    return Hits(np.take_along_axis(docs, order, axis=1), np.take_along_axis(scores, order, axis=1))
