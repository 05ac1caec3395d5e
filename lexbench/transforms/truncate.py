"""Cuts dense vectors to their first dimensions, as models with Matryoshka representations are used.

A. Kusupati et al., "Matryoshka Representation Learning" (NeurIPS 2022). Works for one vector per text and for one per token.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.arrays.vectors import unit_length
from lexbench.errors import CommandError
from lexbench.plugins import Transform
from lexbench.types import Kind, MultiVectors

_NEAR = 0.01  # of length 1: vectors that are stored as float16 are not exact


@dataclass(frozen=True)
class Truncate(Transform):
    """Keep the first *dimensions*. A vector of length 1 gets length 1 again, as for cosine; others are only cut."""

    dimensions: int
    kind: ClassVar[Kind] = Kind.DENSE
    kinds: ClassVar[tuple[Kind, ...]] = (Kind.DENSE, Kind.MULTI)
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise CommandError if nothing would be kept."""
        if self.dimensions < 1:
            raise CommandError(f"truncate({self.dimensions}) keeps nothing; give a whole number from 1, e.g. truncate(256)")

    def document(self, vectors: Any) -> Any:
        """Return *vectors*, one per text or per token, cut. Raises CommandError if they have fewer dimensions."""
        if isinstance(vectors, MultiVectors):
            return vectors._replace(values=self._cut(vectors.values))
        return self._cut(vectors)

    query = document

    def _cut(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.dimensions > vectors.shape[1]:
            raise CommandError(f"truncate({self.dimensions}): the vectors have {vectors.shape[1]} dimensions; type fewer")
        if self.dimensions == vectors.shape[1]:
            return vectors
        cut = np.ascontiguousarray(vectors[:, : self.dimensions])
        of_length_1 = np.abs(np.linalg.norm(vectors, axis=1) - 1) < _NEAR
        cut[of_length_1] = unit_length(cut[of_length_1])
        return cut
