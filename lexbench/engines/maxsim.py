"""Exact late interaction: every token of a query with every token of every document, in a blocked matrix product.

The score of a document is the sum, over the tokens of the query, of the largest dot product with a token of the document
(MaxSim; Khattab and Zaharia, ColBERT, SIGIR 2020, equation 3).
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.encodings.shards import offsets_of
from lexbench.engines.kernels.maxsim_scores import pieces, scores_of
from lexbench.engines.kernels.top_k import all_finite, one_width, same_width
from lexbench.errors import CommandError
from lexbench.types import Hits, Kind, MultiVectors

_STORAGE = ("float32", "float16")
_TOKENS = 32_768  # of documents that are in memory at a time: 16 MB of float32 at 128 dimensions


@dataclass(frozen=True)
class MaxSim:
    """Nothing is approximate.

    With *storage* float16 the index is half as large, and scores are those of the rounded document vectors. A document without
    tokens is never found, and a query without tokens finds nothing. BLAS multiplies with as many threads as it takes by itself
    (OMP_NUM_THREADS and the like).
    """

    storage: str = "float32"

    kind: ClassVar[Kind] = Kind.MULTI
    version: ClassVar[int] = 1
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.storage not in _STORAGE:
            raise CommandError(f"maxsim(storage=…) takes {' or '.join(map(repr, _STORAGE))}, not {self.storage!r}")

    def build(self, shards: Iterable[MultiVectors], path: Path) -> None:
        """Write all vectors one after another, as one raw matrix (tokens, dimensions), and where each document's start.

        LexbenchError for shards of different widths, and for values that are no finite numbers of the storage's type.
        """
        width = 0
        counts = [np.zeros(0, np.int64)]
        with (path / "vectors").open("wb") as file:
            for shard in shards:
                width = one_width("maxsim", width, shard.shape[1])
                counts.append(np.diff(shard.offsets))
                with np.errstate(over="ignore"):
                    stored = np.ascontiguousarray(shard.values, np.dtype(self.storage))
                all_finite(stored, "a document vector")
                stored.tofile(file)
        np.save(path / "offsets.npy", offsets_of(np.concatenate(counts)))
        (path / "facts.json").write_text(json.dumps({"width": width, "storage": self.storage}) + "\n", encoding="utf-8")

    def open(self, path: Path) -> "MaxSimIndex":
        """Map the vectors into memory, and compile the search if it has not been compiled on this machine before."""
        from lexbench.engines.kernels import flat_best, maxsim_kernel  # noqa: F401 - imported is compiled

        facts, offsets = json.loads((path / "facts.json").read_bytes()), np.load(path / "offsets.npy")
        kind = np.dtype(facts["storage"])
        if not offsets[-1]:
            return MaxSimIndex(np.empty((0, facts["width"]), kind), offsets)
        return MaxSimIndex(np.memmap(path / "vectors", kind, "r").reshape(-1, facts["width"]), offsets)


@dataclass(frozen=True)
class MaxSimIndex:
    """An opened index."""

    vectors: NDArray[Any]  # (tokens, dimensions), float32 or float16, memory-mapped
    offsets: NDArray[np.int64]  # (documents + 1,)

    def search(self, queries: MultiVectors, k: int) -> Hits:
        """Return the best *k* documents of each of *queries*, all of which share what is read from disk.

        Memory is 16 MB for documents, 16 for products, and 16 bytes x queries x k. LexbenchError for queries of another width,
        or that are no numbers.
        """
        from lexbench.engines.kernels.flat_best import Best
        from lexbench.engines.kernels.flat_products import single

        if len(self.vectors):
            same_width(queries.shape[1], self.vectors.shape[1], "dimensions")
        all_finite(queries.values, "a query vector")
        best = Best(queries.shape[0], min(k, len(self.offsets) - 1))
        for first, last in pieces(self.offsets, _TOKENS):
            offsets = self.offsets[first : last + 1]
            documents = MultiVectors(single(self.vectors[offsets[0] : offsets[-1]]), offsets - offsets[0])
            best.add(scores_of(queries, documents), first)
        return best.hits()
