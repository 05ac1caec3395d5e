"""Keeps the heaviest terms of each query: the first k, all above a threshold, or a share of the mass."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench.errors import CommandError
from lexbench.plugins import Transform
from lexbench.types import Kind
from lexbench.vectors import canonical, select_entries

_SLACK = 1 - 1e-12  # so that rounding of the sum never keeps one term too many


@dataclass(frozen=True)
class PruneQuery(Transform):
    """Keep the terms of a query that pass three tests; the default settings keep all.

    Terms are ordered by weight, largest first; equal weights: the lower term id first. A term is kept if it is among the first
    *k* (0: all), has at least the weight *threshold*, and belongs to the shortest prefix whose weights add up to *fraction* of
    the query's total. Weights count by their absolute value.
    """

    k: int = 0
    threshold: float = 0.0
    fraction: float = 1.0
    kind: ClassVar[Kind] = Kind.SPARSE
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse settings that are out of range."""
        if self.k < 0:
            raise CommandError(f"prune_query(k={self.k}): k must be a whole number from 0 (0 keeps all), e.g. prune_query(10)")
        if not 0 <= self.threshold < np.inf:
            raise CommandError(f"prune_query(threshold={self.threshold:g}): the threshold must be a number from 0")
        if not 0 < self.fraction <= 1:
            raise CommandError(f"prune_query(fraction={self.fraction:g}): the fraction must be above 0 and at most 1")

    def document(self, vectors: sparse.csr_array) -> sparse.csr_array:
        """Return *vectors* (n, vocabulary) unchanged."""
        return vectors

    def query(self, vectors: sparse.csr_array) -> sparse.csr_array:
        """Return *vectors* (n, vocabulary) with the terms of each row that pass the tests."""
        matrix = canonical(vectors)
        passes = np.zeros(matrix.nnz, np.bool_)
        for start, stop in pairwise(matrix.indptr.tolist()):
            passes[start + self._passing(np.abs(matrix.data[start:stop]))] = True
        return matrix if passes.all() else select_entries(matrix, matrix.data, passes)

    def _passing(self, weights: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the indices of the *weights* (terms,) that pass all tests. Weights are ordered by term id."""
        order = np.argsort(-weights, kind="stable")
        count = int(np.count_nonzero(weights >= self.threshold))
        if self.k:
            count = min(count, self.k)
        if self.fraction < 1 and len(order):
            mass = np.cumsum(weights[order], dtype=np.float64)
            count = min(count, 1 + int(np.searchsorted(mass, self.fraction * mass[-1] * _SLACK)))
        return order[:count]
