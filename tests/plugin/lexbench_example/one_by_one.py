"""An engine: one dot product after another."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench import Engine, Hits, Index, Kind
from lexbench.errors import LexbenchError


@dataclass(frozen=True)
class Opened(Index):
    """The document vectors (documents, width)."""

    vectors: NDArray[np.float32]

    def search(self, queries: NDArray[np.float32], k: int) -> Hits:
        """Return the *k* largest dot products; a stable sort leaves ties to the lower position."""
        if not len(self.vectors):
            return Hits(np.empty((len(queries), 0), np.int32), np.empty((len(queries), 0), np.float32))
        if queries.shape[1] != self.vectors.shape[1]:
            raise LexbenchError(f"the queries have {queries.shape[1]} dimensions and the index has {self.vectors.shape[1]}")
        scores = np.stack([queries @ vector for vector in self.vectors], axis=1)
        docs = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return Hits(docs.astype(np.int32), np.take_along_axis(scores, docs, axis=1))


@dataclass(frozen=True)
class OneByOne(Engine):
    """Slow and plain."""

    kind: ClassVar[Kind] = Kind.DENSE
    exact: ClassVar[bool] = True

    def build(self, shards: Iterable[NDArray[np.float32]], path: Path) -> None:
        """Write all vectors as one array."""
        np.save(path / "vectors.npy", np.concatenate(list(shards) or [np.empty((0, 0), np.float32)]))

    def open(self, path: Path) -> Opened:
        """Read them."""
        return Opened(np.load(path / "vectors.npy"))
