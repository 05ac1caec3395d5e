"""Benchmark the checkpoints of a training as they are written: `lexbench watch`, in a second terminal during the training.

A checkpoint is a folder with config.json or modules.json, and weights. Its results are stored by its content, so a checkpoint
is never benchmarked twice, and a stopped watch continues where it was. The datasets are for choosing checkpoints, not for
testing: a dataset of a suite, or a file test.tsv, is refused unless `tests_too` is set.
"""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lexbench.answer import Answer
from lexbench.errors import CommandError
from lexbench.results import Result
from lexbench.runner import jobs
from lexbench.runner.plan import plan_dataset
from lexbench.storage.store import Store
from lexbench.suites import suite as suite_named
from lexbench.suites import suite_names
from lexbench.table import Table

_DEPTH = 1000  # documents per query
PLACE = "{}"  # stands for the checkpoint's folder in a system
_MODEL = ("config.json", "modules.json")
_WEIGHTS = ("*.safetensors", "*.bin", "*/*.safetensors")
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
    curve: tuple[float, ...] = ()  # the first measure of all checkpoints on the dataset so far

    @property
    def step(self) -> int | None:
        """The last number in the checkpoint's name (e.g. `checkpoint-1500`); None without one."""
        match = _STEP.search(self.checkpoint.name)
        return int(match[1]) if match else None

    def tables(self) -> Sequence[Table]:
        """Return nothing: a point is a line."""
        return ()

    def lines(self) -> list[str]:
        """Return the means, and the curve of the dataset so far."""
        if self.result is None:
            return [f"{self.checkpoint.name}  {self.dataset}  failed: {self.error}"]
        means = "  ".join(f"{name} {value:.4f}" for name, value in self.result.means.items())
        return [f"{self.checkpoint.name}  {self.dataset}  {means}  {curve(self.curve)}".rstrip()]

    def document(self) -> dict[str, Any]:
        """Return the checkpoint, its step, and its means or its error."""
        means = self.result.means if self.result else {}
        stamps = {"checkpoint": self.checkpoint.name, "step": self.step, "dataset": self.dataset}
        return {**stamps, "error": self.error, "means": means}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row."""
        document = self.document()
        return [{**document, **document.pop("means")}]


def watch(  # noqa: PLR0913 - what decides a watch
    folder: Path, system: str, datasets: Sequence[str], measures: Sequence[str], store: Store, *, once: bool, every: float,
    tests_too: bool,
) -> Iterator[Point]:  # fmt: skip
    """Yield the result of each checkpoint in *folder* on each dataset, as checkpoints are written; with *once*, of those there.

    *every* is the number of seconds between two looks. Raises CommandError for a system without a place for the checkpoint,
    and for a test dataset unless *tests_too*.
    """
    if not datasets:
        raise CommandError("name a dataset to choose on, e.g. -d beir/nfcorpus/dev")
    check(system, datasets, tests_too=tests_too)
    settled = 0.0 if once else _SETTLED
    seen: set[Path] = set()
    curves: dict[str, list[float]] = {}
    while True:
        new = [checkpoint for checkpoint in checkpoints(folder, settled) if checkpoint not in seen]
        seen.update(new)
        for point in (point for checkpoint in new for point in benchmark(checkpoint, system, datasets, measures, store)):
            values = curves.setdefault(point.dataset, [])
            values += [next(iter(point.result.means.values()))] if point.result else []
            yield replace(point, curve=tuple(values))
        if once:
            return
        time.sleep(every)


def curve(values: Sequence[float]) -> str:
    """Return a bar for each value, scaled from the lowest to the highest."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return "".join(_BARS[round((value - low) / (high - low) * (len(_BARS) - 1)) if high > low else 0] for value in values)


def checkpoints(folder: Path, settled: float = 0.0) -> list[Path]:
    """Return the checkpoints in *folder* (or itself) by step, except those written in the last *settled* seconds."""
    candidates = [folder, *(path for path in folder.iterdir() if path.is_dir())]
    found = [path for path in candidates if _is_whole(path) and time.time() - _changed(path) >= settled]
    return sorted(found, key=lambda path: (Point(path, "", None).step or 0, path.name))


def _is_whole(path: Path) -> bool:
    return any((path / name).is_file() for name in _MODEL) and any(next(path.glob(pattern), None) for pattern in _WEIGHTS)


def _changed(path: Path) -> float:
    return max((file.stat().st_mtime for file in path.rglob("*") if file.is_file()), default=0.0)


def check(system: str, datasets: Sequence[str], *, tests_too: bool = False) -> None:
    """Raise CommandError if *system* has no place for the checkpoint, or a dataset is a test set and *tests_too* is False."""
    if PLACE not in system:
        raise CommandError(f'{system!r} has no {PLACE} for the checkpoint; write it like sparse_mlm(model="{PLACE}")@impact')
    in_suites = {dataset for name in suite_names() for dataset in suite_named(name).datasets}
    tested = [name for name in datasets if name in in_suites or Path(name).name.partition(".")[0] == "test"]
    if tested and not tests_too:
        raise CommandError(f"{tested[0]} is for testing, not for choosing checkpoints; name a dev split, or add --tests-too")


def benchmark(checkpoint: Path, system: str, datasets: Sequence[str], measures: Sequence[str], store: Store) -> Iterator[Point]:
    """Yield the result of one checkpoint on each dataset. Results in the store are not computed again."""
    typed = f"{checkpoint.name} = {system.replace(PLACE, str(checkpoint))}"
    for dataset in datasets:
        for outcome in jobs.run(plan_dataset(dataset, [typed], measures, _DEPTH), store):
            yield Point(checkpoint, dataset, outcome.result, outcome.error or "")
