"""What engines are compared on: made-up documents of any number, or a folder of real vectors. Whole weights as float32."""

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Protocol

import _synthetic
import numpy as np
from scipy import sparse


class Collection(Protocol):
    """Documents and queries; documents are streamed, the same ones each time."""

    documents: int  # how many there are
    vocabulary: int
    kind: str  # what the documents are, in a word or two
    queries_are: str

    def shards(self, most: int | None = None) -> Iterator[sparse.csr_array]:
        """Yield the documents, or the first *most*, in shards (n, vocabulary)."""

    def queries(self, most: int) -> sparse.csr_array:
        """Return the first *most* queries (queries, vocabulary)."""


class Synthetic:
    """Made-up documents and SPLADE-v3's queries, or drawn ones: see _synthetic.py."""

    vocabulary = _synthetic.VOCABULARY
    kind = "synthetic"

    def __init__(self, documents: int) -> None:
        self.documents = documents
        shared = os.environ.get("LEXBENCH_SHARED") or Path(__file__).parents[2] / "shared"
        self.queries_are = "SPLADE-v3, MS MARCO dev/small" if (Path(shared) / _synthetic.TOPICS).is_file() else "synthetic"

    def shards(self, most: int | None = None) -> Iterator[sparse.csr_array]:
        """Yield the documents, or the first *most*."""
        return _synthetic.documents(self.documents if most is None else min(most, self.documents))

    def queries(self, most: int) -> sparse.csr_array:
        """Return the first *most* queries."""
        return _synthetic.queries(most=most)


class Stored:
    """The documents.npz and queries.npz of a *folder*: see real_vectors.py; *most* of the documents, or all."""

    kind = "real"
    queries_are = "real"

    def __init__(self, folder: Path, most: int | None) -> None:
        self._folder, self._most = folder, most

    @cached_property
    def _matrix(self) -> sparse.csr_array:
        return sparse.csr_array(sparse.load_npz(self._folder / "documents.npz"), dtype=np.float32)[: self._most]

    @property
    def documents(self) -> int:
        """How many documents there are."""
        rows: int = self._matrix.shape[0]
        return rows

    @property
    def vocabulary(self) -> int:
        """How many terms there are."""
        columns: int = self._matrix.shape[1]
        return columns

    def shards(self, most: int | None = None) -> Iterator[sparse.csr_array]:
        """Yield the documents, or the first *most*."""
        last = self.documents if most is None else min(most, self.documents)
        for start in range(0, last, _synthetic.SHARD):
            yield self._matrix[start : min(last, start + _synthetic.SHARD)]

    def queries(self, most: int) -> sparse.csr_array:
        """Return the first *most* queries."""
        return sparse.csr_array(sparse.load_npz(self._folder / "queries.npz"), dtype=np.float32)[:most]


def collection(vectors: Path | None, documents: int | None) -> Collection:
    """Return the collection in the folder *vectors*, or a made-up one; of *documents*, or of all and of 200,000."""
    return Stored(vectors, documents) if vectors else Synthetic(documents or 200_000)
