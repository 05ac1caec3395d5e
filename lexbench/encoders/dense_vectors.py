"""Published dense vectors, e.g. of BEIR: documents and queries are looked up by id in their files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import CommandError, LexbenchError, MissingData
from lexbench.plugins import Encoder
from lexbench.storage.reading import cached_file_digest
from lexbench.types import Document, Kind, Query
from lexbench.vector_formats.lookup import DenseTable, dense_files

_LEAST = np.float32(1e-12)  # the least length to divide by


@dataclass(frozen=True)
class DenseVectors(Encoder):
    """Vectors of *documents* and *queries*: files of Parquet or JSON lines, or folders of them.

    A row has an id (docid, qid, _id, id) and a vector (vector, emb, embedding). *similarity* "cosine" makes vectors of length
    1. During a look-up all vectors are in a temporary file of four bytes per number, and their ids in memory.
    """

    documents: str = field(metadata={"runtime": True})
    queries: str = field(metadata={"runtime": True})
    similarity: str = "dot"

    kind: ClassVar[Kind] = Kind.DENSE
    family: ClassVar[str] = "dense"
    version: ClassVar[int] = 1
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings, MissingData for missing files."""
        if self.similarity not in ("dot", "cosine"):
            raise CommandError(f"dense_vectors(similarity={self.similarity!r}): there is dot, cosine")
        for name in ("documents", "queries"):
            if not Path(path := getattr(self, name)).exists():
                raise MissingData(f"dense_vectors({name}={path!r}): there is no such file")

    def identity(self) -> dict[str, Any]:
        """Return the digests of the files."""
        return self.index_identity() | {"queries": _digests(self.queries)}

    def index_identity(self) -> dict[str, Any]:
        """Return the digests of the files that decide document vectors."""
        return {"documents": _digests(self.documents)}

    def tokenise_documents(self, documents: Sequence[Document]) -> list[str]:
        """Return the ids of *documents*."""
        return [document.doc_id for document in documents]

    def encode_tokens(self, tokens: list[str], advance: Callable[[int], None]) -> NDArray[np.float32]:
        """Return the vectors (n, dimensions) of document ids. Raises LexbenchError if the files lack one."""
        vectors = self._scaled(_table(self.documents).find(tokens, f"{self.documents} has no vector of document"))
        advance(len(tokens))
        return vectors

    def encode_queries(self, queries: Sequence[Query]) -> NDArray[np.float32]:
        """Return the vectors (n, dimensions) of queries. Raises LexbenchError if the files lack one, or do not fit."""
        table, width = _table(self.queries), _table(self.documents).width
        if table.width != width:
            raise LexbenchError(f"{self.queries}: vectors of {table.width} dimensions, and {self.documents} has {width}")
        return self._scaled(table.find([query.query_id for query in queries], f"{self.queries} has no vector of query"))

    def _scaled(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.similarity == "dot":
            return vectors
        scaled: NDArray[np.float32] = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), _LEAST)
        return scaled


def _table(path: str) -> DenseTable:
    return _read(path, tuple(_digests(path).items()))


@lru_cache(maxsize=2)
def _read(path: str, _content: tuple[tuple[str, str], ...]) -> DenseTable:
    """Return the table of files; it is read again if their content has changed."""
    return DenseTable(Path(path))


def _digests(path: str) -> dict[str, str]:
    """Return the digest of a file, or of each file of vectors in a folder, by its name there."""
    top = Path(path)
    return {file.relative_to(top).as_posix(): cached_file_digest(file) for file in dense_files(top)}
