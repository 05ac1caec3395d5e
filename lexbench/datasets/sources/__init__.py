"""Sources of datasets: each other module is a plug-in of the group `sources`, which a contract names as `source.loader`."""

import os
from collections.abc import Iterable
from pathlib import Path

from lexbench import registry
from lexbench.contracts import Contract, added_folders, suite_folders
from lexbench.errors import MissingData
from lexbench.plugins import Source


def finders(contract: Contract) -> list[type[Source]]:
    """Return the classes that may find a dataset, in order: the user's files come first."""
    names = dict.fromkeys(("files", contract.source.loader))
    return [registry.load("sources", name) for name in names]


def user_folders(contract: Contract) -> list[Path]:
    """Return the folders where the user may have put the dataset, or its corpus; they need not exist."""
    roots = [Path(root).expanduser() for root in os.environ.get("LEXBENCH_DATA", "").split(os.pathsep) if root]
    return _inside([*roots, *added_folders()], contract)


def packaged_folders(contract: Contract) -> list[Path]:
    """Return the folders where lexbench or another package may have the data, beside its suites; they need not exist."""
    return _inside(suite_folders(), contract)


def _inside(roots: Iterable[Path], contract: Contract) -> list[Path]:
    return [root / name for name in dict.fromkeys((contract.id, contract.corpus)) for root in roots]


def offline() -> bool:
    """Return whether the user forbids downloads."""
    return os.environ.get("LEXBENCH_OFFLINE", "") not in ("", "0")


def missing(contract: Contract, reason: str) -> MissingData:
    """Return the error for a missing dataset: its name, the *reason*, and how to provide it."""
    ways = filter(None, (finder.ways(contract) for finder in reversed(finders(contract))))
    return MissingData(f"{contract.id} is not here: {reason}; {', or '.join(ways)}")
