"""Sources of datasets: each other module is a plug-in of the group `sources`, which a contract names as `source.loader`."""

import os
from pathlib import Path

from lexbench import registry
from lexbench.contracts import Contract, added_folders
from lexbench.errors import MissingData
from lexbench.plugins import Source


def finders(contract: Contract) -> list[type[Source]]:
    """Return the classes to ask for a dataset, in order: the user's files come first."""
    names = dict.fromkeys(("files", contract.source.loader))
    return [registry.load("sources", name) for name in names]


def user_folders(contract: Contract) -> list[Path]:
    """Return where the user may have put the dataset, existing or not: folders of the dataset, then of its corpus."""
    roots = [Path(root).expanduser() for root in os.environ.get("LEXBENCH_DATA", "").split(os.pathsep) if root]
    roots += added_folders()
    names = dict.fromkeys((contract.id, contract.corpus))
    return [root / name for name in names for root in roots]


def offline() -> bool:
    """Return whether the user forbids downloads."""
    return os.environ.get("LEXBENCH_OFFLINE", "") not in ("", "0")


def missing(contract: Contract, reason: str) -> MissingData:
    """Return the error for a dataset that is not here: which, why, and how to provide it."""
    ways = filter(None, (finder.ways(contract) for finder in reversed(finders(contract))))
    return MissingData(f"{contract.id} is not here: {reason}; {', or '.join(ways)}")
