"""What a source of a dataset is, and which ones are asked. Sources are plug-ins (group `sources`).

A contract names its source as `source.loader`. Environment variables, read when they are needed and not at import:

    LEXBENCH_DATA       folders of the user's, separated as in PATH; each may have <dataset id>/ and <corpus id>/
    LEXBENCH_OFFLINE    1: never fetch anything
"""

import os
from pathlib import Path

from lexbench import registry
from lexbench.contracts import Contract
from lexbench.errors import MissingData
from lexbench.plugins import Source


def locators(contract: Contract) -> list[type[Source]]:
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
