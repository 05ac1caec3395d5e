"""Suites: datasets, measures and systems that are run together, as TOML files in the folders of suites."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from lexbench.contracts import add_suite_folder, find_contract, toml_files
from lexbench.datasets.location import find_folder
from lexbench.errors import InvalidFile, UnknownName
from lexbench.results import Result
from lexbench.storage.reading import Strict, read_toml

HEADLINE = "nDCG@10"  # if no suite names another measure


class Aggregate(Strict, frozen=True):
    """A named mean over datasets. It is printed only if every member has a result; otherwise the count is."""

    id: str  # with its version, e.g. `beir-12@1`
    measure: str
    members: tuple[str, ...]  # dataset ids
    mean: Literal["macro"] = "macro"
    groups: tuple[tuple[str, ...], ...] = ()  # members whose average counts as one, e.g. BEIR's twelve forums
    note: str = ""

    def __post_init__(self) -> None:
        """Refuse groups that share a member, or have one that is not in `members`; msgspec adds the place to the error."""
        grouped = [member for group in self.groups for member in group]
        if len(set(grouped)) < len(grouped) or not set(grouped) <= set(self.members):
            raise ValueError("each member of a group is one of `members`, and is in one group")

    @property
    def weights(self) -> list[float] | None:
        """The share of each member in the mean, in the order of `members`, of sum 1; None if all shares are equal."""
        if not self.groups:
            return None
        size = {member: len(group) for group in self.groups for member in group}
        units = len(self.members) - len(size) + len(self.groups)
        return [1 / (units * size.get(member, 1)) for member in self.members]

    def over(self, scores: Mapping[str, float]) -> "Mean":
        """Return the weighted mean of *scores*, by dataset, over the members."""
        import numpy as np

        present = [scores[member] for member in self.members if member in scores]
        complete = len(present) == len(self.members)
        return Mean(len(present), len(self.members), float(np.average(present, weights=self.weights)) if complete else None)

    def over_results(self, results: Iterable[Result]) -> "Mean":
        """Return the mean over the *results* of one system."""
        return self.over({one.dataset: one.means[self.measure] for one in results if self.measure in one.means})


class Mean(NamedTuple):
    """The value of a mean over datasets, and how many of its members are there."""

    present: int
    members: int
    value: float | None  # None while members are missing

    def __str__(self) -> str:
        """Return the mean with four digits, or how many members are there, e.g. `2/12`."""
        return f"{self.value:.4f}" if self.value is not None else f"{self.present}/{self.members}"


class Suite(Strict, frozen=True):
    """Datasets, measures and systems that are run together."""

    schema: Literal[1]
    id: str
    version: int
    name: str
    description: str
    datasets: tuple[str, ...]
    measures: tuple[str, ...]  # in ir-measures' notation; contracts add their thresholds
    headline: str  # the measure that tables show first and sort by
    retrievers: tuple[str, ...]  # the systems that run if none is named
    depth: int = 1000
    aggregates: tuple[Aggregate, ...] = ()
    columns: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)  # of tables in folders, by the entry in `datasets`
    folders: dict[str, str] = msgspec.field(default_factory=dict)  # of datasets without a contract, by id


def suite_names() -> list[str]:
    """Return the names of all suites, sorted."""
    return sorted(toml_files())


def suite(name: str) -> Suite:
    """Return a suite by name, or from the TOML file at that path.

    Contracts of its datasets may be in the folder `datasets` next to the file. A dataset without a contract is a folder,
    relative to the file. Raises UnknownName if there is no such suite, InvalidFile if a dataset is neither.
    """
    path = Path(name) if name.endswith(".toml") else toml_files().get(name)
    if path is None or not path.is_file():
        raise UnknownName("suite", name, suite_names(), see="lexbench list suites")
    content = read_toml(path, Suite)
    if own := name.endswith(".toml"):
        if (other := toml_files().get(content.id)) and read_toml(other, Suite) != content:
            raise InvalidFile(f"{path}: {content.id!r} is the id of another suite; give it an id of its own")
        add_suite_folder(path.resolve().parent)
    folders = {}
    for index, dataset in enumerate(content.datasets):
        if find_contract(dataset) is None:
            if not (own and (path.parent / dataset).is_dir()):
                where = f", and no folder {path.parent / dataset}" if own else ""
                raise InvalidFile(
                    f"{path}: no dataset {dataset!r}{where} - at `$.datasets[{index}]`; see: lexbench list datasets"
                )
            folders[dataset] = path.resolve().parent / dataset
    if strange := next((name for name in content.columns if name not in folders), None):
        raise InvalidFile(f"{path}: columns of {strange!r}, which is no folder of this suite - at `$.columns`")
    for index, aggregate in enumerate(content.aggregates):
        strangers = sorted(set(aggregate.members) - set(content.datasets))
        if strangers:
            raise InvalidFile(f"{path}: {strangers[0]!r} is not a dataset of this suite - at `$.aggregates[{index}].members`")
    return _with_folders(content, folders) if own else content


def _with_folders(suite: Suite, folders: Mapping[str, Path]) -> Suite:
    """Return a suite with the ids of its *folders* in place of what the file calls them, and its headline as first measure."""
    ids = {typed: find_folder(path, columns=suite.columns.get(typed, {})).contract.id for typed, path in folders.items()}
    means = [
        msgspec.structs.replace(
            mean,
            members=tuple(ids.get(member, member) for member in mean.members),
            groups=tuple(tuple(ids.get(member, member) for member in group) for group in mean.groups),
        )
        for mean in suite.aggregates
    ]
    datasets = tuple(ids.get(dataset, dataset) for dataset in suite.datasets)
    if twice := next((name for name in datasets if datasets.count(name) > 1), None):
        raise InvalidFile(f"suite {suite.id}: two datasets are called {twice!r}; rename one of the folders")
    return msgspec.structs.replace(
        suite,
        datasets=datasets,
        measures=tuple(dict.fromkeys((suite.headline, *suite.measures))),  # `suite_of_results` finds it there
        aggregates=tuple(means),
        folders={ids[typed]: str(path) for typed, path in folders.items()},
        columns={ids[typed]: stated for typed, stated in suite.columns.items()},
    )


def suite_of_results(name: str, results: Iterable[Result]) -> Suite:
    """Return the suite called *name*. If there is none here, return one with the datasets and measures of *results*."""
    if name in toml_files():
        return suite(name)
    results = list(results)
    return of_datasets(name, {result.dataset for result in results}, [name for result in results for name in result.means])


def of_datasets(name: str, ids: Collection[str], named: Iterable[str] = (HEADLINE,)) -> Suite:
    """Return a suite of datasets with the measures *named*, of which the first is the headline."""
    datasets, measures = tuple(sorted(ids)), tuple(dict.fromkeys(named))
    return Suite(
        schema=1,
        id=name,
        version=0,  # there is no published suite
        name=datasets[0] if len(datasets) == 1 else name.capitalize(),
        description="",
        datasets=datasets,
        measures=measures,
        headline=measures[0],
        retrievers=(),
    )
