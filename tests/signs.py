"""An engine of one bit per dimension, as an author of another package would write it: its scores are not dot products."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench import Engine, Hits, Index, Kind
from lexbench.errors import LexbenchError


@dataclass(frozen=True)
class SignsIndex(Index):
    """The signs of the documents, eight to a byte (documents, bytes)."""

    bits: NDArray[np.uint8]
    width: int

    def search(self, queries: NDArray[np.float32], k: int) -> Hits:
        """Return the *k* documents that share the most signs with each query; of equal ones the lower position."""
        if len(self.bits) and queries.shape[1] != self.width:
            raise LexbenchError(f"the queries have {queries.shape[1]} dimensions and the index has {self.width}")
        different = np.bitwise_count(np.packbits(queries > 0, axis=1)[:, None, : self.bits.shape[1]] ^ self.bits).sum(axis=2)
        docs = np.argsort(different, axis=1, kind="stable")[:, :k].astype(np.int32)
        return Hits(docs, (self.width - np.take_along_axis(different, docs, axis=1)).astype(np.float32))


@dataclass(frozen=True)
class Signs(Engine):
    """Keeps whether each number is above 0, and counts equal signs."""

    kind: ClassVar[Kind] = Kind.DENSE
    exact: ClassVar[bool] = False
    compressed: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True

    def build(self, shards: Iterable[NDArray[np.float32]], path: Path) -> None:
        """Write the signs and the width."""
        given = list(shards) or [np.zeros((0, 0), np.float32)]
        np.save(path / "bits.npy", np.packbits(np.concatenate(given) > 0, axis=1))
        (path / "width.json").write_text(json.dumps(given[0].shape[1]))

    def open(self, path: Path) -> SignsIndex:
        """Read them."""
        return SignsIndex(np.load(path / "bits.npy"), json.loads((path / "width.json").read_text()))
