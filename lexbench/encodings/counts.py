"""Describes vectors in numbers that are the same on every machine, counted while an index is built from them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

from lexbench.types import Codes, MultiVectors

V = TypeVar("V", bound=Any)

_EXAMPLES = 5  # documents whose largest weights are kept for people to look at
_SHOWN = 8  # terms of each example
_FLOAT = 4  # bytes per dimension, however an index stores it
_BYTES = 3  # per posting: two for the number of its term, one for its weight (ReprByte of the LexMAE paper)


@dataclass
class DenseCounts:
    """The number, width and lengths of dense vectors, one per document or one per token, counted by `watch`."""

    dimensions: int = 0
    documents: int = 0
    vectors: int = 0
    bytes: float = 0.0  # of all documents
    empty: int = 0  # vectors of 0
    shortest: float = inf  # length above 0
    longest: float = 0.0

    def watch(self, shards: Iterable[V]) -> Iterator[V]:
        """Yield *shards*, matrices (n, dimensions), Codes or MultiVectors, unchanged, and count them."""
        for shard in shards:
            documents, self.dimensions = shard.shape
            self.documents += documents
            vectors = len(shard.values) if isinstance(shard, MultiVectors) else documents
            self.vectors += vectors
            if isinstance(shard, Codes):
                self.bytes += documents * shard.bytes_per_text
            else:
                self.bytes += vectors * self.dimensions * _FLOAT
                self._measure(shard.values if isinstance(shard, MultiVectors) else shard)
            yield shard

    def _measure(self, vectors: NDArray[np.float32]) -> None:
        """Count the lengths of *vectors* (n, dimensions)."""
        lengths = np.linalg.norm(vectors, axis=1)
        if (some := lengths[lengths > 0]).size:
            self.shortest, self.longest = min(self.shortest, float(some.min())), max(self.longest, float(some.max()))
        self.empty += int(np.count_nonzero(lengths == 0))

    def summary(self) -> dict[str, Any]:
        """Return the counts as a table."""
        vectors = self.vectors / max(self.documents, 1)  # per document
        size = self.bytes / max(self.documents, 1)
        return {"dimensions": self.dimensions, "vectors": vectors, "bytes_per_document": size}


@dataclass
class SparseCounts:
    """Counts of the sparse vectors of *documents* documents, made by `watch`."""

    documents: int
    document_frequency: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # (vocabulary,)
    lengths: list[NDArray[np.int64]] = field(default_factory=list)  # active terms per document
    examples: "dict[int, scipy.sparse.csr_array]" = field(default_factory=dict)  # by position

    def watch(self, shards: "Iterable[scipy.sparse.csr_array]") -> "Iterator[scipy.sparse.csr_array]":
        """Yield *shards* (n, vocabulary) unchanged, and count them."""
        examples = [self.documents * i // _EXAMPLES for i in range(_EXAMPLES)]
        first = 0  # position of the shard's first document
        for shard in shards:
            counts = np.bincount(shard.indices, minlength=shard.shape[1])
            self.document_frequency = counts if not len(self.document_frequency) else self.document_frequency + counts
            self.lengths.append(np.diff(shard.indptr).astype(np.int64))
            for position in examples:
                if first <= position < first + shard.shape[0]:
                    self.examples[position] = shard[[position - first]]
            first += shard.shape[0]
            yield shard

    def summary(self, doc_ids: NDArray[np.bytes_], token: Callable[[int], str]) -> dict[str, Any]:
        """Return the counts as a table; *token* returns the text of a term for the examples."""
        lengths = np.concatenate(self.lengths) if self.lengths else np.zeros(1, np.int64)
        return {
            "terms": spread(lengths),
            "empty": int((lengths == 0).sum()),
            "bytes_per_document": _BYTES * float(lengths.mean()),
            "examples": {doc_ids[position].decode(): largest(row, token) for position, row in sorted(self.examples.items())},
        }


def spread(values: NDArray[Any]) -> dict[str, float]:
    """Return the mean, median, 95th percentile and maximum of *values*; {} if there are none."""
    if not len(values):
        return {}
    low, high = np.percentile(values, [50, 95])
    return {"mean": float(values.mean()), "p50": float(low), "p95": float(high), "max": float(values.max())}


def largest(row: "scipy.sparse.csr_array", token: Callable[[int], str]) -> str:
    """Return the terms of the vector *row* (1, vocabulary) with the largest weights, e.g. 'apple 2.31, pie 1.8'."""
    order = np.lexsort((row.indices, -row.data))[:_SHOWN]
    return ", ".join(f"{token(int(row.indices[i]))} {row.data[i]:.4g}" for i in order)


def query_work(queries: "scipy.sparse.csr_array", document_frequency: NDArray[np.integer]) -> dict[str, NDArray[np.int64]]:
    """Return the work of each of *queries* (n, vocabulary): its terms, and the postings that an exhaustive search adds up."""
    postings = np.add.reduceat(np.append(document_frequency[queries.indices], 0), queries.indptr[:-1]) if queries.nnz else 0
    terms = np.diff(queries.indptr).astype(np.int64)
    return {"query_terms": terms, "postings": np.where(terms > 0, postings, 0).astype(np.int64)}
