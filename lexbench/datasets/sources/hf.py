"""Datasets of the Hugging Face hub in BEIR's layout, and folders of the same tables: see `lexbench.datasets.hub_layout`.

A contract names one as `url = "hf:ORG/NAME@REVISION"` with `loader = "hf"`; what is typed is "hf:ORG/NAME", with "@REVISION"
and "#SPLIT" behind it if need be. Where a repository has no judgements, those of "ORG/NAME-qrels" are taken, as BeIR keeps
them. What was downloaded is in the hub's own cache; LEXBENCH_OFFLINE=1 reads that alone.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Self

from lexbench.contracts import Contract
from lexbench.datasets import hub_layout
from lexbench.datasets.hub_layout import TABLES, Layout
from lexbench.datasets.records import document
from lexbench.datasets.source import missing, offline
from lexbench.errors import CommandError, InvalidFile, MissingData, require
from lexbench.plugins import Source
from lexbench.storage.reading import cached_file_digest
from lexbench.types import Document, Judgement, Query

PREFIX = "hf:"
_NAME = re.compile(r"hf:([\w.-]+/[\w.-]+?)(?:@([\w./-]+))?(?:#([\w.-]+))?")
_PATTERNS = [pattern for names in TABLES.values() for name in names for pattern in (f"{name}/*", f"{name}*.*")]
_QRELS_PATTERNS = ["*.tsv", "*.tsv.gz", "*.parquet", "*/*.parquet", "*.jsonl"]


class HubName(NamedTuple):
    """What stands behind "hf:"."""

    repository: str
    revision: str | None = None
    split: str | None = None

    @classmethod
    def read(cls, text: str) -> Self:
        """Read "hf:ORG/NAME@REVISION#SPLIT"; CommandError for what is no such name."""
        match = _NAME.fullmatch(text)
        if match is None:
            raise CommandError(
                f"{text!r} names no dataset of the hub; write hf:ORG/NAME, hf:ORG/NAME@REVISION or hf:ORG/NAME#SPLIT"
            )
        return cls(*match.groups())


@dataclass(frozen=True)
class Hf(Source):
    """The tables of one dataset."""

    contract: Contract
    tables: Layout
    commit: str = ""  # of the hub's repository; "" for a folder of the user's

    @classmethod
    def locate(cls, contract: Contract, folders: Sequence[Path]) -> Self | None:
        """Return the dataset from one of *folders*, or from the hub; MissingData says why that has it not."""
        for folder in folders:
            if tables := hub_layout.layout(folder, contract.source.split):
                return cls(contract, tables)
        url = contract.source.url or ""
        if not url.startswith(PREFIX):
            return None
        named = HubName.read(url)
        try:
            folder = snapshot(named.repository, named.revision)
            tables = _with_judgements(folder, named, contract.source.split)
        except MissingData as error:
            raise missing(contract, str(error)) from error
        return cls(contract, tables, folder.name)

    @classmethod
    def status(cls, contract: Contract, folders: Sequence[Path]) -> str:
        """Return the folder that it is in, or that it would be fetched."""
        here = next((folder for folder in folders if hub_layout.layout(folder, contract.source.split)), None)
        if here:
            return f"here: {here}"
        return "to be fetched" if (contract.source.url or "").startswith(PREFIX) and not offline() else ""

    @classmethod
    def ways(cls, contract: Contract) -> str:
        """Say which tables would do."""
        return f"put corpus, queries and qrels, each .parquet or .jsonl, into $LEXBENCH_DATA/{contract.corpus}"

    def documents(self) -> Iterator[Document]:
        """Yield the documents in the order of the files."""
        for doc_id, fields in hub_layout.texts(self.tables.corpus, "corpus"):
            try:
                yield document(doc_id, fields, self.contract.text.document)
            except KeyError as error:
                raise InvalidFile(f"{self.tables.corpus[0]}: document {doc_id!r} has no field {error}") from None

    def queries(self) -> Iterator[Query]:
        """Yield the queries in the order of the files."""
        for query_id, fields in hub_layout.texts(self.tables.queries, "queries"):
            if "text" not in fields:
                raise InvalidFile(f"{self.tables.queries[0]}: query {query_id!r} has no text")
            yield Query(query_id, fields["text"])

    def judgements(self) -> Iterator[Judgement]:
        """Yield the judgements in the order of the files."""
        return hub_layout.judgements(self.tables.qrels)

    def identity(self) -> dict[str, Any]:
        """Return the digests of the files of the corpus, in order."""
        digests = [cached_file_digest(path) for path in self.tables.corpus]
        return {"loader": "hf", "sha256": digests, "text": self.contract.text.document}

    def remarks(self) -> list[str]:
        """Return which commit of the hub's this is, where nobody has pinned one by a contract."""
        if not self.commit or self.contract.version:
            return []
        return [f"{self.contract.source.url} at commit {self.commit}, under no contract: another commit may be other data"]


def _with_judgements(folder: Path, named: HubName, split: str) -> Layout:
    """Return the tables of a repository in *folder*, its judgements from the repository beside it where it has none."""
    if tables := hub_layout.layout(folder, split):
        return tables
    beside = snapshot(f"{named.repository}-qrels", None, qrels=True)
    tables = hub_layout.layout(folder, split, beside)
    if tables is None:
        raise MissingData(f"{named.repository} on the hub is not in BEIR's layout: it has no corpus, queries and qrels")
    return tables


@lru_cache
def snapshot(repository: str, revision: str | None, *, qrels: bool = False) -> Path:
    """Return the folder of a dataset of the hub, named by its commit; asked once a process. MissingData says why there is none.

    With *qrels* the repository is one of judgements alone, whose files lie at its top.
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
    except Exception as error:  # whatever the hub's client, its transport and the disk raise
        first_line = f"{type(error).__name__}: {error.__cause__ or error}".partition("\n")[0]
        why = "LEXBENCH_OFFLINE forbids to fetch it" if offline() else f"the hub is not to be had ({first_line[:150]})"
        raise MissingData(f"{where} is not on this machine, and {why}") from error
