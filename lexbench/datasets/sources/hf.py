"""Datasets on the Hugging Face hub in BEIR's layout: the files that `lexbench.datasets.sources.files` finds in a folder.

A contract names a dataset as `url = "hf:ORG/NAME@REVISION"` with `loader = "hf"`. A user types "hf:ORG/NAME", optionally
followed by "@REVISION" and "#SPLIT". If a repository has no judgements, those of "ORG/NAME-qrels" are used, where BeIR keeps
them. Downloads are in the hub's own cache. With LEXBENCH_OFFLINE=1 only that cache is read.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Self

from lexbench.contracts import Contract
from lexbench.datasets.sources import missing, offline
from lexbench.datasets.sources.files import Files, Tables, documents_of, find_tables, instructions_of, stem
from lexbench.errors import CommandError, MissingData, MissingExtra, require

PREFIX = "hf:"
_NAME = re.compile(r"hf:([\w.-]+/[\w.-]+?)(?:@([\w./-]+))?(?:#([\w.-]+))?")
_PATTERNS = [
    pattern
    for name in ("corpus", "queries", "query", "instruction", "qrels", "default", "data", "relevance")
    for pattern in (f"{name}/*", f"{name}*.*")
]
_QRELS_PATTERNS = ["*.tsv", "*.tsv.gz", "*.parquet", "*/*.parquet", "*.jsonl"]


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


@dataclass(frozen=True)
class Hf(Files):
    """A dataset in three tables on the hub."""

    commit: str = ""  # of the hub's repository

    @classmethod
    def locate(cls, contract: Contract, folders: Sequence[Path]) -> Self | None:  # noqa: ARG003 - `Files` looks there
        """Return the dataset from the hub. Raises MissingData if the hub does not have it."""
        url = contract.source.url or ""
        if not url.startswith(PREFIX):
            return None
        name = HubName.read(url)
        try:
            folder = snapshot(name.repository, name.revision)
            corpus, queries = documents_of(folder, contract), find_tables(folder, "queries")
            judgements = find_tables(folder, "judgements") or _judgements(f"{name.repository}-qrels")
        except MissingData as error:
            raise missing(contract, str(error)) from error
        if corpus is None or not queries or not judgements:
            raise MissingData(f"{name.repository} on the hub is not in BEIR's layout: it has no corpus, queries and qrels")
        if len(judgements) == 1:  # the only split counts, under any name
            judgements = {contract.source.split: next(iter(judgements.values()))}
        found = cls.of_split(contract, corpus, queries, judgements)
        return replace(found, instruction_files=instructions_of([folder], contract), commit=folder.name)

    @classmethod
    def status(cls, contract: Contract, folders: Sequence[Path]) -> str:
        """Return that it would be downloaded; offline, whether it is in the hub's cache."""
        if not (contract.source.url or "").startswith(PREFIX):
            return ""
        if not offline():
            return "to be fetched"
        with suppress(MissingData, MissingExtra):
            return "in the hub's cache" if cls.locate(contract, folders) else ""
        return ""

    @classmethod
    def ways(cls, contract: Contract) -> str:
        """Return which tables to put where."""
        return f"put corpus, queries and qrels, each .parquet or .jsonl, into $LEXBENCH_DATA/{contract.corpus}"

    def notes(self) -> list[str]:
        """Return the commit on the hub, unless a published contract pins it."""
        if not self.commit or self.contract.version:
            return []
        return [f"{self.contract.source.url} at commit {self.commit}, under no contract: another commit may be other data"]


def _judgements(repository: str) -> Tables:
    """Return the files of a repository of judgements by split."""
    found: dict[str, list[Path]] = {}
    for path in sorted(snapshot(repository, None, qrels=True).rglob("*")):
        if (split := stem(path)) is not None:
            found.setdefault(split, []).append(path)
    return found


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
