"""Exact sparse search on unquantised weights: scipy's product of the queries with the transposed document matrix.

The reference that faster engines are held against, and what an encoder object without an engine is searched with.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from scipy import sparse

from lexbench.engines.kernels.top_k import best_of_row, no_hits, same_width
from lexbench.types import Hits, Kind

_QUERIES = 64  # multiplied at a time: the product of a block is kept whole, at most this many rows of all documents


@dataclass(frozen=True)
class CsrIndex:
    """Postings by term: row t holds the documents that have term t."""

    postings: sparse.csr_array  # (vocabulary, documents)

    def search(self, queries: sparse.csr_array, k: int) -> Hits:
        """Return the *k* largest dot products of each of *queries* (queries, vocabulary); no common term, no hit."""
        if self.postings.shape[1]:
            same_width(queries.shape[1], self.postings.shape[0])
        k = min(k, self.postings.shape[1])
        hits = no_hits(queries.shape[0], k)
        for start in range(0, queries.shape[0], _QUERIES):
            products = sparse.csr_array(queries[start : start + _QUERIES] @ self.postings)
            products.sort_indices()  # so that "the first of equals" is the lowest position
            for row in range(products.shape[0]):
                inside = slice(products.indptr[row], products.indptr[row + 1])
                docs, scores = products.indices[inside], products.data[inside]
                best = best_of_row(scores, k)
                hits.docs[start + row, : len(best)] = docs[best]
                hits.scores[start + row, : len(best)] = scores[best]
        return hits


@dataclass(frozen=True)
class Csr:
    """The documents' matrix, transposed once and multiplied with the queries."""

    kind: ClassVar[Kind] = Kind.SPARSE
    version: ClassVar[int] = 1
    deterministic: ClassVar[bool] = True

    def build(self, shards: Iterable[sparse.csr_array], path: Path) -> None:
        """Write the transposed matrix of all *shards* (n, vocabulary); it is held in memory once."""
        blocks = list(shards)
        documents = sparse.vstack(blocks, format="csr") if blocks else sparse.csr_array((0, 0), dtype=np.float32)
        postings = sparse.csr_array(documents.T.tocsr())
        for name, array in (("data", postings.data), ("indices", postings.indices), ("indptr", postings.indptr)):
            np.save(path / f"{name}.npy", array)
        np.save(path / "shape.npy", np.array(postings.shape))

    def open(self, path: Path) -> CsrIndex:
        """Map the postings into memory."""
        parts = tuple(np.load(path / f"{name}.npy", mmap_mode="r") for name in ("data", "indices", "indptr"))
        return CsrIndex(sparse.csr_array(parts, shape=tuple(np.load(path / "shape.npy"))))
