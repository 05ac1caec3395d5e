"""From what was typed to results: systems by name from the store, or all systems of result files and folders."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from lexbench import results
from lexbench.errors import CannotStart, InvalidFile, NotationError, UnknownName
from lexbench.results import Result
from lexbench.runner import systems
from lexbench.runner.jobs import Kept, kept_results
from lexbench.storage.store import Store


@dataclass(frozen=True)
class Side:
    """One system that is compared, with all that is known of it."""

    label: str  # with the file it is from, where another side is called the same
    system: str
    kept: dict[str, list[Kept]]  # by dataset, the newest first

    def with_measure(self, dataset: str, measure: str) -> Kept | None:
        """Return the newest result on *dataset* that has *measure*."""
        return next((one for one in self.kept.get(dataset, ()) if measure in one.result.per_query), None)


def sides(given: Sequence[str], store: Store) -> list[Side]:
    """Return the systems that *given* names, in its order, each once: labels, result files, or folders of these.

    A label is looked for in the files that are given too, then in the store. InvalidFile, UnknownName or CannotStart, in one
    line.
    """
    of_paths = {text: _of_path(Path(text)) for text in given if Path(text).exists()}
    every_system = {side.system for found in of_paths.values() for side in found}
    one_of = {
        system: _one([side for found in of_paths.values() for side in found if side.system == system])
        for system in every_system
    }
    in_files = {
        text: [one_of[side.system] or Side(f"{text}: {side.system}", side.system, side.kept) for side in found]
        for text, found in of_paths.items()
    }
    every = [side for found in in_files.values() for side in found]
    stored: list[Kept] | None = None
    chosen: dict[str, Side] = {}
    for text in given:
        if text in in_files:
            found = in_files[text]
        elif not (found := [side for name in _names(text) for side in every if side.system == name]):
            stored = list(kept_results(store)) if stored is None else stored
            found = [_of_store(name, stored) for name in _names(text)]
        for side in found:
            chosen.setdefault(side.label, side)
    return list(chosen.values())


def _of_path(path: Path) -> list[Side]:
    """Return the systems in a result file, or in a folder of them: what `--save` or `export json` wrote."""
    files = [path] if path.is_file() else sorted(path.glob("results/*/*.json")) or sorted(path.glob("*.json"))
    if not files:
        raise CannotStart(f"no result files in {path}; write some: lexbench run suite pydoc --save {path}")
    return _grouped(Kept(result, None) for file in files for result in _read(file))


def _one(found: Sequence[Side]) -> Side | None:
    """Return sides of one system as one, if where several have results of a dataset these are the same."""
    merged: dict[str, list[Kept]] = {}
    for side in found:
        for dataset, kept in side.kept.items():
            if list(map(_scored, merged.setdefault(dataset, kept))) != list(map(_scored, kept)):
                return None
    return Side(found[0].label, found[0].system, merged)


def _scored(kept: Kept) -> tuple[Any, ...]:
    """Return what makes two results the same, whenever and wherever they were measured."""
    return kept.result.contract, kept.result.digests, kept.result.recipe, kept.result.per_query


class _Saved(msgspec.Struct):
    """What --save wrote of a system, as far as it matters here."""

    results: list[Result] | None = None


def _read(file: Path) -> list[Result]:
    """Return the results in a file: those of a system, as --save writes them, or a single one."""
    try:
        saved = msgspec.json.decode(file.read_bytes(), type=_Saved).results
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidFile(f"{file}: {error}") from None
    return [results.load(file)] if saved is None else [results.modern(result) for result in saved]


def _grouped(found: Iterable[Kept]) -> list[Side]:
    by_system: dict[str, dict[str, list[Kept]]] = {}
    for one in sorted(found, key=lambda kept: kept.result.measured.started, reverse=True):
        by_system.setdefault(one.result.system, {}).setdefault(one.result.dataset, []).append(one)
    return [Side(system, system, by_system[system]) for system in sorted(by_system, key=_natural)]


def _natural(label: str) -> list[tuple[int, str]]:
    """Return a key by which step-900 comes before step-1000."""
    return [(int(part) if part.isdigit() else -1, part) for part in re.split(r"(\d+)", label)]


def _names(text: str) -> list[str]:
    """Return the labels that *text* may mean: each system that it names in the notation of parts, or itself."""
    try:
        return systems.each_of(text)
    except NotationError:  # the label of an object of the user's
        return [text]


def _of_store(name: str, stored: Sequence[Kept]) -> Side:
    found = _grouped(one for one in stored if one.result.system == name)
    if not found:
        known = {one.result.system for one in stored}
        raise UnknownName("file, and no result in the store of", name, known, see="lexbench list results, or lexbench run")
    return found[0]
