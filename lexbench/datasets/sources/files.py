"""Datasets in files of the user: BEIR folders, files of MS MARCO and TREC, and mixtures of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self

from lexbench.contracts import Contract
from lexbench.datasets.records import document, numbered_records, read_queries, read_records, read_trec_topics
from lexbench.datasets.sources import missing
from lexbench.errors import InvalidFile
from lexbench.plugins import Source
from lexbench.storage.reading import COMPRESSED, cached_file_digest
from lexbench.trec.qrels import read_judgements
from lexbench.types import Document, Judgement, Query

CORPUS = ("corpus.jsonl", "collection.tsv")
_TOPICS = tuple(f"topics{split}.{end}" for end in ("txt", "xml", "tsv") for split in (".{split}", ""))
_QUERIES = ("queries.jsonl", "queries.{split}.tsv", "queries.tsv", *_TOPICS)
_QRELS = ("qrels/{split}.tsv", "qrels.{split}.tsv", "qrels.tsv", "qrels.txt")


@dataclass(frozen=True)
class Files(Source):
    """A dataset with one file each for corpus, queries and qrels, plain or compressed (see `lexbench.datasets.records`)."""

    contract: Contract
    corpus: Path
    queries_file: Path
    qrels_file: Path

    @classmethod
    def locate(cls, contract: Contract, folders: Sequence[Path]) -> Self | None:
        """Return the dataset if one of *folders* has its corpus. Raises MissingData if queries or qrels are missing."""
        corpus = _only_file(folders, CORPUS, contract)
        if corpus is None:
            return None
        queries, qrels = _only_file(folders, _QUERIES, contract), _only_file(folders, _QRELS, contract)
        if queries is None or qrels is None:
            lacking = _names(_QUERIES if queries is None else _QRELS, contract)
            raise missing(contract, f"there is {corpus}, but beside it no {' or '.join(lacking)}")
        return cls(contract, corpus, queries, qrels)

    @classmethod
    def status(cls, contract: Contract, folders: Sequence[Path]) -> str:
        """Return where the corpus is, or ""."""
        try:
            corpus = _only_file(folders, CORPUS, contract)
        except InvalidFile as error:
            return str(error)
        return f"here: {corpus}" if corpus else ""

    @classmethod
    def ways(cls, contract: Contract) -> str:
        """Return which files to put where."""
        return f"put corpus.jsonl, queries.jsonl and qrels/{contract.source.split}.tsv into $LEXBENCH_DATA/{contract.corpus}"

    def documents(self) -> Iterator[Document]:
        """Yield the documents in the order of the file."""
        for doc_id, fields in read_records(self.corpus):
            try:
                yield document(doc_id, fields, self.contract.text.document)
            except KeyError as error:
                raise InvalidFile(f"{self.corpus}: document {doc_id!r} has no field {error}") from None

    def queries(self) -> Iterator[Query]:
        """Yield the queries in the order of the file."""
        read = read_trec_topics if self.queries_file.name.startswith("topics.") else read_queries
        return read(self.queries_file)

    def judgements(self) -> Iterator[Judgement]:
        """Yield the judgements in the order of the file."""
        return read_judgements(self.qrels_file, header=False)

    def place(self, kind: Literal["documents", "queries", "judgements"], record_id: str | None = None) -> str:
        """Return the file, for documents and queries with the lines of an id, e.g. "corpus.jsonl:3 and 9"."""
        file = {"documents": self.corpus, "queries": self.queries_file, "judgements": self.qrels_file}[kind]
        if record_id is None or kind == "judgements":
            return str(file)
        lines = (str(number) for number, record in numbered_records(file) if record.record_id == record_id)
        return f"{file}:{' and '.join(islice(lines, 2))}"

    def identity(self) -> dict[str, Any]:
        """Return the digest of the corpus file, and its name, which decides the format."""
        return {
            "loader": "files",
            "file": self.corpus.name,
            "sha256": cached_file_digest(self.corpus),
            "text": self.contract.text.document,
        }


def _names(patterns: Sequence[str], contract: Contract) -> list[str]:
    """Return the file names for *patterns*. MS MARCO writes the split dev/small as `queries.dev.small.tsv`."""
    split = contract.source.split
    return [name.format(split=split if "/" in name else split.replace("/", ".")) for name in patterns]


def _only_file(folders: Sequence[Path], patterns: Sequence[str], contract: Contract) -> Path | None:
    """Return the file from the first folder that has one, or None. Raises InvalidFile if a folder has two that fit."""
    for folder in folders:
        names = (f"{name}{end}" for name in _names(patterns, contract) for end in ("", *COMPRESSED))
        files = [folder / name for name in names if (folder / name).is_file()]
        if len(files) > 1:
            raise InvalidFile(f"{files[0]} and {files[1]} would both do for {contract.id}; keep one")
        if files:
            return files[0]
    return None
