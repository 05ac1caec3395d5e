"""Sparse vectors that another tool made: documents and queries are looked up by id in its files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from scipy import sparse

from lexbench.errors import CommandError, MissingData
from lexbench.registry import runtime
from lexbench.storage.reading import cached_file_digest
from lexbench.types import Document, Kind, Query
from lexbench.vector_formats import FORMATS
from lexbench.vector_formats.blocks import Block, Vocabulary
from lexbench.vector_formats.vector_table import VectorTable

_QUERIES = {"anserini": "anserini-topics"}  # the format of queries that goes with one of documents, where it is another


@dataclass(frozen=True)
class Vectors:
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
    version: ClassVar[int] = 1
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("format", "query_format"):
            given = getattr(self, name)
            if given is not None and given not in FORMATS:
                raise CommandError(f"vectors({name}={given!r}): there is {', '.join(FORMATS)}")
        for name in ("documents", "queries", "vocabulary"):
            place = getattr(self, name)
            if place is not None and not Path(place).exists():
                raise MissingData(f"vectors({name}={place!r}): there is no such file")

    def identity(self) -> dict[str, Any]:
        """Return the digests of the files, wherever they lie."""
        return self.index_identity() | {"queries": _digest(self.queries)}

    def index_identity(self) -> dict[str, Any]:
        """Return those of the files that document vectors come from."""
        return {name: _digest(getattr(self, name)) for name in ("documents", "vocabulary") if getattr(self, name)}

    def token(self, term: int) -> str:
        """Return a term as text."""
        return self._documents.tokens[term] if FORMATS[self.format].tokens else str(term)

    def tokenise_documents(self, documents: Sequence[Document]) -> list[str]:
        """Return the ids."""
        return [document.doc_id for document in documents]

    def encode_tokens(self, tokens: list[str], advance: Callable[[int], None]) -> sparse.csr_array:
        """Return the vectors (n, vocabulary) of document ids; LexbenchError where the file does not have all of them."""
        vectors = self._documents.find(tokens, f"{self.documents} has no vector of document")
        advance(len(tokens))
        return vectors

    def encode_queries(self, queries: Sequence[Query]) -> sparse.csr_array:
        """Return the vectors (n, vocabulary) of queries; LexbenchError where the file does not have all of them."""
        wanted = [query.query_id for query in queries]
        return self._queries.find(wanted, f"{self.queries} has no vector of query")

    @property
    def _documents(self) -> VectorTable:
        return _read(_seen(self.documents, self.format), _seen(self.vocabulary, ""), None)

    @property
    def _queries(self) -> VectorTable:
        known = tuple(self._documents.tokens) if FORMATS[self.format].tokens else self._documents.width
        layout = self.query_format or _QUERIES.get(self.format, self.format)
        return _read(_seen(self.queries, layout), _seen(None, ""), known)


class _Seen(NamedTuple):
    """A file as it was when it was looked at."""

    path: str | None
    layout: str
    changed: int


def _seen(path: str | None, layout: str) -> _Seen:
    return _Seen(path, layout, Path(path).stat().st_mtime_ns if path else 0)


@lru_cache(maxsize=2)
def _read(file: _Seen, vocabulary: _Seen, known: tuple[str, ...] | int | None) -> VectorTable:
    """Return the vectors of *file*; *known* is what documents have, tokens or a width, where these are queries."""
    words = Vocabulary.from_file(Path(vocabulary.path)) if vocabulary.path else Vocabulary()
    if isinstance(known, tuple):
        words.numbers(known)  # numbered as those of the documents; what is new gets numbers behind them
    width = len(known) if isinstance(known, tuple) else known
    blocks = FORMATS[file.layout].read(Path(str(file.path)), words if FORMATS[file.layout].tokens else None)
    if width is not None:
        blocks = (Block(ids, vectors[:, :width] if vectors.shape[1] > width else vectors) for ids, vectors in blocks)
    table = VectorTable(blocks, lambda: words.tokens)
    table.width = table.width if width is None else width
    return table


def _digest(path: str) -> dict[str, str]:
    """Return the digest of a file, or of each file below a folder by its name there."""
    top = Path(path)
    files = sorted(file for file in top.rglob("*") if file.is_file()) if top.is_dir() else [top]
    return {file.relative_to(top).as_posix(): cached_file_digest(file) for file in files}
