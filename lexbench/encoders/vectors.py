"""Sparse vectors that another tool made: documents and queries are looked up by id in its files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from scipy import sparse

from lexbench.errors import CommandError, MissingData
from lexbench.plugins import Encoder
from lexbench.registry import runtime
from lexbench.storage.reading import cached_file_digest
from lexbench.types import Document, Kind, Query
from lexbench.vector_formats import FORMATS
from lexbench.vector_formats.blocks import Block, Vocabulary
from lexbench.vector_formats.lookup import VectorTable

_QUERIES = {"anserini": "anserini-topics"}  # format of documents: format of its queries, if it is another


@dataclass(frozen=True)
class Vectors(Encoder):
    """Documents and queries of one vocabulary, in files that `lexbench.vector_formats` reads.

    *format* is that of *documents*. *query_format* is by default the one that goes with it. *vocabulary* is a file with one
    token per line, for formats whose terms are strings; without it they are numbered in the order of the documents, so encoding
    queries reads the documents again. Query terms that no document has are left out. During a look-up the documents are in
    temporary files of eight bytes per term, and their ids in memory.
    """

    documents: str = field(metadata={"runtime": True})
    queries: str = field(metadata={"runtime": True})
    format: str = "anserini"
    query_format: str | None = None
    vocabulary: str | None = runtime(None)

    kind: ClassVar[Kind] = Kind.SPARSE
    names_terms: ClassVar[bool] = True
    version: ClassVar[int] = 1
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings, MissingData for missing files."""
        for name in ("format", "query_format"):
            value = getattr(self, name)
            known = [one for one, layout in FORMATS.items() if layout.reader]
            if value is not None and value not in known:
                raise CommandError(f"vectors({name}={value!r}): there is {', '.join(known)}")
        for name in ("documents", "queries", "vocabulary"):
            path = getattr(self, name)
            if path is not None and not Path(path).exists():
                raise MissingData(f"vectors({name}={path!r}): there is no such file")

    def identity(self) -> dict[str, Any]:
        """Return the digests of the files."""
        return self.index_identity() | {"queries": _digest(self.queries)}

    def index_identity(self) -> dict[str, Any]:
        """Return the digests of the files that decide document vectors."""
        return {name: _digest(getattr(self, name)) for name in ("documents", "vocabulary") if getattr(self, name)}

    def token(self, term: int) -> str:
        """Return the text of a term; its number in formats without tokens."""
        return self._documents.tokens[term] if FORMATS[self.format].tokens else str(term)

    def tokenise_documents(self, documents: Sequence[Document]) -> list[str]:
        """Return the ids of *documents*."""
        return [document.doc_id for document in documents]

    def encode_tokens(self, tokens: list[str], advance: Callable[[int], None]) -> sparse.csr_array:
        """Return the vectors (n, vocabulary) of document ids. Raises LexbenchError if the file lacks one."""
        vectors = self._documents.find(tokens, f"{self.documents} has no vector of document")
        advance(len(tokens))
        return vectors

    def encode_queries(self, queries: Sequence[Query]) -> sparse.csr_array:
        """Return the vectors (n, vocabulary) of queries. Raises LexbenchError if the file lacks one."""
        return self._queries.find([query.query_id for query in queries], f"{self.queries} has no vector of query")

    @property
    def _documents(self) -> VectorTable:
        return _read(_File.at(self.documents, self.format), _File.at(self.vocabulary), None)

    @property
    def _queries(self) -> VectorTable:
        terms = tuple(self._documents.tokens) if FORMATS[self.format].tokens else self._documents.width
        query_format = self.query_format or _QUERIES.get(self.format, self.format)
        return _read(_File.at(self.queries, query_format), _File.at(None), terms)


class _File(NamedTuple):
    """A file at the time of its last change; it is read again if it has changed."""

    path: str | None
    format: str
    modified: int  # ns

    @classmethod
    def at(cls, path: str | None, file_format: str = "") -> Self:
        """Return the file at *path*."""
        return cls(path, file_format, Path(path).stat().st_mtime_ns if path else 0)


@lru_cache(maxsize=2)
def _read(file: _File, vocabulary: _File, terms: tuple[str, ...] | int | None) -> VectorTable:
    """Return the vectors of *file*. For queries, *terms* are the terms of the documents: tokens, or their number."""
    words = Vocabulary.from_file(Path(vocabulary.path)) if vocabulary.path else Vocabulary()
    if isinstance(terms, tuple):
        words.numbers(terms)  # terms of the documents first, so that they keep their numbers
    width = len(terms) if isinstance(terms, tuple) else terms
    blocks = FORMATS[file.format].read(Path(str(file.path)), words if FORMATS[file.format].tokens else None)
    if width is not None:
        blocks = (Block(ids, vectors[:, :width] if vectors.shape[1] > width else vectors) for ids, vectors in blocks)
    table = VectorTable(blocks, lambda: words.tokens, Path(str(file.path)))
    table.width = table.width if width is None else width
    return table


def _digest(path: str) -> dict[str, str]:
    """Return the digest of a file, or of each file below a folder by its name there."""
    top = Path(path)
    files = sorted(file for file in top.rglob("*") if file.is_file()) if top.is_dir() else [top]
    return {file.relative_to(top).as_posix(): cached_file_digest(file) for file in files}
