"""Keeps the k largest weights of each document. Queries stay whole.

Shen et al., "LexMAE: Lexicon-Bottlenecked Pretraining for Large-Scale Retrieval" (ICLR 2023), sparsify documents before they
quantise them: `top_k(64)|quantize(100)`. Their formula keeps every weight that is not below the k-th largest, so all ties at
the threshold survive; their text says k entries. *ties* chooses between the two.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from lexbench.arrays.vectors import canonical, select_entries
from lexbench.errors import CommandError
from lexbench.plugins import Transform
from lexbench.types import Kind

_TIES = ("keep", "cut")


@dataclass(frozen=True)
class TopK(Transform):
    """Keep the *k* largest stored weights of each document.

    *ties*: "keep" every weight that equals the k-th largest (the formula), or "cut" to exactly k weights; among equal weights
    those with the lower term ids stay. A document with at most k weights is unchanged.
    """

    k: int
    ties: str = "keep"
    kind: ClassVar[Kind] = Kind.SPARSE
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse settings that are out of range."""
        if self.k < 1:
            raise CommandError(f"top_k({self.k}) keeps nothing; k must be a whole number from 1, e.g. top_k(64)")
        if self.ties not in _TIES:
            raise CommandError(f'top_k(ties={self.ties!r}): ties must be "keep" or "cut"')

    def document(self, vectors: "scipy.sparse.csr_array") -> "scipy.sparse.csr_array":
        """Return *vectors* (n, vocabulary) with the largest weights of each row."""
        matrix = canonical(vectors)
        largest = self._largest(matrix)
        return matrix if largest.all() else select_entries(matrix, matrix.data, largest)

    def query(self, vectors: "scipy.sparse.csr_array") -> "scipy.sparse.csr_array":
        """Return *vectors* (n, vocabulary) unchanged."""
        return vectors

    def counts(self, vectors: "scipy.sparse.csr_array") -> dict[str, int]:
        """Return how many weights of the document *vectors* (n, vocabulary) are `dropped`."""
        largest = self._largest(canonical(vectors))
        return {"dropped": len(largest) - int(np.count_nonzero(largest))}

    def _largest(self, matrix: "scipy.sparse.csr_array") -> NDArray[np.bool_]:
        """Return a mask (nonzeros,) of the weights that are among the largest of their row."""
        from lexbench.arrays.selection import mark_largest  # imports numba, which stored results do not need

        largest = np.ones(matrix.nnz, np.bool_)
        mark_largest(matrix.indptr.astype(np.int64), matrix.data, self.k, self.ties == "cut", largest)
        return largest
