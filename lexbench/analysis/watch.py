"""Benchmark the checkpoints of a training as they are written: `lexbench watch`, in a second terminal during the training.

A checkpoint is a folder with config.json or modules.json, and weights. Its results are stored by its content, so a checkpoint
is never benchmarked twice, and a stopped watch continues where it was. The datasets are for choosing checkpoints, not for
testing: of a folder the split `dev` is used if it has one, and a dataset of a suite or a split `test` is refused unless
`tests_too` is set.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lexbench.datasets.location import find_dataset
from lexbench.datasets.sources.files import find_tables
from lexbench.display.answer import Answer
from lexbench.display.table import Table
from lexbench.errors import CommandError
from lexbench.results import Result, Results
from lexbench.suites import suite as suite_named
from lexbench.suites import suite_names

PLACE = "{}"  # stands for the checkpoint's folder in a system
DEV = "dev"
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


def watch(
    folder: Path, system: str, datasets: Sequence[str], run: Callable[..., Results], *, once: bool, every: float,
    tests_too: bool,
) -> Iterator[Point]:  # fmt: skip
    """Yield the result of each checkpoint in *folder* on each dataset, as checkpoints are written; with *once*, of those there.

    *run* is `lexbench.run` with its settings. *every* is the number of seconds between two looks. Raises CommandError for a
    system without a place for the checkpoint, and for a test dataset unless *tests_too*.
    """
    if not datasets:
        raise CommandError("name a dataset to choose on, e.g. -d beir/nfcorpus/dev")
    if PLACE not in system:
        raise CommandError(f'{system!r} has no {PLACE} for the checkpoint; write it like sparse_mlm(model="{PLACE}")@impact')
    chosen = [(name, _split(name, tests_too=tests_too)) for name in datasets]
    seen: set[Path] = set()
    curves: dict[str, list[float]] = {}
    while True:
        new = [checkpoint for checkpoint in checkpoints(folder, 0.0 if once else _SETTLED) if checkpoint not in seen]
        seen.update(new)
        for checkpoint in new:
            typed = f"{checkpoint.name} = {system.replace(PLACE, str(checkpoint))}"
            for dataset, split in chosen:
                found = run(dataset, [typed], split=split)
                points = [Point(checkpoint, one.dataset, one) for one in found]
                points += [Point(checkpoint, one.dataset, None, one.error) for one in found.failures]
                for point in points:
                    values = curves.setdefault(point.dataset, [])
                    values += [next(iter(point.result.means.values()))] if point.result else []
                    yield replace(point, curve=tuple(values))
        if once:
            return
        time.sleep(every)


def _split(dataset: str, *, tests_too: bool) -> str | None:
    """Return the split to choose on; None for the dataset's own. Raises CommandError for a test set, unless *tests_too*."""
    if not tests_too and Path(dataset).is_dir() and DEV in find_tables(Path(dataset), "judgements"):
        return DEV
    contract, _ = find_dataset(dataset)
    in_suites = {name for suite in suite_names() for name in suite_named(suite).datasets}
    if not tests_too and (contract.id in in_suites or contract.source.split.startswith("test")):
        other = f", e.g. {contract.tuning}" if contract.tuning else ""
        raise CommandError(
            f"{contract.id} is for testing, not for choosing checkpoints; name a dev split{other}, or add --tests-too"
        )
    return None


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
