"""Exact late interaction: a blocked matrix product of every query token with every token of every document.

The score of a document is the sum, over the tokens of the query, of the largest dot product with a token of the document
(MaxSim; Khattab and Zaharia, ColBERT, SIGIR 2020, equation 3).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.arrays.vectors import offsets_of, pieces
from lexbench.engines.flat import check_storage, map_matrix, write_matrix
from lexbench.engines.kernels.checks import all_finite, same_width
from lexbench.engines.kernels.on_devices import DeviceVectors, check_settings, places
from lexbench.plugins import Engine, Index
from lexbench.registry import optional_at_search, runtime
from lexbench.types import Hits, Kind, MultiVectors

_TOKENS = 32_768  # of documents in memory at a time: 16 MB of float32 at 128 dimensions


@dataclass(frozen=True)
class MaxSim(Engine):
    """Nothing is approximate.

    With *storage* float16 the index is half as large, and scores are those of the rounded document vectors. A document without
    tokens is never found, and a query without tokens finds nothing. BLAS chooses its number of threads (OMP_NUM_THREADS and the
    like). *device* and *precision* are as in `flat`.
    """

    storage: str = "float32"
    precision: str = optional_at_search("float32")
    device: str = runtime("auto")

    kind: ClassVar[Kind] = Kind.MULTI
    exact: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise CommandError for an unknown storage, device or precision."""
        check_storage("maxsim", self.storage)
        check_settings("maxsim", self.device, self.precision)

    def build(self, shards: Iterable[MultiVectors], path: Path) -> None:
        """Write the vectors of all tokens and the first token of each document. Raises LexbenchError as `write_matrix` does."""
        counts = [np.zeros(0, np.int64)]

        def values() -> Iterator[NDArray[np.float32]]:
            for shard in shards:
                counts.append(np.diff(shard.offsets))
                yield shard.values

        write_matrix("maxsim", self.storage, values(), path)
        np.save(path / "offsets.npy", offsets_of(np.concatenate(counts)))

    def open(self, path: Path) -> "MaxSimIndex":
        """Map the vectors into memory, and compile the search if it has not been compiled on this machine before.

        Raises CannotStart if this machine lacks the device.
        """
        vectors, offsets = map_matrix(path), np.load(path / "offsets.npy")
        if found := places(self.device, self.precision, vectors.nbytes):
            return MaxSimIndex(vectors, offsets, DeviceVectors(vectors, offsets, found, self.precision))
        if len(vectors):
            one = np.array([0, 1])
            MaxSimIndex(vectors[:1], one).search(MultiVectors(np.zeros((1, vectors.shape[1]), np.float32), one), 1)
        return MaxSimIndex(vectors, offsets)


@dataclass(frozen=True)
class MaxSimIndex(Index):
    """An opened index."""

    vectors: NDArray[Any]  # (tokens, dimensions), float32 or float16, memory-mapped
    offsets: NDArray[np.int64]  # (documents + 1,)
    on: DeviceVectors | None = None  # the same vectors, for other devices than the processor

    def search(self, queries: MultiVectors, k: int) -> Hits:
        """Return the best *k* documents of each of *queries*; the index is read once for all of them.

        Memory: 16 MB for documents, 16 for products, and 16 bytes x queries x k. Raises LexbenchError for queries of another
        width, or with values that are not finite, and the errors of `DeviceVectors`.
        """
        from lexbench.engines.kernels.dense import Best, max_sim_scores, single

        if len(self.vectors):
            same_width(queries.shape[1], self.vectors.shape[1], "dimensions")
        all_finite(queries.values, "a query vector")
        if self.on:
            return self.on.search(queries.values, queries.offsets, k)
        best = Best(queries.shape[0], min(k, len(self.offsets) - 1))
        for some in pieces(self.offsets, _TOKENS):
            offsets = self.offsets[some.start : some.stop + 1]
            documents = MultiVectors(single(self.vectors[offsets[0] : offsets[-1]]), offsets - offsets[0])
            best.add(max_sim_scores(queries, documents), some.start)
        return best.hits()
