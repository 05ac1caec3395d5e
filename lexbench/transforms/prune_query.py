"""Keeps the heaviest terms of each query. Documents stay whole."""

from dataclasses import dataclass
from typing import ClassVar

from scipy import sparse

from lexbench.errors import CommandError
from lexbench.plugins import Transform
from lexbench.transforms.top_k import TopK
from lexbench.types import Kind


@dataclass(frozen=True)
class PruneQuery(Transform):
    """Keep the *k* largest weights of each query; of equal weights those with the lower term ids."""

    k: int
    kind: ClassVar[Kind] = Kind.SPARSE
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise CommandError if nothing would be kept."""
        if self.k < 1:
            raise CommandError(f"prune_query({self.k}) keeps nothing; k must be a whole number from 1, e.g. prune_query(10)")

    def document(self, vectors: sparse.csr_array) -> sparse.csr_array:
        """Return *vectors* (n, vocabulary) unchanged."""
        return vectors

    def query(self, vectors: sparse.csr_array) -> sparse.csr_array:
        """Return *vectors* (n, vocabulary) with the largest weights of each row."""
        return TopK(self.k, "cut").document(vectors)
