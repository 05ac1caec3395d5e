"""Exact dense search: every product, a block at a time, over memory-mapped vectors."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.engines.kernels.top_k import all_finite, no_hits, one_width, same_width
from lexbench.errors import CommandError
from lexbench.types import Hits, Kind

_QUERIES = 4096  # that are searched in one pass over the index: more would hardly be faster, and would take more memory
_STORAGE = ("float32", "float16")


@dataclass(frozen=True)
class FlatIndex:
    """Document vectors on disk, row i at position i."""

    vectors: NDArray[Any]  # (documents, dimensions), float32 or float16, memory-mapped

    def search(self, queries: NDArray[np.float32], k: int) -> Hits:
        """Return the *k* largest dot products of each of *queries* (queries, dimensions); float32 as BLAS adds them up.

        Memory: 16 MB of products, at most 17 bytes x 4,096 x k of candidates, and the hits. LexbenchError for queries of
        another width, or that are no numbers.
        """
        from lexbench.engines.kernels.flat_products import best

        if len(self.vectors):
            same_width(queries.shape[1], self.vectors.shape[1], "dimensions")
        all_finite(queries, "a query vector")
        hits = no_hits(len(queries), min(k, len(self.vectors)))
        for start in range(0, len(queries), _QUERIES):
            some = slice(start, start + _QUERIES)
            hits.docs[some], hits.scores[some] = best([self.vectors], queries[some], hits.docs.shape[1])
        return hits


@dataclass(frozen=True)
class Flat:
    """Every document vector is multiplied with every query vector; nothing is approximate.

    With *storage* float16 the index is half as large, and scores are those of the rounded document vectors; products and sums
    are float32 all the same. BLAS multiplies with as many threads as it takes by itself (OMP_NUM_THREADS and the like); 16
    queries or fewer are multiplied by a loop of ours in one thread, which is twice as fast as BLAS is in one.
    """

    storage: str = "float32"

    kind: ClassVar[Kind] = Kind.DENSE
    version: ClassVar[int] = 2
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse types that there are not."""
        if self.storage not in _STORAGE:
            raise CommandError(f"flat(storage=…) takes {' or '.join(map(repr, _STORAGE))}, not {self.storage!r}")

    def build(self, shards: Iterable[NDArray[np.float32]], path: Path) -> None:
        """Write the vectors (n, dimensions) one after another, as one raw matrix.

        LexbenchError for shards of different widths, and for values that are no finite numbers of the storage's type.
        """
        width = 0
        with (path / "vectors").open("wb") as file:
            for shard in shards:
                width = one_width("flat", width, shard.shape[1])
                with np.errstate(over="ignore"):
                    stored = np.ascontiguousarray(shard, np.dtype(self.storage))
                all_finite(stored, "a document vector")
                stored.tofile(file)
        (path / "facts.json").write_text(json.dumps({"width": width, "storage": self.storage}) + "\n", encoding="utf-8")

    def open(self, path: Path) -> FlatIndex:
        """Map the vectors into memory, and compile the search if it has not been compiled on this machine before."""
        facts = json.loads((path / "facts.json").read_bytes())
        width, kind = facts["width"], np.dtype(facts["storage"])
        if (path / "vectors").stat().st_size == 0:
            return FlatIndex(np.empty((0, width), kind))
        vectors = np.asarray(np.memmap(path / "vectors", kind, "r")).reshape(-1, width)
        for count in (1, _QUERIES):  # by our loop, and by BLAS
            FlatIndex(vectors[:1]).search(np.zeros((count, width), np.float32), 1)
        return FlatIndex(vectors)
