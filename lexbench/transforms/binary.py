"""Makes one bit of each dimension: its sign. Searched by Hamming distance, 32 times smaller than float32.

I. Yamada et al., "Efficient Passage Retrieval with Hashing" (ACL 2021); bits as in sentence-transformers (precision "ubinary").
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.plugins import Transform
from lexbench.types import Codes, Kind


@dataclass(frozen=True)
class Binary(Transform):
    """Documents and queries become bits: 1 for a number above 0. Of an odd width the last bits are 0.

    Behind `int8`, candidates are scored again by int8 codes, and the bits are still those of the vectors.
    """

    kind: ClassVar[Kind] = Kind.DENSE
    codes: ClassVar[str] = "bits"
    takes: ClassVar[tuple[str, ...]] = ("", "int8")
    deterministic: ClassVar[bool] = True

    def document(self, vectors: Any) -> Codes:
        """Return the codes of *vectors* (n, dimensions), or of the vectors of int8 codes."""
        floats: NDArray[np.float32] = vectors.source if isinstance(vectors, Codes) else vectors
        return Codes(np.packbits(floats > 0, axis=1), floats.shape[1], vectors)

    query = document
