"""Choose the results to compare: systems by name from the store, or all systems of result files."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from msgspec import structs

from lexbench import results
from lexbench.analysis.seeds import as_one
from lexbench.analysis.stored_results import StoredResult, expression_of, find_systems, stored_results
from lexbench.datasets.dataset import Dataset
from lexbench.errors import CannotStart, UnknownName
from lexbench.runner.soundness import read_results
from lexbench.runner.systems import is_model_folder
from lexbench.storage.store import Store


class SelectedSystem(NamedTuple):
    """One system to compare, with all its results."""

    label: str  # its name, with the file that it is from if another selected system has the same name
    results: dict[str, list[StoredResult]]  # by dataset, the newest first

    @property
    def expression(self) -> str:
        """The expression behind the label; "" if they are the same."""
        newest = next(iter(self.results.values()))[0].result
        return "" if newest.seeds or expression_of(newest) == self.label else expression_of(newest)

    def newest(self, dataset: str, measure: str) -> StoredResult:
        """Return the newest result on *dataset* with *measure*. Raises CannotStart if there is none."""
        found = next((one for one in self.results[dataset] if measure in one.result.per_query), None)
        if found:
            return found
        known = ", ".join(self.results[dataset][0].result.per_query)
        raise CannotStart(f"{self.label} on {dataset} has no {measure}; it has: {known}; choose one with -m, or run it again")


def select(
    names: Sequence[str], store: Store, folder: Path | None = None, seeds: Mapping[str, Sequence[str]] = {}
) -> list[SelectedSystem]:
    """Return the systems that *names* stand for, in order and without repetitions: names, result files, or folders of these.

    "new = NAME" renames a system. A name among *seeds* stands for several systems as one; seeds that are not among *names* come
    last. Other names are looked up in the given files first, then in *folder*, a folder of results, or else in the store.

    Raises InvalidFile, UnknownName, CommandError or CannotStart.
    """

    @cache  # reading a store or a large folder is slow, so it is read once, and only if a name needs it
    def at_hand() -> list[StoredResult]:
        if folder is None:
            return list(stored_results(store))
        return [entry for system in _of_path(folder) for group in system.results.values() for entry in group]

    known = {} if folder else store.names()
    paths = [text for text in names if text not in seeds and Path(text).exists() and not is_model_folder(Path(text))]
    # A path without a separator may also be a system, e.g. a folder called bm25: names come first.
    paths = [text for text in paths if set(text) & set("/\\") or not find_systems(text, at_hand(), known)]
    in_files = _distinct_labels({text: _of_path(Path(text)) for text in paths})
    loaded = {system.label: system for group in in_files.values() for system in group}
    of_files = [entry for system in loaded.values() for group in system.results.values() for entry in group]

    def find(text: str) -> list[SelectedSystem]:
        if text in loaded:
            return [loaded[text]]
        found = find_systems(text, of_files) or find_systems(text, at_hand(), known)
        if not found:
            where = str(folder) if folder else "the store"
            names = {entry.result.system for entry in at_hand()}
            raise UnknownName(f"file, and no result in {where} of", text, names, see="lexbench list results, or lexbench run")
        return [_selected(label, entries) for label, entries in found.items()]

    selected: dict[str, SelectedSystem] = {}
    for text in (*names, *(name for name in seeds if name not in names)):
        if text in seeds:
            members = [system for member in seeds[text] for system in find(member)]
            merged = {
                dataset: [StoredResult(as_one(text, [member.results[dataset][0].result for member in members]), None)]
                for dataset in common_datasets(members, ())
            }
            group = [SelectedSystem(text, merged)]
        else:
            group = in_files[text] if text in in_files else find(text)
        for system in group:
            selected.setdefault(system.label, system)
    return list(selected.values())


def _selected(label: str, entries: Iterable[StoredResult]) -> SelectedSystem:
    """Return the *entries* of one system as a system to compare, whose results have its label as their name."""
    by_dataset: dict[str, list[StoredResult]] = {}
    for entry in entries:
        expression = expression_of(entry.result)
        result = structs.replace(entry.result, system=label, expression=expression if expression != label else "")
        by_dataset.setdefault(result.dataset, []).append(entry._replace(result=result))
    return SelectedSystem(label, by_dataset)


def _distinct_labels(by_path: dict[str, list[SelectedSystem]]) -> dict[str, list[SelectedSystem]]:
    """Return the systems by path. A name in several paths is one system if the results agree; else labels name the path."""
    copies: dict[str, list[SelectedSystem]] = {}
    for group in by_path.values():
        for system in group:
            copies.setdefault(system.label, []).append(system)
    merged = {name: _merged(group) for name, group in copies.items()}
    return {
        path: [merged[copy.label] or _selected(f"{path}: {copy.label}", chain(*copy.results.values())) for copy in group]
        for path, group in by_path.items()
    }


def _of_path(path: Path) -> list[SelectedSystem]:
    """Return the systems of a result file, or of a folder that `run --results` or `export json` wrote."""
    files = [path] if path.is_file() else results.files_of(path) or sorted(path.glob("*.json"))
    if not files:
        raise CannotStart(f"no result files in {path}; write some: lexbench run suite pydoc --results {quote(str(path))}")
    by_system: dict[str, list[StoredResult]] = {}
    loaded = (StoredResult(result, None) for file in files for result in read_results(file))
    for entry in sorted(loaded, key=lambda entry: entry.result.measured.started, reverse=True):
        by_system.setdefault(entry.result.system, []).append(entry)
    return [_selected(system, by_system[system]) for system in sorted(by_system)]


def _merged(copies: Sequence[SelectedSystem]) -> SelectedSystem | None:
    """Return copies of one system as one; None if two of them have different results on a dataset."""
    merged: dict[str, list[StoredResult]] = {}
    for system in copies:
        for dataset, group in system.results.items():
            if list(map(_scored, merged.setdefault(dataset, group))) != list(map(_scored, group)):
                return None
    return SelectedSystem(copies[0].label, merged)


def _scored(entry: StoredResult) -> tuple[Any, ...]:
    """Return the facts that are equal for two runs of one system, at any time and on any machine."""
    return entry.result.contract, entry.result.digests, entry.result.recipe, entry.result.per_query


def common_datasets(systems: Sequence[SelectedSystem], wanted: Sequence[str]) -> list[str]:
    """Return the datasets that all systems have, only the *wanted* ones if given. Raises CannotStart if there is none."""
    common = [name for name in sorted(systems[0].results) if all(name in system.results for system in systems)]
    for name in wanted:
        lacking = next((system for system in systems if name not in system.results), None)
        if lacking:
            known = ", ".join(sorted(lacking.results))
            raise CannotStart(
                f"{lacking.label} has no result on {name}; it has: {known}; make it: lexbench run dataset {quote(name)}"
            )
    if not common:
        datasets = "; ".join(f"{system.label} on {', '.join(sorted(system.results))}" for system in systems)
        raise CannotStart(f"no dataset has results of all systems: {datasets}; make them: lexbench run suite")
    return [name for name in common if not wanted or name in wanted]


def on_data(system: SelectedSystem, typed: str, data: Dataset) -> SelectedSystem:
    """Return *system* without results on other *data* of the same name. The dataset was *typed* as a folder.

    Raises CannotStart if no result is left.
    """
    name = data.contract.id
    every = system.results.get(name, [])
    kept = [entry for entry in every if data.digests.items() <= entry.result.digests.items()]
    if every and not kept:
        raise CannotStart(
            f"{system.label} has results on other data called {name}, none on {typed}; "
            f"make it: lexbench run dataset {quote(typed)}"
        )
    return system._replace(results=system.results | {name: kept} if kept else system.results)
