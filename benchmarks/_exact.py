"""Exact answers to hold engines against: scipy's products of the same whole numbers, by another way than any engine goes."""

import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


class Truth:
    """The exact best scores, and the true scores of what engines found, in one pass over the documents."""

    def __init__(self, queries: sparse.csr_array, documents: Callable[[], Iterator[sparse.csr_array]], most: int) -> None:
        self.queries, self.most = queries, most
        self.documents = documents  # what yields shards of them (n, vocabulary)
        self.best = np.zeros((queries.shape[0], 0), np.int64)  # the *most* largest scores of each query, best first
        self.found: dict[tuple[str, int], tuple[NDArray[Any], NDArray[Any]]] = {}
        self.true: dict[tuple[str, int], NDArray[np.int64]] = {}

    def add(self, label: str, k: int, file: Path) -> None:
        """Add the hits of an engine."""
        with np.load(file) as arrays:
            self.found[label, k] = arrays["docs"], arrays["scores"]
        self.true[label, k] = np.zeros(self.found[label, k][0].shape, np.int64)

    def compute(self, rows: int = 64) -> None:
        """Multiply, *rows* queries at a time with one shard."""
        first = 0
        for shard in self.documents():
            postings = sparse.csr_array(shard.astype(np.int64).T.tocsr())
            parts = []
            for start in range(0, self.queries.shape[0], rows):
                products = (self.queries[start : start + rows].astype(np.int64) @ postings).toarray()
                for key, (docs, _) in self.found.items():
                    at, rank = np.nonzero(
                        (docs[start : start + rows] >= first) & (docs[start : start + rows] < first + shard.shape[0])
                    )
                    self.true[key][start + at, rank] = products[at, docs[start + at, rank] - first]
                keep = min(self.most, products.shape[1])
                parts.append(np.partition(products, products.shape[1] - keep, axis=1)[:, -keep:])
            self.best = -np.sort(-np.concatenate([self.best, np.concatenate(parts)], axis=1), axis=1)[:, : self.most]
            first += shard.shape[0]

    def verdict(self, label: str, k: int) -> dict[str, Any]:
        """Return how an engine's hits compare with the exact ones."""
        (docs, scores), true = self.found[label, k], self.true[label, k]
        counts = np.minimum(k, (self.best > 0).sum(axis=1))
        overlaps = [
            float((own[at >= 0] >= best[count - 1]).sum() / count)
            for own, at, best, count in zip(true, docs, self.best, counts, strict=True)
            if count
        ]
        given = np.where(docs >= 0, scores, 0).astype(np.int64)
        width = min(given.shape[1], self.best.shape[1], k)
        right = bool(np.array_equal(given, true))  # each document has the score that the engine says
        same = right and bool(np.array_equal(given[:, :width], self.best[:, :width]))
        return {"overlap": statistics.mean(overlaps), "exact": same, "scores_true": right}
