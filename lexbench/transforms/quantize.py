"""Makes weights whole numbers, for engines that add integers (impact, Lucene, PISA).

A weight v becomes rint(scale * v), half to even, or floor(scale * v), computed in float32: 0.29 times 100 is 29 in float32 and
28.999... in float64. LexMAE's released code rounds with scale 100. Its paper (Shen et al., ICLR 2023) writes floor, which also
drops weights between 0.005 and 0.01.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from lexbench.arrays.vectors import canonical, csr_of, select_entries
from lexbench.errors import CommandError
from lexbench.plugins import Transform
from lexbench.types import Kind

_MODES = {"rint": np.rint, "floor": np.floor}
_BITS = (8, 16)
_COARSE = 5  # whole numbers from here on are at most a tenth from the weight


@dataclass(frozen=True)
class Quantize(Transform):
    """Turn the weights of documents and queries into whole numbers from 1 to 2^bits - 1.

    Results of 0 or below are dropped, which includes all negative weights; larger results are clipped. *mode* is "rint" or
    "floor", *bits* 8 or 16. A vector without terms stays empty; with *empty* >= 0 it gets that term with weight 1.
    LexMAE's code does this with [UNK], which is term 100 in BERT's vocabulary.
    """

    scale: float = 100.0
    mode: str = "rint"
    bits: int = 16
    empty: int = -1
    kind: ClassVar[Kind] = Kind.SPARSE
    deterministic: ClassVar[bool] = True
    impacts: ClassVar[bool] = True  # the results are whole numbers

    def __post_init__(self) -> None:
        """Refuse settings that are out of range."""
        object.__setattr__(self, "scale", float(self.scale))  # 100 and 100.0 are one setting and have one key
        with np.errstate(over="ignore", under="ignore"):
            usable = 0 < np.float32(self.scale) < np.inf
        if not usable:
            raise CommandError(
                f"quantize(scale={self.scale:g}): the scale must be a float32 number above 0, e.g. quantize(100)"
            )
        if self.mode not in _MODES:
            raise CommandError(f'quantize(mode={self.mode!r}): the mode must be "rint" or "floor"')
        if self.bits not in _BITS:
            raise CommandError(f"quantize(bits={self.bits}): bits must be 8 or 16")

    def document(self, vectors: "scipy.sparse.csr_array") -> "scipy.sparse.csr_array":
        """Return *vectors* (n, vocabulary) with whole weights. Raises CommandError if there is no term *empty*."""
        if self.empty >= vectors.shape[1]:
            raise CommandError(
                f"quantize(empty={self.empty}): the vectors have {vectors.shape[1]:,} terms, 0 to {vectors.shape[1] - 1:,}"
            )
        matrix = canonical(vectors)
        weights = self._whole(matrix.data)
        positive = weights > 0
        np.minimum(weights, self._largest, out=weights)
        return self._without_empty_rows(select_entries(matrix, weights, positive))

    query = document

    def counts(self, vectors: "scipy.sparse.csr_array") -> dict[str, int]:
        """Return how many weights of *vectors* (n, vocabulary) are positive (`rounded`), `clipped` and `dropped`.

        `coarse` counts weights whose whole number is below 5: rounding changes them by more than a tenth, or makes them 0.
        """
        given = canonical(vectors).data
        weights = self._whole(given)
        return {
            "clipped": int(np.count_nonzero(weights > self._largest)),
            "dropped": int(np.count_nonzero(weights <= 0)),
            "rounded": int(np.count_nonzero(given > 0)),
            "coarse": int(np.count_nonzero((given > 0) & (weights < _COARSE))),
        }

    @property
    def _largest(self) -> np.float32:
        return np.float32(2**self.bits - 1)

    def _whole(self, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the rounded products of *weights* and the scale."""
        with np.errstate(over="ignore"):  # infinity is clipped like every other large result
            whole: NDArray[np.float32] = weights * np.float32(self.scale)
        return _MODES[self.mode](whole, out=whole)

    def _without_empty_rows(self, matrix: "scipy.sparse.csr_array") -> "scipy.sparse.csr_array":
        """Return *matrix* with the term *empty* in each empty row, unless the setting is negative."""
        if self.empty < 0:
            return matrix
        bare = np.diff(matrix.indptr) == 0
        starts = matrix.indptr[:-1][bare]
        weights, terms = np.insert(matrix.data, starts, 1), np.insert(matrix.indices, starts, self.empty)
        offsets = matrix.indptr.copy()
        offsets[1:] += np.cumsum(bare, dtype=offsets.dtype)
        return csr_of(weights, terms, offsets, matrix.shape[1])
