"""Exact sparse search on unquantised weights: scipy's product of the queries with the transposed document matrix.

Faster engines are tested against it. Encoder objects with sparse vectors use it unless they name an engine.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench.engines.kernels.checks import fill, no_hits, same_width
from lexbench.plugins import Engine, Index
from lexbench.types import Hits, Kind

_QUERIES = 64  # multiplied at a time: their products with all documents are in memory


@dataclass(frozen=True)
class CsrIndex(Index):
    """Postings by term: row t holds the documents that have term t."""

    postings: sparse.csr_array  # (vocabulary, documents)

    def search(self, queries: sparse.csr_array, k: int) -> Hits:
        """Return the *k* largest dot products of each of *queries* (queries, vocabulary); hits share a term with the query."""
        vocabulary, documents = self.postings.shape
        k = min(k, documents)
        hits = no_hits(queries.shape[0], k)
        if not documents:  # the vocabulary is unknown
            return hits
        same_width(queries.shape[1], vocabulary)
        for start in range(0, queries.shape[0], _QUERIES):
            products = sparse.csr_array(queries[start : start + _QUERIES] @ self.postings)
            products.sort_indices()  # so that the first of equal scores is the lowest position
            for row in range(products.shape[0]):
                matches = slice(products.indptr[row], products.indptr[row + 1])
                docs, scores = products.indices[matches], products.data[matches]
                best = _largest(scores, k)
                fill(hits, start + row, docs[best], scores[best])
        return hits


@dataclass(frozen=True)
class Csr(Engine):
    """The documents' matrix, transposed once and multiplied with the queries."""

    kind: ClassVar[Kind] = Kind.SPARSE
    exact: ClassVar[bool] = True
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


def _largest(scores: NDArray[np.float32], k: int) -> NDArray[np.int64]:
    """Return the indices of the *k* largest of *scores* (n,), in any order; of equal scores the first ones."""
    if k >= len(scores):
        return np.arange(len(scores))
    threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
    above, level = np.flatnonzero(scores > threshold), np.flatnonzero(scores == threshold)
    return np.concatenate([above, level[: k - len(above)]])
