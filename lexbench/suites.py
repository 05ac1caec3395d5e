"""Suites and contracts as data: finding, reading and checking the TOML files of `suites/`."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from lexbench.datasets.contract import Contract, Strict
from lexbench.errors import CannotStart, InvalidFile, UnknownName


class Aggregate(Strict, frozen=True):
    """A named mean. It is printed only when every member is there; otherwise the count is."""

    id: str  # with its version, as `beir-12@1`
    measure: str
    members: tuple[str, ...]  # dataset ids
    mean: Literal["macro"] = "macro"
    note: str = ""


class Suite(Strict, frozen=True):
    """What is measured together."""

    schema: Literal[1]
    id: str
    version: int
    name: str
    description: str
    datasets: tuple[str, ...]
    measures: tuple[str, ...]  # in ir-measures' notation; contracts add their thresholds
    headline: str  # the measure that tables show first and sort by
    retrievers: tuple[str, ...]  # what runs when none is named
    depth: int = 1000
    aggregates: tuple[Aggregate, ...] = ()


T = TypeVar("T", bound=Strict)


def read_toml(path: Path, model: type[T]) -> T:
    """Read *path* as *model*; InvalidFile names the file and the place, as `$.datasets[1].exclude_self`."""
    try:
        return msgspec.toml.decode(path.read_bytes(), type=model)
    except (msgspec.DecodeError, ValueError) as error:  # the second is tomllib's
        raise InvalidFile(f"{path}: {error}") from None


@cache
def folders() -> tuple[Path, ...]:
    """Return the folders that hold suites: our own, then those of plug-ins (entry-point group `lexbench.suites`)."""
    packaged = Path(__file__).parent / "_suites"  # in a wheel
    own = packaged if packaged.is_dir() else Path(__file__).parent.parent / "suites"  # in a checkout
    return own, *(_folder(entry) for entry in entry_points(group="lexbench.suites"))


def _folder(entry: EntryPoint) -> Path:
    try:
        return Path(str(entry.load().__file__)).parent
    except Exception as error:  # another package's mistake is no reason for a traceback of ours
        raise CannotStart(f"suites of plug-in {entry.name!r} do not load: {type(error).__name__}: {error}") from error


def _toml_files(*parts: str) -> dict[str, Path]:
    found = [path for folder in folders() for path in sorted(folder.joinpath(*parts).glob("*.toml"))]
    return {path.stem: path for path in reversed(found)}


@cache
def contracts() -> dict[str, Contract]:
    """Return every contract by dataset id, sorted."""
    read = (read_toml(path, Contract) for path in _toml_files("datasets").values())
    return {contract.id: contract for contract in sorted(read, key=lambda contract: contract.id)}


def contract(dataset_id: str) -> Contract:
    """Return the contract of a dataset, or UnknownName."""
    if dataset_id not in contracts():
        raise UnknownName("dataset", dataset_id, contracts(), see="lexbench list datasets")
    return contracts()[dataset_id]


def expected() -> dict[str, Path]:
    """Return the files of published figures, `expected/<suite>.toml`, by name: see `lexbench.analysis.verify.published`."""
    return _toml_files("expected")


def suite_names() -> list[str]:
    """Return the names of all suites, sorted."""
    return sorted(_toml_files())


def suite(name: str) -> Suite:
    """Return a suite by name, or from the TOML file at that path; every dataset in it has a contract."""
    path = Path(name) if name.endswith(".toml") else _toml_files().get(name)
    if path is None or not path.is_file():
        raise UnknownName("suite", name, suite_names(), see="lexbench list suites")
    found = read_toml(path, Suite)
    for index, dataset in enumerate(found.datasets):
        if dataset not in contracts():
            raise InvalidFile(f"{path}: no dataset {dataset!r} - at `$.datasets[{index}]`; see: lexbench list datasets")
    for index, aggregate in enumerate(found.aggregates):
        strangers = sorted(set(aggregate.members) - set(found.datasets))
        if strangers:
            raise InvalidFile(f"{path}: {strangers[0]!r} is not a dataset of this suite - at `$.aggregates[{index}].members`")
    return found
