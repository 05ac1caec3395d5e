"""What a source of a dataset is, and which ones are asked. Sources are plug-ins (group `sources`).

A contract names its source as `source.loader`. Environment variables, read when they are needed and not at import:

    LEXBENCH_DATA       folders of the user's, separated as in PATH; each may have <dataset id>/ and <corpus id>/
    LEXBENCH_OFFLINE    1: never fetch anything
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from lexbench import registry
from lexbench.datasets.contracts import Contract
from lexbench.errors import MissingData
from lexbench.types import Document, Judgement, Query


class Source(Protocol):
    """The content of a dataset, read anew at each call, one at a time."""

    def documents(self) -> Iterator[Document]:
        """Yield the documents, the contract's text policy applied, in the order of the source."""
        ...

    def queries(self) -> Iterator[Query]:
        """Yield the queries, those without judgements too."""
        ...

    def judgements(self) -> Iterator[Judgement]:
        """Yield the judgements."""
        ...

    def identity(self) -> dict[str, Any]:
        """Return what determines the documents, for a content key: digests of files, not where they are."""
        ...

    def remarks(self) -> list[str]:
        """Return what a reader of scores must know of this copy of the documents; every result says it."""
        ...


class Locator(Protocol):
    """A class of sources, as the registry has it."""

    @classmethod
    def locate(cls, contract: Contract, folders: Sequence[Path]) -> Source | None:
        """Return the dataset's source, or None where it is not; *folders* are those the user may have put it in.

        Nothing is read but what is needed to know. MissingData says why a dataset that should be here is not.
        """
        ...

    @classmethod
    def status(cls, contract: Contract, folders: Sequence[Path]) -> str:
        """Return in a few words whether and where the dataset is, '' for not here; touches no network, takes no time."""
        ...

    @classmethod
    def ways(cls, contract: Contract) -> str:
        """Return how the user can provide the dataset, as 'put X into Y'; '' for no way."""
        ...


def locators(contract: Contract) -> list[type[Locator]]:
    """Return the classes to ask for a dataset, in order: files that the user provides come before everything else."""
    names = dict.fromkeys(("files", contract.source.loader))
    return [registry.load("sources", name) for name in names]


def user_folders(contract: Contract) -> list[Path]:
    """Return where the user may have put the dataset, existing or not: folders of the dataset, then of its corpus."""
    roots = [Path(root).expanduser() for root in os.environ.get("LEXBENCH_DATA", "").split(os.pathsep) if root]
    names = dict.fromkeys((contract.id, contract.corpus))
    return [root / name for name in names for root in roots]


def offline() -> bool:
    """Whether the user forbids to fetch anything."""
    return os.environ.get("LEXBENCH_OFFLINE", "") not in ("", "0")


def missing(contract: Contract, reason: str) -> MissingData:
    """Return the error for a dataset that is not here: which, why, and how to provide it; one line."""
    ways = filter(None, (locator.ways(contract) for locator in reversed(locators(contract))))
    return MissingData(f"{contract.id} is not here: {reason}; {', or '.join(ways)}")
