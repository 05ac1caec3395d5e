"""A transform: square every weight of the documents."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench import Kind, Transform


@dataclass(frozen=True)
class Square(Transform):
    """Queries stay as they are."""

    kind: ClassVar[Kind] = Kind.DENSE

    def document(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the squares (n, width)."""
        return vectors**2

    def query(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the queries unchanged."""
        return vectors
