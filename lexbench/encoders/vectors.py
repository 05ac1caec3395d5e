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
from lexbench.vector_formats.vector_table import VectorTable

_QUERIES = {"anserini": "anserini-topics"}  # the format of queries that goes with that of documents, where it is another


@dataclass(frozen=True)
class Vectors(Encoder):
    """Documents and queries of one vocabulary, in files that `lexbench.vector_formats` reads.

    *format* is that of *documents*; *query_format*, where it is not given, the one that goes with it. *vocabulary* is a file of
    one token a line, for formats whose terms are strings; without it they are numbered as they turn up, for which the documents
    have to be read again whenever queries are. Query terms that no document has are left out. While documents are looked up
    they are in temporary files of eight bytes a term, and their ids in memory.
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
        for name in ("format", "query_format"):
            value = getattr(self, name)
            if value is not None and value not in FORMATS:
                raise CommandError(f"vectors({name}={value!r}): there is {', '.join(FORMATS)}")
        for name in ("documents", "queries", "vocabulary"):
            path = getattr(self, name)
            if path is not None and not Path(path).exists():
                raise MissingData(f"vectors({name}={path!r}): there is no such file")

    def identity(self) -> dict[str, Any]:
        """Return the digests of the files, wherever they lie."""
        return self.index_identity() | {"queries": _digest(self.queries)}

    def index_identity(self) -> dict[str, Any]:
        """Return the digests of the files that document vectors come from."""
        return {name: _digest(getattr(self, name)) for name in ("documents", "vocabulary") if getattr(self, name)}

    def token(self, term: int) -> str:
        """Return a term as text; in formats without tokens that is its number."""
        return self._documents.tokens[term] if FORMATS[self.format].tokens else str(term)

    def tokenise_documents(self, documents: Sequence[Document]) -> list[str]:
        """Return the ids of *documents*, which stand for them."""
        return [document.doc_id for document in documents]

    def encode_tokens(self, tokens: list[str], advance: Callable[[int], None]) -> sparse.csr_array:
        """Return the vectors (n, vocabulary) of document ids; LexbenchError where the file does not have all of them."""
        vectors = self._documents.find(tokens, f"{self.documents} has no vector of document")
        advance(len(tokens))
        return vectors

    def encode_queries(self, queries: Sequence[Query]) -> sparse.csr_array:
        """Return the vectors (n, vocabulary) of queries; LexbenchError where the file does not have all of them."""
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
    """A file as it was when it was read: one that has been written since is another."""

    path: str | None
    format: str
    modified: int  # ns

    @classmethod
    def at(cls, path: str | None, file_format: str = "") -> Self:
        """Return what there is at *path*."""
        return cls(path, file_format, Path(path).stat().st_mtime_ns if path else 0)


@lru_cache(maxsize=2)
def _read(file: _File, vocabulary: _File, terms: tuple[str, ...] | int | None) -> VectorTable:
    """Return the vectors of *file*. Where these are queries, *terms* are those of the documents: tokens, or their number."""
    words = Vocabulary.from_file(Path(vocabulary.path)) if vocabulary.path else Vocabulary()
    if isinstance(terms, tuple):
        words.numbers(terms)  # numbered as those of the documents; what is new gets numbers behind them
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
