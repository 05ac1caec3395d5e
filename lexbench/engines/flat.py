"""Exact dense search: a blocked matrix product over memory-mapped vectors."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.engines._top_k import best_of_row, merged, no_hits, same_width
from lexbench.types import Hits, Kind

_BLOCK = 16_384  # documents multiplied at a time: 25 MB of float32 at 384 dimensions


@dataclass(frozen=True)
class FlatIndex:
    """Document vectors on disk, row i at position i."""

    vectors: NDArray[np.float32]  # (documents, dimensions), memory-mapped

    def search(self, queries: NDArray[np.float32], k: int) -> Hits:
        """Return the *k* largest dot products of each of *queries* (queries, dimensions)."""
        if len(self.vectors):
            same_width(queries.shape[1], self.vectors.shape[1])
        k = min(k, len(self.vectors))
        best = no_hits(len(queries), 0)
        for start in range(0, len(self.vectors), _BLOCK):
            products = queries @ self.vectors[start : start + _BLOCK].T
            rows = np.stack([best_of_row(row, k) for row in products]) if len(queries) else np.empty((0, 0), np.int64)
            block = Hits((rows + start).astype(np.int32), np.take_along_axis(products, rows, axis=1))
            best = merged(best, block, k)
        return best


@dataclass(frozen=True)
class Flat:
    """Every document vector is multiplied with every query vector; nothing is approximate."""

    kind: ClassVar[Kind] = Kind.DENSE
    version: ClassVar[int] = 1
    deterministic: ClassVar[bool] = True

    def build(self, shards: Iterable[NDArray[np.float32]], path: Path) -> None:
        """Write the vectors (n, dimensions) one after another, as one raw float32 matrix."""
        width = 0
        with (path / "vectors.f32").open("wb") as file:
            for shard in shards:
                width = shard.shape[1]
                shard.astype(np.float32, copy=False).tofile(file)
        (path / "width").write_text(str(width))

    def open(self, path: Path) -> FlatIndex:
        """Map the vectors into memory."""
        width = int((path / "width").read_text())
        if width == 0:
            return FlatIndex(np.empty((0, 0), np.float32))
        return FlatIndex(np.memmap(path / "vectors.f32", np.float32, "r").reshape(-1, width))
