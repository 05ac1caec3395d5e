"""Sparse vectors that another tool made: documents and queries are looked up by id in its files."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from scipy import sparse

from lexbench.errors import CommandError, MissingData
from lexbench.plugins import Encoder
from lexbench.registry import runtime
from lexbench.storage.reading import digests_below
from lexbench.types import Document, Kind, Query
from lexbench.vector_formats.blocks import Vocabulary
from lexbench.vector_formats.json_lines import FORMATS
from lexbench.vector_formats.lookup import VectorTable


@dataclass(frozen=True)
class LookedUp(Encoder):
    """Base class of encoders that look up the vectors of *documents* and *queries* by id, in files or folders."""

    documents: str = field(metadata={"runtime": True})  # the digests of files are in the key instead
    queries: str = field(metadata={"runtime": True})

    looks_up: ClassVar[bool] = True
    deterministic: ClassVar[bool] = True
    document_files: ClassVar[tuple[str, ...]] = ("documents",)  # settings that name files which decide document vectors

    def __post_init__(self) -> None:
        """Raise MissingData for missing files."""
        for name in (*self.document_files, "queries"):
            path = getattr(self, name)
            if path is not None and not Path(path).exists():
                raise MissingData(f"{type(self).__module__.rpartition('.')[2]}({name}={path!r}): there is no such file")

    def identity(self) -> dict[str, Any]:
        """Return the digests of the files."""
        return self.index_identity() | {"queries": digests_below(self.queries)}

    def index_identity(self) -> dict[str, Any]:
        """Return the digests of the files that decide document vectors."""
        return {name: digests_below(path) for name in self.document_files if (path := getattr(self, name))}

    def tokenise_documents(self, documents: Sequence[Document]) -> list[str]:
        """Return the ids of *documents*."""
        return [document.doc_id for document in documents]

    def encode_tokens(self, tokens: list[str], advance: Callable[[int], None]) -> Any:
        """Return the vectors of document ids. Raises LexbenchError if the files lack one."""
        vectors = self._of_documents(tokens)
        advance(len(tokens))
        return vectors

    @abstractmethod
    def _of_documents(self, ids: list[str]) -> Any:
        """Return the vectors of document *ids*."""


@dataclass(frozen=True)
class Vectors(LookedUp):
    """Documents and queries of one vocabulary, in files that `lexbench.vector_formats` reads.

    *format* is the format of *documents*; *queries* are in the format that goes with it. *vocabulary* is a file with one token
    per line. Without it, terms are numbered in the order of the documents, so encoding queries reads the documents again.
    Query terms that no document has are left out. During a look-up the documents are in temporary files of eight bytes per
    term, and their ids in memory.
    """

    format: str = "anserini"
    vocabulary: str | None = runtime(None)

    kind: ClassVar[Kind] = Kind.SPARSE
    names_terms: ClassVar[bool] = True
    document_files: ClassVar[tuple[str, ...]] = ("documents", "vocabulary")

    def __post_init__(self) -> None:
        """Raise CommandError for impossible settings, MissingData for missing files."""
        if self.format not in FORMATS:
            raise CommandError(f"vectors(format={self.format!r}): there is {', '.join(FORMATS)}")
        super().__post_init__()

    def token(self, term: int) -> str:
        """Return the text of a term."""
        return self._table.tokens[term]

    def encode_queries(self, queries: Sequence[Query]) -> sparse.csr_array:
        """Return the vectors (n, vocabulary) of queries. Raises LexbenchError if the file lacks one."""
        terms = tuple(self._table.tokens)
        query_format = FORMATS[self.format].queries or self.format
        table = _read(self.queries, query_format, None, terms, tuple(digests_below(self.queries).items()))
        vectors = table.find([query.query_id for query in queries], f"{self.queries} has no vector of query")
        return vectors[:, : len(terms)]

    def _of_documents(self, ids: list[str]) -> sparse.csr_array:
        return self._table.find(ids, f"{self.documents} has no vector of document")

    @property
    def _table(self) -> VectorTable:
        content = tuple(digest for files in self.index_identity().values() for digest in files.items())
        return _read(self.documents, self.format, self.vocabulary, (), content)


@lru_cache(maxsize=2)
def _read(
    path: str,
    file_format: str,
    vocabulary: str | None,
    terms: tuple[str, ...],
    _content: tuple[tuple[str, str], ...],
) -> VectorTable:
    """Return the vectors of a file; it is read again if its content has changed.

    For queries, *terms* are the tokens of the documents, which get the first numbers.
    """
    words = Vocabulary.from_file(Path(vocabulary)) if vocabulary else Vocabulary()
    words.numbers(terms)
    return VectorTable(FORMATS[file_format].read(Path(path), words), words, Path(path))
