"""BMP (A. Mallia, T. Suel, N. Tonellotto, "Faster Learned Sparse Retrieval with Block-Max Pruning", SIGIR 2024), package bmp.

An engine for engines.py alone. Query weights are made numbers of few bits by the package, so that its answers are exact for
those and not for the weights that it is given. Documents' weights go up to 255.
"""

from collections.abc import Iterable
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lexbench.engines.kernels.checks import fill, no_hits
from lexbench.plugins import Engine, Index
from lexbench.types import Hits


class Bmp(Engine):
    """BMP with blocks of *block* documents; *alpha* 1 leaves out what cannot be among the best, less leaves out more."""

    def __init__(self, block: int = 32, alpha: float = 1.0) -> None:
        self._block, self._alpha = block, alpha

    def build(self, shards: Iterable[sparse.csr_array], path: Path) -> None:
        """Write the index of *shards* (n, vocabulary)."""
        indexer = import_module("bmp").Indexer(str(path / "index.bmp"), bsize=self._block, compress_range=False)
        position = 0
        for shard in shards:
            names, weights = list(map(str, shard.indices.tolist())), shard.data.astype(int).tolist()
            for start, stop in pairwise(shard.indptr.tolist()):
                indexer.add_document(str(position), dict(zip(names[start:stop], weights[start:stop], strict=True)))
                position += 1
        indexer.finish()

    def open(self, path: Path) -> "BmpIndex":
        """Read the index into memory."""
        return BmpIndex(import_module("bmp").Searcher(str(path / "index.bmp")), self._alpha)


class BmpIndex(Index):
    """An opened index."""

    def __init__(self, searcher: Any, alpha: float) -> None:
        self._searcher, self._alpha = searcher, alpha

    def prepare(self, queries: sparse.csr_array) -> list[dict[str, float]]:
        """Return each of *queries* as BMP takes it: weights by the names of terms."""
        names, weights = list(map(str, queries.indices.tolist())), queries.data.astype(float).tolist()
        rows = pairwise(queries.indptr.tolist())
        return [dict(zip(names[start:stop], weights[start:stop], strict=True)) for start, stop in rows]

    def retrieve(self, prepared: list[dict[str, float]], k: int) -> list[tuple[list[str], list[float]]]:
        """Return BMP's answer to each prepared query: names of documents and scores."""
        return [self._searcher.search(query, k=k, alpha=self._alpha, beta=1.0) for query in prepared]

    def search(self, queries: sparse.csr_array, k: int) -> Hits:
        """Return the hits of *queries* (queries, vocabulary)."""
        hits = no_hits(queries.shape[0], k)
        for row, (names, scores) in enumerate(self.retrieve(self.prepare(queries), k)):
            fill(hits, row, np.array(names, np.int32), np.array(scores, np.float32))
        return hits
