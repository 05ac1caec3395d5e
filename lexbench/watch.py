"""Benchmark the checkpoints of a training as they are written: `lexbench watch`, in a second terminal during the training.

A checkpoint is a folder with config.json or modules.json, and weights. Its results are stored by its content, so a checkpoint
is never benchmarked twice, and a stopped watch continues where it was. The datasets are for choosing checkpoints, not for
testing: a dataset of a suite, or a file test.tsv, is refused unless `tests_too` is set.
"""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lexbench import suites
from lexbench.errors import CommandError
from lexbench.results import Result
from lexbench.runner import jobs
from lexbench.runner.plan import plan_dataset
from lexbench.storage.store import Store

_DEPTH = 1000  # documents per query
PLACE = "{}"  # stands for the checkpoint's folder in a system
_MODEL = ("config.json", "modules.json")
_WEIGHTS = ("*.safetensors", "*.bin", "*/*.safetensors")
_STEP = re.compile(r"(\d+)(?!.*\d)")


@dataclass(frozen=True)
class Point:
    """A checkpoint and its result on one dataset, or the error."""

    checkpoint: Path
    dataset: str
    result: Result | None
    error: str = ""

    @property
    def step(self) -> int | None:
        """The last number in the checkpoint's name (e.g. `checkpoint-1500`); None without one."""
        match = _STEP.search(self.checkpoint.name)
        return int(match[1]) if match else None


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
    in_suites = {dataset for name in suites.suite_names() for dataset in suites.suite(name).datasets}
    tested = [name for name in datasets if name in in_suites or Path(name).name.partition(".")[0] == "test"]
    if tested and not tests_too:
        raise CommandError(f"{tested[0]} is for testing, not for choosing checkpoints; name a dev split, or add --tests-too")


def benchmark(checkpoint: Path, system: str, datasets: Sequence[str], measures: Sequence[str], store: Store) -> Iterator[Point]:
    """Yield the result of one checkpoint on each dataset. Results in the store are not computed again."""
    typed = f"{checkpoint.name} = {system.replace(PLACE, str(checkpoint))}"
    for dataset in datasets:
        for outcome in jobs.run(plan_dataset(dataset, [typed], measures, _DEPTH), store):
            yield Point(checkpoint, dataset, outcome.result, outcome.error or "")
