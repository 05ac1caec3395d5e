"""Datasets on the Hugging Face hub in BEIR's layout, and folders with the same tables.

    corpus     _id, title (optional), text
    queries    _id, text
    qrels      query-id, corpus-id, score (1 if there is no such column)

The files of a table (Parquet, JSON lines or TSV) are in a folder of its name, or have its name themselves, for example
`corpus/train-00000-of-00001.parquet`, `corpus.jsonl`, `queries/queries.parquet`, `qrels/test.tsv`. Qrels may also be in the
folder `data`, e.g. `data/test-00000-of-00001.parquet`, or be called `default`. Of several splits one is read.

A contract names a dataset as `url = "hf:ORG/NAME@REVISION"` with `loader = "hf"`. A user types "hf:ORG/NAME", optionally
followed by "@REVISION" and "#SPLIT". If a repository has no judgements, those of "ORG/NAME-qrels" are used, where BeIR keeps
them. Downloads are in the hub's own cache. With LEXBENCH_OFFLINE=1 only that cache is read.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Self

from lexbench.contracts import Contract
from lexbench.datasets.records import document
from lexbench.datasets.sources import missing, offline
from lexbench.errors import CommandError, InvalidFile, MissingData, require
from lexbench.plugins import Source
from lexbench.storage.reading import cached_file_digest, lines
from lexbench.trec.qrels import read_judgements
from lexbench.types import Document, Judgement, Query

PREFIX = "hf:"
_NAME = re.compile(r"hf:([\w.-]+/[\w.-]+?)(?:@([\w./-]+))?(?:#([\w.-]+))?")
_TABLES = {
    "corpus": ("corpus",),
    "queries": ("queries", "query"),
    "qrels": ("qrels", "default", "data", "relevance"),
}  # names of their folders and files; the first that exists counts
_PATTERNS = [pattern for names in _TABLES.values() for name in names for pattern in (f"{name}/*", f"{name}*.*")]
_QRELS_PATTERNS = ["*.tsv", "*.tsv.gz", "*.parquet", "*/*.parquet", "*.jsonl"]
_ENDINGS = (".parquet", ".jsonl", ".jsonl.gz", ".tsv", ".tsv.gz")
_SHARD = re.compile(r"-\d{5}-of-\d{5}$")
_IDS = {"corpus": ("_id", "id", "corpus-id", "doc_id"), "queries": ("_id", "id", "query-id", "query_id")}
_ROWS = 2048  # of Parquet, in memory at once


class HubName(NamedTuple):
    """The parts of "hf:ORG/NAME@REVISION#SPLIT"."""

    repository: str
    revision: str | None = None
    split: str | None = None

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse "hf:ORG/NAME@REVISION#SPLIT". Raises CommandError for anything else."""
        match = _NAME.fullmatch(text)
        if match is None:
            raise CommandError(
                f"{text!r} names no dataset of the hub; write hf:ORG/NAME, hf:ORG/NAME@REVISION or hf:ORG/NAME#SPLIT"
            )
        return cls(*match.groups())


class Tables(NamedTuple):
    """The files of the tables of one dataset."""

    corpus: tuple[Path, ...]
    queries: tuple[Path, ...]
    qrels: tuple[Path, ...]


@dataclass(frozen=True)
class Hf(Source):
    """A dataset in three tables, from the hub or a folder of the user."""

    contract: Contract
    tables: Tables
    commit: str = ""  # of the hub's repository; "" for a folder of the user

    @classmethod
    def locate(cls, contract: Contract, folders: Sequence[Path]) -> Self | None:
        """Return the dataset from one of *folders*, or from the hub. Raises MissingData if the hub does not have it."""
        for folder in folders:
            if tables := _find_tables(folder, contract.source.split):
                return cls(contract, tables)
        url = contract.source.url or ""
        if not url.startswith(PREFIX):
            return None
        name = HubName.read(url)
        try:
            folder = snapshot(name.repository, name.revision)
            return cls(contract, _find_hub_tables(folder, name, contract.source.split), folder.name)
        except MissingData as error:
            raise missing(contract, str(error)) from error

    @classmethod
    def status(cls, contract: Contract, folders: Sequence[Path]) -> str:
        """Return its folder, or that it would be downloaded."""
        here = next((folder for folder in folders if _find_tables(folder, contract.source.split)), None)
        if here:
            return f"here: {here}"
        return "to be fetched" if (contract.source.url or "").startswith(PREFIX) and not offline() else ""

    @classmethod
    def ways(cls, contract: Contract) -> str:
        """Return which tables to put where."""
        return f"put corpus, queries and qrels, each .parquet or .jsonl, into $LEXBENCH_DATA/{contract.corpus}"

    def documents(self) -> Iterator[Document]:
        """Yield the documents in the order of the files."""
        for doc_id, fields in _texts(self.tables.corpus, "corpus"):
            try:
                yield document(doc_id, fields, self.contract.text.document)
            except KeyError as error:
                raise InvalidFile(f"{self.tables.corpus[0]}: document {doc_id!r} has no field {error}") from None

    def queries(self) -> Iterator[Query]:
        """Yield the queries in the order of the files."""
        for query_id, fields in _texts(self.tables.queries, "queries"):
            if "text" not in fields:
                raise InvalidFile(f"{self.tables.queries[0]}: query {query_id!r} has no text")
            yield Query(query_id, fields["text"])

    def judgements(self) -> Iterator[Judgement]:
        """Yield the judgements in the order of the files. Raises InvalidFile for a malformed row."""
        for path in self.tables.qrels:
            if ".tsv" in path.suffixes:
                yield from read_judgements(path, header=False)
                continue
            for row in _rows(path):
                try:
                    yield Judgement(str(row["query-id"]), str(row["corpus-id"]), _grade(row.get("score", 1)))
                except (KeyError, TypeError, ValueError) as error:
                    why = f"a row has no column {error}" if isinstance(error, KeyError) else str(error)
                    raise InvalidFile(f"{path}: {why}; judgements have query-id, corpus-id and score") from None

    def identity(self) -> dict[str, Any]:
        """Return the digests of the files of the corpus, in order."""
        digests = [cached_file_digest(path) for path in self.tables.corpus]
        return {"loader": "hf", "sha256": digests, "text": self.contract.text.document}

    def remarks(self) -> list[str]:
        """Return the commit on the hub, unless a published contract pins it."""
        if not self.commit or self.contract.version:
            return []
        return [f"{self.contract.source.url} at commit {self.commit}, under no contract: another commit may be other data"]


# ---- files and their rows --------------------------------------------------------------------------------------------------


def _find_tables(folder: Path, split: str, judged: Path | None = None) -> Tables | None:
    """Return the tables below *folder*, with the qrels of *split*; None if one of the three is missing.

    *judged* is a folder of judgements only. Raises InvalidFile if there are several splits and none is *split*.
    """
    tables = {name: _files(folder, names) for name, names in _TABLES.items()}
    if judged is not None:
        tables["qrels"] = [path for path in sorted(judged.rglob("*")) if path.name.endswith(_ENDINGS)]
    if not all(tables.values()):
        return None
    by_split: dict[str, list[Path]] = {}
    for path in tables["qrels"]:
        by_split.setdefault(_split(path), []).append(path)
    chosen = split if split in by_split else next(iter(by_split)) if len(by_split) == 1 else ""
    if not chosen:
        raise InvalidFile(f"{folder}: the qrels have no split {split!r}; there is: {', '.join(sorted(by_split))}")
    queries = [path for path in tables["queries"] if _split(path) == chosen] or tables["queries"]
    return Tables(tuple(tables["corpus"]), tuple(queries), tuple(by_split[chosen]))


def _find_hub_tables(folder: Path, name: HubName, split: str) -> Tables:
    """Return the tables of a downloaded repository, if need be with the judgements of ORG/NAME-qrels."""
    if tables := _find_tables(folder, split):
        return tables
    tables = _find_tables(folder, split, snapshot(f"{name.repository}-qrels", None, qrels=True))
    if tables is None:
        raise MissingData(f"{name.repository} on the hub is not in BEIR's layout: it has no corpus, queries and qrels")
    return tables


def splits(folder: Path) -> list[str]:
    """Return the splits of the qrels below *folder*, sorted."""
    return sorted({_split(path) for path in _files(folder, _TABLES["qrels"])})


def _files(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the files of the first of *names* that exists: those in the folder of that name, else those named like it."""
    for name in names:
        inside = [path for path in sorted((folder / name).glob("*")) if path.name.endswith(_ENDINGS)]
        found = inside or [path for path in sorted(folder.glob(f"{name}*")) if _split(path) == name]
        if found:
            return found
    return []


def _split(path: Path) -> str:
    """Return the name of a file without its ending and shard number, e.g. "train", "test", or "corpus"."""
    return _SHARD.sub("", path.name.partition(".")[0]) if path.name.endswith(_ENDINGS) else ""


def _texts(files: Sequence[Path], table: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the id and the text fields of each row of the *table* "corpus" or "queries"."""
    for path in files:
        for row in _rows(path):
            name = next((name for name in _IDS[table] if name in row), None)
            if name is None:
                raise InvalidFile(f"{path}: a row has no column {' or '.join(_IDS[table])}; there is: {', '.join(row)}")
            yield str(row[name]), {key: value for key, value in row.items() if isinstance(value, str)}


def _grade(score: Any) -> int:
    """Return a score as a grade. Raises ValueError if it is not an integer."""
    if int(score) != float(score):
        raise ValueError(f"the score {score!r} is no whole number")
    return int(score)


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    if path.suffix == ".parquet":
        yield from _parquet_rows(path)
        return
    for number, line in lines(path):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InvalidFile(f"{path}, line {number}: {error}") from None
            if not isinstance(row, dict):
                raise InvalidFile(f'{path}, line {number}: not a JSON object like {{"_id": "d1", "text": "…"}}')
            yield row


def _parquet_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    require("reading Parquet", ["pyarrow"], "parquet")
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_ROWS):
                yield from batch.to_pylist()
    except (ArrowException, OSError) as error:
        raise InvalidFile(f"{path}: it does not read as Parquet ({str(error).partition(chr(10))[0]})") from None


# ---- the hub ---------------------------------------------------------------------------------------------------------------


@lru_cache
def snapshot(repository: str, revision: str | None, *, qrels: bool = False) -> Path:
    """Return the local folder of a dataset on the hub, named by its commit. The result is cached in this process.

    With *qrels* the repository has judgements only, with its files at the top. Raises MissingData with the reason.
    """
    require(f"dataset hf:{repository}", ("huggingface_hub",), "neural")
    from huggingface_hub import errors, snapshot_download

    where = f"hf:{repository}" + (f"@{revision}" if revision else "")
    try:
        return Path(
            snapshot_download(
                repository,
                repo_type="dataset",
                revision=revision,
                allow_patterns=_QRELS_PATTERNS if qrels else _PATTERNS,
                local_files_only=offline(),
            )
        )
    except errors.GatedRepoError as error:
        page = f"https://huggingface.co/datasets/{repository}"
        raise MissingData(f"{where}: accept its terms at {page}, then type: hf auth login") from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.HFValidationError) as error:
        raise MissingData(f"{where}: the Hugging Face hub has no such dataset or revision") from error
    except Exception as error:  # the hub's client, its transport and the disk raise many kinds
        first_line = f"{type(error).__name__}: {error.__cause__ or error}".partition("\n")[0]
        why = "LEXBENCH_OFFLINE forbids to fetch it" if offline() else f"the hub cannot be reached ({first_line[:150]})"
        raise MissingData(f"{where} is not on this machine, and {why}") from error
