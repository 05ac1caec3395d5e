"""Makes one byte of each dimension, 4 times smaller than float32. Products are of whole numbers.

The range of each dimension is learned from the vectors of the corpus: its smallest and largest number are 0 and 255, as in
sentence-transformers (precision "int8"). Codes alone are no vectors, so a score is the product of the query with the middles of
the steps that the codes stand for: `sum(q * step * code)`, plus what is the same for all documents. For this the query's
products `q * step` are rounded to whole numbers from -127 to 127.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import LexbenchError
from lexbench.plugins import Transform
from lexbench.types import Codes, Kind

_STEPS = 255
_MIDDLE = 128.5  # code -128 is the step from 0 to 1, whose middle is 0.5
_LARGEST = 127


@dataclass(frozen=True)
class Int8(Transform):
    """Documents and queries become int8."""

    ranges: NDArray[np.float32] | None = field(default=None, init=False, repr=False, compare=False, metadata={"runtime": True})
    kind: ClassVar[Kind] = Kind.DENSE
    codes: ClassVar[str] = "int8"
    learns: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True

    def learned(self, shards: Iterable[NDArray[np.float32]]) -> Self:
        """Return a copy that knows the smallest and largest number of each dimension in *shards*."""
        least: Any = np.inf
        most: Any = -np.inf
        for shard in shards:
            if len(shard):
                least, most = np.minimum(least, shard.min(0)), np.maximum(most, shard.max(0))
        return self.with_state({"ranges": np.atleast_2d(np.array([least, most], np.float32).T).T})

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return the ranges (2, dimensions); without documents they have one column, of infinities."""
        return {"ranges": self._known()}

    def with_state(self, state: Mapping[str, NDArray[Any]]) -> Self:
        """Return a copy with the ranges of `state`."""
        copy = replace(self)
        object.__setattr__(copy, "ranges", np.asarray(state["ranges"], np.float32))
        return copy

    def _known(self) -> NDArray[np.float32]:
        if self.ranges is None:
            raise LexbenchError("int8 learns its ranges from the vectors of a corpus, and there is none")
        return self.ranges

    def _starts_and_steps(self, width: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return where each dimension starts and how long a step is; 0 in a dimension that never varies."""
        least, most = self._known()
        if not np.isfinite(least).all():  # an index without documents
            return np.zeros(width, np.float32), np.zeros(width, np.float32)
        if width != len(least):
            raise LexbenchError(
                f"int8 has learned {len(least):,} dimensions, and here are {width:,}; encode both with one encoder"
            )
        return least, (most - least) / np.float32(_STEPS)

    def document(self, vectors: NDArray[np.float32]) -> Codes:
        """Return the codes of *vectors* (n, dimensions)."""
        starts, steps = self._starts_and_steps(vectors.shape[1])
        codes = np.clip(np.floor((vectors - starts) / np.where(steps == 0, 1, steps)), 0, _STEPS) - (_LARGEST + 1)
        return Codes(codes.astype(np.int8), vectors.shape[1], vectors)

    def vectors(self, codes: NDArray[np.int8]) -> NDArray[np.float32]:
        """Return the vectors (n, dimensions) that document *codes* stand for: the middles of their steps."""
        starts, steps = self._starts_and_steps(codes.shape[1])
        return np.asarray(starts + (codes + np.float32(_MIDDLE)) * steps, np.float32)

    def query(self, vectors: NDArray[np.float32]) -> Codes:
        """Return the codes of query *vectors* (n, dimensions), with what makes scores from whole products."""
        starts, steps = self._starts_and_steps(vectors.shape[1])
        weights = vectors * steps
        scales = np.abs(weights).max(1, initial=0) / np.float32(_LARGEST)
        codes = np.rint(weights / np.where(scales == 0, 1, scales)[:, None]).astype(np.int8)
        offsets = vectors.astype(np.float64) @ (starts + np.float64(_MIDDLE) * steps)
        return Codes(codes, vectors.shape[1], vectors, scales.astype(np.float32), offsets.astype(np.float32))
