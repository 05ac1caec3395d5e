"""Approximate and compressed dense search by Faiss, any index of its factory: graphs, inverted lists, product quantisation.

M. Douze et al., "The Faiss library", 2024 (arXiv 2401.08281); the package faiss-cpu.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.engines.kernels.top_k import all_finite, no_hits, one_width, same_width
from lexbench.errors import CommandError
from lexbench.registry import at_search, runtime
from lexbench.types import Hits, Kind

_QUERIES = 1024  # that Faiss is given at a time: of product quantisation it makes a table for each, 50 KB at 48 bytes
_EXAMPLES = "'Flat', 'HNSW32', 'IVF1024,Flat', 'PQ48', 'OPQ48_384,PQ48', 'IVF1024,PQ48', 'SQ8'"
_INDEX = "index.faiss"


@dataclass(frozen=True)
class Faiss:
    """The index that Faiss makes of *factory*, a text of its `index_factory`, for inner products.

    'Flat' keeps vectors as they are, 'SQ8' a byte a dimension, 'PQ48' 48 bytes a vector (dimensions must be a multiple of 48),
    'OPQ48_384,PQ48' the same after a rotation. 'HNSW32' is a graph of 32 links a vector; of 'IVF1024,…' *nprobe* of 1,024
    lists are searched. RepCONC (PQ of 48 or 64 bytes) and ADORE with IVF are the compressed rows of the LexMAE paper's table.

    *ef_construction* and *ef_search* are how many candidates a graph keeps, built and searched; to find k, at least k. Indexes
    that learn are trained on *training* vectors at most, evenly spaced, so nothing is drawn; Faiss advises 39 a cluster, of
    which there are 256 in 'PQ48'. Settings that an index has no use for change nothing. Scores are Faiss's: of compressed
    vectors they are those of what is kept.

    Impossible: to know that nothing is missed, also of equal scores; the same graph twice with *threads* above 1, or of vectors
    that come in other shards.
    """

    factory: str = "HNSW32"
    ef_construction: int = 200
    training: int = 262_144
    ef_search: int = at_search(128)
    nprobe: int = at_search(32)
    threads: int = runtime(1)  # of building and searching

    kind: ClassVar[Kind] = Kind.DENSE
    version: ClassVar[int] = 1
    deterministic: ClassVar[bool] = True  # with one thread
    exact: ClassVar[bool] = False
    requires: ClassVar[tuple[str, ...]] = ("faiss",)
    extra: ClassVar[str] = "faiss"

    def __post_init__(self) -> None:
        """Refuse settings that Faiss cannot read, and those at which it ends the process or finds nothing."""
        from lexbench.engines._faiss import readable

        if min(self.ef_construction, self.training, self.ef_search, self.nprobe, self.threads) < 1:
            raise CommandError(f"{self}: every number of faiss is above 0")
        if re.search(r"(?<!\d)0+(?!\d)|(HNSW|NSG)0*1(?!\d)", self.factory) or not readable(self.factory):
            raise CommandError(f"faiss makes no index of inner products of factory={self.factory!r}; such as {_EXAMPLES}")

    def build(self, shards: Iterable[NDArray[np.float32]], path: Path) -> None:
        """Write the index of *shards* (n, dimensions) into *path*; it is in memory meanwhile.

        An index that learns needs the vectors twice: they are then in a file of *path* meanwhile, and the sample in memory.
        LexbenchError for vectors that are not finite, and where Faiss cannot make the index of them: too few to learn from, a
        width that cannot be divided.
        """
        from lexbench.engines._faiss import Builder

        with TemporaryDirectory(dir=path) as folder:
            builder, width = Builder(self.factory, self.ef_construction, self.training, self.threads, Path(folder)), 0
            for shard in shards:
                width = one_width("faiss", width, shard.shape[1])
                all_finite(shard, "a document vector")
                builder.add(np.ascontiguousarray(shard, np.float32))
            builder.write(path / _INDEX)

    def open(self, path: Path) -> "FaissIndex":
        """Map what *build* wrote into memory, as far as Faiss can."""
        return FaissIndex(self, path)


class FaissIndex:
    """An opened index."""

    def __init__(self, settings: Faiss, path: Path) -> None:
        from lexbench.engines import _faiss

        self._library, self._threads = _faiss, settings.threads
        file = path / _INDEX
        self._index = _faiss.opened(file, settings.ef_search, settings.nprobe) if file.exists() else None

    def search(self, queries: NDArray[np.float32], k: int) -> Hits:
        """Return nearly the *k* largest inner products of each of *queries* (queries, dimensions), fewer where none was found.

        LexbenchError for queries of another width, or that are not finite.
        """
        if self._index is None:
            return no_hits(len(queries), 0)
        same_width(queries.shape[1], self._index.d, "dimensions")
        all_finite(queries, "a query vector")
        hits = no_hits(len(queries), min(k, self._index.ntotal))
        if not hits.docs.size:
            return hits
        with self._library.threads(self._threads):
            for start in range(0, len(queries), _QUERIES):
                some = slice(start, start + _QUERIES)
                scores, docs = self._index.search(np.ascontiguousarray(queries[some], np.float32), hits.docs.shape[1])
                hits.docs[some], hits.scores[some] = _ordered(docs, scores)
        return hits


def _ordered(docs: NDArray[np.int64], scores: NDArray[np.float32]) -> Hits:
    """Return what Faiss found (queries, k) in our order: equal scores by position, and last what is -1."""
    scores = np.where(docs < 0, np.float32(-np.inf), scores)
    order = np.lexsort((docs, -scores), axis=1)
    return Hits(np.take_along_axis(docs, order, axis=1).astype(np.int32), np.take_along_axis(scores, order, axis=1))
