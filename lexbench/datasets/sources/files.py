"""Datasets in files of the user: a folder with documents, queries and judgements, in any of these layouts or a mixture.

    BEIR            corpus.jsonl, queries.jsonl, qrels/test.tsv
    tables          corpus.csv, queries.csv, qrels.csv; or .tsv, .parquet, .jsonl
    MS MARCO        collection.tsv, queries.dev.tsv, qrels.dev.tsv
    TREC            documents.trec or docs/*, topics.txt, qrels.txt
    Hugging Face    corpus/train-00000-of-00002.parquet, queries/test.parquet, qrels/test.parquet or data/test.parquet

Files may be compressed. One of several splits of judgements is read. The formats are in `lexbench.datasets.records`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from shlex import quote
from typing import Any, Literal, Self, TypeAlias

from lexbench.contracts import Contract, suite_folders
from lexbench.datasets import records
from lexbench.datasets.sources import missing
from lexbench.errors import InvalidFile, MissingData
from lexbench.plugins import Source
from lexbench.storage.reading import COMPRESSED, cached_file_digest
from lexbench.types import Document, Judgement, Query

Kind = Literal["documents", "queries", "judgements"]
Tables: TypeAlias = Mapping[str, list[Path]]  # the files of each split, "" for files that belong to no split

_NAMES: Mapping[Kind, Sequence[Sequence[str]]] = {
    "documents": [("corpus", "collection"), ("documents", "docs")],
    "queries": [("queries", "query", "topics")],
    "judgements": [("qrels",), ("judgements", "judgments"), ("default", "data", "relevance")],
}  # of folders and files; the first group with a match counts
_SHARD = re.compile(r"-(\d{5}(-of-\d{5})?|\d)(?=\.(parquet|jsonl)\b)")  # not topics.trec-8.txt
_READER = 2  # raise it when the same file gives other documents
NOT_TEST = ("dev", "val", "valid", "validation")  # splits for development


def find_tables(folder: Path, kind: Kind) -> Tables:
    """Return the files of documents, queries or judgements in *folder* by split; {} if there are none."""
    for names in _NAMES[kind]:
        found: dict[str, list[Path]] = {}
        for name in names:
            inside: list[tuple[str | None, Path]] = [(stem(path), path) for path in sorted(folder.glob(f"{name}/[!.]*"))]
            beside = [(_split_in_name(path, name), path) for path in sorted(folder.glob(f"{name}*")) if path.is_file()]
            for split, path in [pair for pair in inside if pair[0] is not None] or beside:
                if split is not None:
                    found.setdefault(split, []).append(path)
        if found:
            return found
    return {}


def folder_of(path: Path) -> Path:
    """Return the folder of the dataset that a file of judgements belongs to."""
    return path.parent.parent if path.parent.name in chain(*_NAMES["judgements"]) else path.parent


def _split_in_name(path: Path, name: str) -> str | None:
    """Return the split after *name* in a file name: "dev" in queries.dev.tsv, "" in queries.tsv; None for other files."""
    whole = stem(path) or ""
    return whole[len(name) + 1 :] if whole == name or whole.startswith(f"{name}.") else None


def stem(path: Path) -> str | None:
    """Return the name of a file of data without its endings and the number of its shard; None for any other file."""
    bare = _SHARD.sub("", path.name)
    for compressed in COMPRESSED:
        bare = bare.removesuffix(compressed)
    end = next((end for end in records.ENDINGS if bare.endswith(end)), None)
    return bare.removesuffix(end) if end else None


def _one_table(files: Sequence[Path], contract: Contract) -> tuple[Path, ...]:
    """Return *files* if they are the shards of one table. Raises InvalidFile if they are two tables."""
    if len(files) > 1 and not all(_SHARD.search(path.name) for path in files):
        raise InvalidFile(f"{files[0]} and {files[1]} are two tables of one kind for {contract.id}; keep one")
    return tuple(files)


@dataclass(frozen=True)
class Files(Source):
    """A dataset in files (see `lexbench.datasets.records`)."""

    contract: Contract
    corpus: tuple[Path, ...]
    queries_files: tuple[Path, ...]
    qrels_files: tuple[Path, ...]

    @classmethod
    def locate(cls, contract: Contract, folders: Sequence[Path]) -> Self | None:
        """Return the dataset if one of *folders* has its documents. Raises MissingData if queries or judgements are missing."""
        corpus = next(filter(None, (documents_of(folder, contract) for folder in folders)), None)
        if corpus is None:
            return None
        tables = [
            next(filter(None, (find_tables(folder, kind) for folder in folders)), {}) for kind in ("queries", "judgements")
        ]
        return cls.of_split(contract, corpus, *tables)

    @classmethod
    def of_split(cls, contract: Contract, corpus: tuple[Path, ...], queries: Tables, judgements: Tables) -> Self:
        """Return the dataset with the files of the contract's split. Raises MissingData if there are none."""
        split = contract.source.split.replace("/", ".")
        chosen: dict[Kind, list[Path] | None] = {
            "queries": queries.get(split) or queries.get(""),
            "judgements": judgements.get(split) or judgements.get(""),
        }
        if not chosen["queries"]:  # one table, or a folder of tables, whose names are not those of the splits
            chosen["queries"] = [
                path for files in queries.values() for path in files if path.parent.name in _NAMES["queries"][0]
            ]
        if not chosen["judgements"] or not chosen["queries"]:
            lacking: Kind = "queries" if chosen["judgements"] else "judgements"
            raise _lacking(contract, corpus[0], lacking, sorted(judgements if lacking == "judgements" else queries))
        queries_files, qrels_files = (_one_table(files or [], contract) for files in chosen.values())
        return cls(contract, corpus, queries_files, (*qrels_files, *_added(contract, corpus)))

    @classmethod
    def status(cls, contract: Contract, folders: Sequence[Path]) -> str:
        """Return where the documents are, or ""."""
        try:
            corpus = next(filter(None, (documents_of(folder, contract) for folder in folders)), None)
        except InvalidFile as error:
            return str(error)
        if corpus is None:
            return ""
        return "built in" if any(root in corpus[0].parents for root in suite_folders()) else f"here: {corpus[0]}"

    @classmethod
    def ways(cls, contract: Contract) -> str:
        """Return which files to put where."""
        return f"put corpus.jsonl, queries.jsonl and qrels/{contract.source.split}.tsv into $LEXBENCH_DATA/{contract.corpus}"

    def documents(self) -> Iterator[Document]:
        """Yield the documents in the order of the files."""
        for path in self.corpus:
            for doc_id, fields in records.read_records(path):
                try:
                    yield records.document(doc_id, fields, self.contract.text.document)
                except InvalidFile as error:
                    raise InvalidFile(f"{path}: {error}") from None

    def queries(self) -> Iterator[Query]:
        """Yield the queries in the order of the files."""
        return (query for path in self.queries_files for query in records.read_queries(path))

    def judgements(self) -> Iterator[Judgement]:
        """Yield the judgements in the order of the files."""
        return (judgement for path in self.qrels_files for judgement in records.read_judgements(path))

    def place(self, kind: Kind, record_id: str | None = None) -> str:
        """Return the file and the lines of a record, e.g. "corpus.jsonl:3 and 9"; the id of a judgement is "QUERY DOCUMENT"."""
        files = {"documents": self.corpus, "queries": self.queries_files, "judgements": self.qrels_files}[kind]
        if record_id is None or (kind == "judgements" and ".parquet" in files[0].suffixes):
            return str(files[0])
        for path in files:
            if kind == "judgements":
                pair = {f'"{name}"' for name in record_id.split()}
                every = (
                    (number, {f'"{word}"' for word in re.split(r'[\s,;":]+', line)})
                    for number, line in records.text_lines(path)
                )
                found = (str(number) for number, words in every if pair <= words)
            else:
                found = (str(number) for number, record in records.numbered_records(path) if record.record_id == record_id)
            if numbers := list(islice(found, 2)):
                return f"{path}:{' and '.join(numbers)}"
        return str(files[0])

    def judgement_notes(self) -> list[str]:
        """Return a warning if a folder without a contract has judgements for development or training only."""
        split, files = self.contract.source.split, self.qrels_files
        if self.contract.version or split not in (*NOT_TEST, "train") or _SHARD.search(files[0].name):
            return []
        if "test" in find_tables(folder_of(files[0]), "judgements"):
            return []
        return [f"scored on {split}: there are no judgements called test"]

    def summary(self) -> str:
        """Return which files were found, with the columns of tables, and the split."""
        parts = []
        for kind, files in (("documents", self.corpus), ("queries", self.queries_files), ("judgements", self.qrels_files)):
            more = f" and {len(files) - 1} more" if len(files) > 1 else ""
            names = "" if kind == "judgements" else records.columns(files[0])
            parts.append(f"{kind} {files[0].name}{more}" + (f" ({names})" if names else ""))
        return f"{', '.join(parts)}; split {self.contract.source.split}"

    def identity(self) -> dict[str, Any]:
        """Return the digests of the files of the corpus, with their endings, which decide the format."""
        files = [["".join(path.suffixes), cached_file_digest(path)] for path in self.corpus]
        return {"reader": _READER, "files": files, "text": self.contract.text.document}


def documents_of(folder: Path, contract: Contract) -> tuple[Path, ...] | None:
    """Return the files of documents in *folder*: all files of a folder, or one. Raises InvalidFile if there are two."""
    files = [path for of in find_tables(folder, "documents").values() for path in of]
    inside = all(path.parent != folder for path in files)
    return (tuple(files) if inside else _one_table(files, contract)) if files else None


def _folder_of_documents(corpus: Path) -> Path:
    """Return the folder of the dataset that a file of documents belongs to."""
    return corpus.parent.parent if corpus.parent.name in chain(*_NAMES["documents"]) else corpus.parent


def _added(contract: Contract, corpus: Sequence[Path]) -> list[Path]:
    """Return the file of further judgements that the contract names, if any. Raises MissingData if it is not there."""
    if not contract.source.added:
        return []
    path = _folder_of_documents(corpus[0]) / contract.source.added
    if not path.is_file():
        raise missing(contract, f"there is {corpus[0]}, and no {contract.source.added} beside it")
    return [path]


def _lacking(contract: Contract, corpus: Path, kind: Kind, splits: Sequence[str]) -> MissingData:
    """Return the error for a folder that has the file *corpus*, and no queries or judgements for the contract."""
    folder = _folder_of_documents(corpus)
    if splits:
        why = f"{folder} has no {kind} of the split {contract.source.split!r}; there is: {', '.join(splits)}"
        return missing(contract, why) if contract.version else MissingData(f"{why}; choose one: --split {splits[0]}")
    if contract.version:
        return missing(contract, f"there is {corpus}, and no {kind} beside it")
    name = "queries.jsonl" if kind == "queries" else f"qrels/{contract.source.split}.tsv"
    make = f"make some: lexbench collect {quote(str(folder))}"
    return MissingData(f"{folder} has {corpus.name} and no {kind}; put {name} into {folder}, or {make}")
