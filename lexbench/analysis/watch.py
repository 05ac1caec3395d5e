"""Benchmark the checkpoints of a training as they are written: `lexbench watch`, in a second terminal during the training.

A checkpoint is a folder with config.json, modules.json or adapter_config.json, and weights. Its results are stored by its
content, so a checkpoint is never benchmarked twice, and a stopped watch continues where it was. The datasets are for choosing
checkpoints, not for testing: of a folder the split `dev` is used if it has one, and a dataset of a suite or a split `test` is
refused unless `tests_too` is set.
"""

import json
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lexbench.analysis.significance.bootstrap import difference_interval, interval
from lexbench.datasets.dataset import open_dataset
from lexbench.datasets.location import Typed, find_dataset, typed_place
from lexbench.datasets.sources.files import find_tables
from lexbench.display.answer import Answer
from lexbench.display.table import Table, interval_cell
from lexbench.errors import CommandError, LexbenchError, UnknownName
from lexbench.results import Result, Results
from lexbench.runner import systems
from lexbench.suites import suite as suite_named
from lexbench.suites import suite_names

PLACE = "{}"  # stands for the checkpoint's folder in a system
DEV = "dev"
_MODEL = ("config.json", "modules.json", "adapter_config.json")
_WEIGHTS = (".safetensors", ".bin")
_SETTLED = 10.0  # seconds: a checkpoint that changed later may still be written
_BARS = "▁▂▃▄▅▆▇█"
_STEP = re.compile(r"(\d+)(?!.*\d)")


@dataclass(frozen=True)
class Point(Answer):
    """A checkpoint and its result on one dataset, or the error."""

    checkpoint: Path
    dataset: str
    result: Result | None
    error: str = ""
    earlier: tuple["Point", ...] = ()  # the points of checkpoints before it that have a result on the dataset

    @property
    def step(self) -> int | None:
        """The last number in the checkpoint's name (e.g. `checkpoint-1500`); None without one."""
        match = _STEP.search(self.checkpoint.name)
        return int(match[1]) if match else None

    @cached_property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """The 95 % interval of the mean by measure."""
        return {name: interval(np.array(values)) for name, values in self.result.per_query.items()} if self.result else {}

    def tables(self) -> Sequence[Table]:
        """Return nothing: a point is a line."""
        return ()

    def lines(self) -> list[str]:
        """Return the means with intervals, the size of a document's vector, the best point before it, and the curve so far."""
        if self.result is None:
            return [f"{self.checkpoint.name}  {self.dataset}  failed: {self.error}"]
        parts = [f"{name} {mean:.4f} {interval_cell(self.intervals[name])}" for name, mean in self.result.means.items()]
        if vectors := self.result.vectors:
            terms = vectors.terms.get("mean")
            parts.append(f"{vectors.dimensions} dimensions" if terms is None else f"{terms:.1f} terms/doc.")
        if self.earlier:
            shown = (*self.earlier, self)
            drawn = curve(list(map(_mean, shown)), [next(iter(point.intervals.values())) for point in shown])
            parts += [self._against_best(self.result), drawn]
        return ["  ".join([self.checkpoint.name, self.dataset, *parts])]

    def _against_best(self, result: Result) -> str:
        """Return the difference from the best point before it, in the first measure, with its paired interval."""
        measure = next(iter(result.means))
        best = max(self.earlier, key=_mean)
        assert best.result is not None
        differences = np.array(result.per_query[measure]) - np.array(best.result.per_query[measure])
        return f"{differences.mean():+.4f} {interval_cell(difference_interval(differences), '+.3f')} to {best.checkpoint.name}"

    def document(self) -> dict[str, Any]:
        """Return the checkpoint, its step, and its means with intervals and values per query, or its error."""
        result = self.result
        rows = result.per_query if result else {}
        return {
            **self._stamps(),
            "means": result.means if result else {},
            "intervals": self.intervals,
            "vectors": result.vectors if result else None,
            "per_query": {name: dict(zip(result.query_ids, row, strict=True)) for name, row in rows.items()} if result else {},
        }

    def _stamps(self) -> dict[str, Any]:
        return {"checkpoint": self.checkpoint.name, "step": self.step, "dataset": self.dataset, "error": self.error}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row."""
        return [{**self._stamps(), **(self.result.means if self.result else {})}]


def watch(
    folder: Path, system: str, datasets: Sequence[str], run: Callable[..., Results], *, every: float | None,
    tests_too: bool, on_note: Callable[[str], None],
) -> Iterator[Point]:  # fmt: skip
    """Return the results of each checkpoint in *folder* on each dataset, as checkpoints are written.

    *run* is `lexbench.run` with its settings. *every* is the number of seconds between two looks; None takes the checkpoints
    that are there and ends. *on_note* gets what the watch waits for. Raises CommandError for a system without a place for the
    checkpoint, and for a test dataset unless *tests_too*.
    """
    if not datasets:
        raise CommandError("name a dataset to choose on, e.g. -d beir/nfcorpus/dev")
    if PLACE not in system:
        raise CommandError(f'{system!r} has no {PLACE} for the checkpoint; write it like sparse_mlm(model="{PLACE}")@impact')
    try:
        systems.system(system.replace(PLACE, "CHECKPOINT"))
    except UnknownName:  # a mistyped name or setting is found before the first checkpoint is waited for
        raise
    except LexbenchError:  # the folder is missing
        pass
    if every is None and not folder.is_dir():
        raise CommandError(f"there is no folder {folder}")
    chosen = [_to_choose_on(name, tests_too=tests_too) for name in datasets]
    found = [find_dataset(name) for name in chosen]
    named = ", ".join(contract.id for contract, _ in found)
    on_note(
        f"{folder}: {len(checkpoints(folder))} checkpoints, which are folders with {' or '.join(_MODEL)}, and weights"
        + ("" if every is None else f", that have not changed for {_SETTLED:.0f} s")
        + f"; each is searched on {named} by {system}"
    )
    for one in found:
        _ = open_dataset(*one).topics  # a mistake in the data is found early, too
    return _points(folder, system, chosen, run, every, on_note)


def _points(
    folder: Path, system: str, datasets: Sequence[str], run: Callable[..., Results], every: float | None,
    on_note: Callable[[str], None],
) -> Iterator[Point]:  # fmt: skip
    """Yield the points; with *every* None, of the checkpoints that are there."""
    seen: dict[Path, float] = {}
    curves: dict[str, tuple[Point, ...]] = {}
    waiting = False
    while True:
        there = checkpoints(folder, 0.0 if every is None else _SETTLED)
        new = [checkpoint for checkpoint in there if seen.get(checkpoint) != _changed(checkpoint)]
        for checkpoint in new:
            seen[checkpoint] = _changed(checkpoint)
            typed = f"{checkpoint.name} = {system.replace(PLACE, str(checkpoint))}"
            for dataset in datasets:
                try:
                    found = run(dataset, [typed])
                    result, error = next(iter(found), None), next((failure.error for failure in found.failures), "")
                except LexbenchError as refused:  # this checkpoint lacks a file; the next one may be whole
                    result, error = None, str(refused)
                earlier = curves.get(dataset, ())
                point = Point(checkpoint, find_dataset(dataset)[0].id, result, error, earlier)
                curves[dataset] = (*earlier, point) if result else earlier
                yield point
        if every is None:
            return
        if new or not waiting:
            waiting = True
            on_note(f"waiting for the next checkpoint; a look every {every:g} s; Ctrl-C ends, and the same command continues")
        time.sleep(every)


def _to_choose_on(dataset: str, *, tests_too: bool) -> str:
    """Return *dataset* with the split to choose on. Raises CommandError for a test set, unless *tests_too*."""
    place = None if tests_too else typed_place(dataset)
    if place and not place.split and place.path.is_dir() and DEV in find_tables(place.path, "judgements"):
        named = f"{dataset}#{DEV}"
        return Typed(named, dataset.columns) if isinstance(dataset, Typed) else named
    contract, _ = find_dataset(dataset)
    in_suites = {name for suite in suite_names() for name in suite_named(suite).datasets}
    if not tests_too and (contract.id in in_suites or contract.source.split.startswith("test")):
        other = f", e.g. {contract.tuning}" if contract.tuning else ""
        raise CommandError(
            f"{contract.id} is for testing, not for choosing checkpoints; name a dev split{other}, or add --tests-too"
        )
    return dataset


def _mean(point: Point) -> float:
    """Return the first mean of a point that has a result."""
    assert point.result is not None
    return next(iter(point.result.means.values()))


def curve(means: Sequence[float], intervals: Sequence[tuple[float, float]]) -> str:
    """Return a bar per mean. The axis spans all intervals, so that noise does not fill it; its ends are shown."""
    low, high = min(low for low, _ in intervals), max(high for _, high in intervals)
    bars = "".join(_BARS[round((mean - low) / (high - low) * (len(_BARS) - 1)) if high > low else 0] for mean in means)
    return f"{low:.3f} {bars} {high:.3f}"


def checkpoints(folder: Path, settled: float = 0.0) -> list[Path]:
    """Return the checkpoints in *folder* (or itself) that were not written in the last *settled* seconds.

    They are in the order of their steps; those without one come last.
    """
    inside = [path for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
    candidates = {folder, *inside} - set(_modules(folder))
    found = [path for path in candidates if _is_whole(path) and time.time() - _changed(path) >= settled]
    steps = {path: Point(path, "", None).step for path in found}
    return sorted(found, key=lambda path: (math.inf if (step := steps[path]) is None else step, path.name))


def _is_whole(path: Path) -> bool:
    names = {file.name for file in path.glob("*")}
    return not names.isdisjoint(_MODEL) and any(file.suffix in _WEIGHTS for file in _files(path))


def _changed(path: Path) -> float:
    """Return when the files in *path* were written last; 0 if they are gone, because trainers remove old checkpoints."""
    times = [0.0]
    for file in _files(path):
        with suppress(FileNotFoundError):
            times.append(file.stat().st_mtime)
    return max(times)


def _files(path: Path) -> list[Path]:
    """Return the files of the model in *path*. Other folders in it, e.g. its own checkpoints, are not of the model."""
    return [file for place in (path, *_modules(path)) for file in place.glob("*") if file.is_file()]


def _modules(path: Path) -> list[Path]:
    """Return the folders of the modules that a model of sentence-transformers lists; none if the list is not written yet."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        return [path / module["path"] for module in json.loads((path / "modules.json").read_text()) if module["path"]]
    return []
