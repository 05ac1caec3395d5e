"""Published dense vectors, e.g. of BEIR: documents and queries are looked up by id in their files."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.encoders.vectors import LookedUp, digests_below
from lexbench.errors import CommandError, LexbenchError
from lexbench.types import Kind, Query
from lexbench.vector_formats.lookup import DenseTable, dense_files
from lexbench.vectors import SIMILARITIES, metric_of, unit_length


@dataclass(frozen=True)
class DenseVectors(LookedUp):
    """Vectors of *documents* and *queries*: files of Parquet or JSON lines, or folders of them.

    A row has an id (docid, qid, _id, id) and a vector (vector, emb, embedding). *similarity* "cosine" makes vectors of length
    1; "euclidean" and "manhattan" are for `flat`. During a look-up all vectors are in a temporary file of four bytes per
    number, and their ids in memory.
    """

    similarity: str = "dot"

    kind: ClassVar[Kind] = Kind.DENSE
    family: ClassVar[str] = "dense"

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings, MissingData for missing files."""
        if self.similarity not in SIMILARITIES:
            raise CommandError(f"dense_vectors(similarity={self.similarity!r}): there is {', '.join(SIMILARITIES)}")
        super().__post_init__()
        for path in (self.documents, self.queries):
            dense_files(Path(path))  # raises InvalidFile for other files

    @property
    def metric(self) -> str:  # type: ignore[override] # a setting decides it
        """The similarity, if vectors are not multiplied."""
        return metric_of(self.similarity)

    def encode_queries(self, queries: Sequence[Query]) -> NDArray[np.float32]:
        """Return the vectors (n, dimensions) of queries. Raises LexbenchError if the files lack one, or do not fit."""
        table, width = _table(self.queries), _table(self.documents).width
        if table.width != width:
            raise LexbenchError(f"{self.queries}: vectors of {table.width} dimensions, and {self.documents} has {width}")
        return self._scaled(table.find([query.query_id for query in queries], f"{self.queries} has no vector of query"))

    def _of_documents(self, ids: list[str]) -> NDArray[np.float32]:
        return self._scaled(_table(self.documents).find(ids, f"{self.documents} has no vector of document"))

    def _scaled(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        scaled: NDArray[np.float32] = unit_length(vectors) if self.similarity == "cosine" else vectors
        return scaled


def _table(path: str) -> DenseTable:
    """Return the vectors of the files at *path*."""
    return _read(path, tuple(digests_below(path).items()))


@lru_cache(maxsize=2)
def _read(path: str, _content: tuple[tuple[str, str], ...]) -> DenseTable:
    """Return the table of files; it is read again if their content has changed."""
    return DenseTable(Path(path))
