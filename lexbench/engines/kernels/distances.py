"""Distances of dense vectors below 0, computed in float64: larger is nearer. For models that state such a similarity."""

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from lexbench.engines.kernels.dense import Products

_NAMES: dict[str, Literal["euclidean", "cityblock"]] = {"euclidean": "euclidean", "manhattan": "cityblock"}  # SciPy's


def products_of(similarity: str) -> "Products | None":
    """Return a function that writes the scores of queries and documents into an array; None for dot products."""
    if similarity == "dot":
        return None

    def write(queries: NDArray[np.float32], documents: NDArray[np.float32], scores: NDArray[np.float32]) -> None:
        scores[:] = distances(similarity, queries, documents)

    return write


def distances(similarity: str, queries: NDArray[Any], documents: NDArray[Any]) -> NDArray[np.float64]:
    """Return the distances (queries, documents) below 0."""
    from scipy.spatial.distance import cdist  # loads most of SciPy

    found: NDArray[np.float64] = -cdist(queries, documents, _NAMES[similarity])
    return found
