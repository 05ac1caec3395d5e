"""BMP (Mallia, Suel, Tonellotto, "Faster Learned Sparse Retrieval with Block-Max Pruning", SIGIR 2024) as an engine.

The package `bmp` is its authors'. engines.py uses it.
Its indexes have 8-bit weights, so weights above 255 become 255. It also rounds the weights of queries, so it is not exact.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import bmp
import numpy as np
from scipy import sparse

from lexbench.engines.kernels.checks import no_hits
from lexbench.plugins import Engine, Index
from lexbench.types import Hits, Kind


@dataclass(frozen=True)
class Bmp(Engine):
    """BMP with blocks of *block* documents."""

    block: int

    kind: ClassVar[Kind] = Kind.SPARSE

    def build(self, shards: Iterable[sparse.csr_array], path: Path) -> None:
        """Write the index of *shards* (n, vocabulary)."""
        indexer, position = bmp.Indexer(str(path / "bmp"), bsize=self.block, compress_range=False), 0
        for shard in shards:
            terms, weights = list(map(str, shard.indices.tolist())), np.minimum(shard.data, 255).astype(int).tolist()
            for start, stop in pairwise(shard.indptr.tolist()):
                indexer.add_document(str(position), dict(zip(terms[start:stop], weights[start:stop], strict=True)))
                position += 1
        indexer.finish()

    def open(self, path: Path) -> "BmpIndex":
        """Read the index into memory."""
        return BmpIndex(path)


class BmpIndex(Index):
    """An opened index."""

    def __init__(self, path: Path) -> None:
        self._searcher = bmp.Searcher(str(path / "bmp"))

    def prepare(self, queries: sparse.csr_array) -> list[dict[str, float]]:
        """Return each of *queries* (queries, vocabulary) in BMP's form."""
        terms, weights = list(map(str, queries.indices.tolist())), queries.data.astype(float).tolist()
        rows = pairwise(queries.indptr.tolist())
        return [dict(zip(terms[start:stop], weights[start:stop], strict=True)) for start, stop in rows]

    def retrieve(self, prepared: list[dict[str, float]], k: int) -> list[Any]:
        """Return the names of documents and the scores of each prepared query."""
        return [self._searcher.search(query, k=k, alpha=1.0, beta=1.0) for query in prepared]

    def search(self, queries: sparse.csr_array, k: int) -> Hits:
        """Return the *k* best documents of each of *queries* (queries, vocabulary)."""
        hits = no_hits(queries.shape[0], k)
        for row, (names, scores) in enumerate(self.retrieve(self.prepare(queries), k)):
            hits.docs[row, : len(names)], hits.scores[row, : len(names)] = np.array(names, int), scores
        return hits
