"""Published dense vectors, e.g. of BEIR: documents and queries are looked up by id in their files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self, TypeAlias
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from lexbench.arrays.vectors import SIMILARITIES, metric_of, unit_length
from lexbench.encoders.vectors import LookedUp
from lexbench.errors import CommandError, LexbenchError, MissingData
from lexbench.registry import runtime
from lexbench.storage.reading import digests_below
from lexbench.types import Kind, Query
from lexbench.vector_formats.arrays import ids_beside, write_array
from lexbench.vector_formats.lookup import DenseTable, dense_files

Vectors: TypeAlias = Mapping[Any, Any] | tuple[Sequence[Any], Any]  # by id, or ids and an array (n, dimensions)


@dataclass(frozen=True)
class DenseVectors(LookedUp):
    """Vectors of *documents* and *queries*: files of Parquet, JSON lines or NumPy, or folders of them.

    A row has an id (docid, qid, _id, id) and a vector (vector, emb, embedding). An .npz file has an array of each. The ids of
    an .npy file are in the file *document_ids* or *query_ids*, or beside it, e.g. vectors.ids for vectors.npy. *similarity*
    "cosine" makes vectors of length 1; "euclidean" and "manhattan" are for `flat`.

    During a look-up all vectors are in a temporary file of four bytes per number, and their ids in memory.
    """

    similarity: str = "dot"
    document_ids: str | None = runtime(None)  # the digests of files are in the key instead
    query_ids: str | None = runtime(None)

    kind: ClassVar[Kind] = Kind.DENSE
    family: ClassVar[str] = "dense"
    document_files: ClassVar[tuple[str, ...]] = ("documents", "document_ids")

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings, MissingData for missing files."""
        if self.similarity not in SIMILARITIES:
            raise CommandError(f"dense_vectors(similarity={self.similarity!r}): there is {', '.join(SIMILARITIES)}")
        super().__post_init__()
        for path in (self.documents, self.queries):
            dense_files(Path(path))  # raises InvalidFile for other files
        if self.query_ids is not None and not Path(self.query_ids).exists():
            raise MissingData(f"dense_vectors(query_ids={self.query_ids!r}): there is no such file")

    @classmethod
    def from_arrays(cls, documents: Vectors, queries: Vectors, similarity: str = "dot") -> Self:
        """Return an encoder of vectors in memory, for `lexbench.run`: {id: vector}, or ids with an array (n, dimensions).

        They are kept in temporary files until the process ends. Raises InvalidFile for ids or vectors that no file could have.
        """
        folder = Path(_temporary_folder().name) / uuid4().hex
        folder.mkdir()
        files = folder / "documents.npy", folder / "queries.npy"
        for file, vectors in zip(files, (documents, queries), strict=True):
            ids, values = (list(vectors), list(vectors.values())) if isinstance(vectors, Mapping) else vectors
            write_array(file, list(ids), values)
        return cls(documents=str(files[0]), queries=str(files[1]), similarity=similarity)

    def identity(self) -> dict[str, Any]:
        """Return the digests of the files, also of those with ids."""
        return super().identity() | _ids_digest("query_ids", self.queries, self.query_ids)

    def index_identity(self) -> dict[str, Any]:
        """Return the digests of the files that decide document vectors."""
        return super().index_identity() | _ids_digest("document_ids", self.documents, self.document_ids)

    @property
    def metric(self) -> str:  # type: ignore[override] # a setting decides it
        """The similarity, if vectors are not multiplied."""
        return metric_of(self.similarity)

    def encode_queries(self, queries: Sequence[Query]) -> NDArray[np.float32]:
        """Return the vectors (n, dimensions) of queries. Raises LexbenchError if the files lack one, or do not fit."""
        table, width = _table(self.queries, self.query_ids), self._documents.width
        if table.width != width:
            raise LexbenchError(f"{self.queries}: vectors of {table.width} dimensions, and {self.documents} has {width}")
        return self._scaled(table.find([query.query_id for query in queries], f"{self.queries} has no vector of query"))

    def _of_documents(self, ids: list[str]) -> NDArray[np.float32]:
        return self._scaled(self._documents.find(ids, f"{self.documents} has no vector of document"))

    @property
    def _documents(self) -> DenseTable:
        return _table(self.documents, self.document_ids)

    def _scaled(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        scaled: NDArray[np.float32] = unit_length(vectors) if self.similarity == "cosine" else vectors
        return scaled


@cache
def _temporary_folder() -> TemporaryDirectory[str]:
    """Return a folder that is removed when the process ends."""
    return TemporaryDirectory()


def _ids_digest(name: str, path: str, ids: str | None) -> dict[str, Any]:
    """Return the digest of the file of *ids* of an .npy file, or of the one beside it, under *name*."""
    file = ids or (ids_beside(Path(path)) if path.endswith(".npy") else None)
    return {name: list(digests_below(str(file)).values())} if file else {}


def _table(path: str, ids: str | None) -> DenseTable:
    """Return the vectors of the files at *path*."""
    content = (*digests_below(path).items(), *(("ids", digest) for digest in _ids_digest("", path, ids).get("", ())))
    return _read(path, ids, content)


@lru_cache(maxsize=2)
def _read(path: str, ids: str | None, _content: tuple[tuple[str, str], ...]) -> DenseTable:
    """Return the table of files; it is read again if their content has changed."""
    return DenseTable(Path(path), Path(ids) if ids else None)
