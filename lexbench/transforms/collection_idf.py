"""Multiply each query weight by the inverse document frequency of its term in the collection that is searched.

The frequency of a term is the number of documents that have it in the index; `Encoded` passes it on when it opens an index.
"""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench.arrays.vectors import canonical, select_entries
from lexbench.errors import CommandError
from lexbench.plugins import Transform
from lexbench.types import CollectionStatistics, Kind


@dataclass(frozen=True)
class CollectionIdf(Transform):
    """Query weights times log(1 + (N - n + 0.5) / (n + 0.5)) ** *power*; documents stay whole.

    N is the number of documents, n the number of documents whose vectors in the index have the term. Terms that no document
    has are dropped, because they add nothing to any score. This is the inverse document frequency of Lucene's BM25.
    """

    power: float = 1.0
    idf: NDArray[np.float32] | None = field(default=None, init=False, repr=False, compare=False, metadata={"runtime": True})
    kind: ClassVar[Kind] = Kind.SPARSE
    deterministic: ClassVar[bool] = True
    uses_collection: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse settings that are out of range."""
        object.__setattr__(self, "power", float(self.power))  # 1 and 1.0 are one setting and have one key
        if not 0 < self.power < np.inf:
            raise CommandError(f"collection_idf(power={self.power:g}): the power is a number above 0, e.g. collection_idf(0.5)")

    def with_collection(self, statistics: CollectionStatistics) -> Self:
        """Return a copy that weights queries by *statistics*."""
        found = statistics.document_frequency.astype(np.float64)
        idf = np.log1p((statistics.documents - found + 0.5) / (found + 0.5)) ** self.power
        bound = replace(self)
        object.__setattr__(bound, "idf", np.where(found > 0, idf, 0).astype(np.float32))
        return bound

    def document(self, vectors: sparse.csr_array) -> sparse.csr_array:
        """Return *vectors* (n, vocabulary) themselves."""
        return vectors

    def query(self, vectors: sparse.csr_array) -> sparse.csr_array:
        """Return *vectors* (n, vocabulary) with every weight times the idf of its term.

        Raises CommandError if no collection is known yet.
        """
        if self.idf is None:
            raise CommandError("collection_idf weights a query by the documents it is searched in: name a dataset by -d")
        matrix = canonical(vectors)
        missing = matrix.shape[1] - len(self.idf)  # an index without documents knows no term
        idf = np.pad(self.idf, (0, missing)) if missing > 0 else self.idf
        weights = matrix.data * idf[matrix.indices]
        return select_entries(matrix, weights, weights != 0)
