"""Benchmark the checkpoints of a training as they are written, from a terminal or from the trainer itself.

    lexbench watch checkpoints -r 'sparse_mlm(model="{}")@impact' -d beir/nfcorpus/dev     in a terminal beside the training
    lexbench.watch.TrainerCallback('dense(model="{}", pooling="mean")', "beir/nfcorpus/dev").attach(trainer)

A checkpoint is a folder with config.json or modules.json, and weights. Its results are stored by its content, so a checkpoint
is never benchmarked twice, and a stopped watch continues where it was. The datasets are for choosing checkpoints, not for
testing: a dataset of a suite, or a file test.tsv, is refused unless `tests_too` is set.
"""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from lexbench import suites
from lexbench.errors import CommandError
from lexbench.results import Result
from lexbench.runner import jobs
from lexbench.runner.plan import plan_dataset
from lexbench.storage.store import Store

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
    """Raise CommandError for a system without a place for the checkpoint, and for test datasets."""
    if PLACE not in system:
        raise CommandError(f'{system!r} has no {PLACE} for the checkpoint; write it like sparse_mlm(model="{PLACE}")@impact')
    in_suites = {dataset for name in suites.suite_names() for dataset in suites.suite(name).datasets}
    tested = [name for name in datasets if name in in_suites or Path(name).name.partition(".")[0] == "test"]
    if tested and not tests_too:
        raise CommandError(f"{tested[0]} is for testing, not for choosing checkpoints; name a dev split, or add --tests-too")


def benchmark(
    checkpoint: Path, system: str, datasets: Sequence[str], measures: Sequence[str], store: Store, depth: int = 1000
) -> Iterator[Point]:
    """Yield the result of one checkpoint on each dataset. Results in the store are not computed again."""
    typed = f"{checkpoint.name} = {system.replace(PLACE, str(checkpoint))}"
    for dataset in datasets:
        for outcome in jobs.run(plan_dataset(dataset, [typed], measures, depth), store):
            yield Point(checkpoint, dataset, outcome.result, outcome.error or "")


@dataclass
class Watch:
    """The checkpoints of a folder as they are written."""

    folder: Path
    system: str
    datasets: Sequence[str]
    measures: Sequence[str]
    store: Store = field(default_factory=Store)
    settled: float = 10.0  # seconds since the last write to a complete checkpoint

    def new_points(self, seen: set[Path]) -> Iterator[Point]:
        """Yield the points of checkpoints that are not in *seen*, and add these."""
        for checkpoint in checkpoints(self.folder, self.settled):
            if checkpoint not in seen:
                seen.add(checkpoint)
                yield from benchmark(checkpoint, self.system, self.datasets, self.measures, self.store)


class TrainerCallback:
    """A callback for trainers of transformers or sentence-transformers that benchmarks and logs each saved checkpoint.

    *system* has {} in place of the checkpoint's folder. After `attach`, means go to the trainer's log, e.g. as
    `lexbench/beir/nfcorpus/dev/nDCG@10`. The class derives from nothing: trainers look up methods of callbacks by name.
    """

    def __init__(self, system: str, *datasets: str, measures: Sequence[str] = ("nDCG@10",), store: Path | None = None) -> None:
        check(system, datasets)
        self.system, self.datasets, self.measures, self.store = system, datasets, measures, Store(store) if store else Store()
        self.points: list[Point] = []
        self._trainer: Any = None

    def attach(self, trainer: Any) -> Self:
        """Register this callback with *trainer*, and log to it."""
        self._trainer = trainer
        trainer.add_callback(self)
        return self

    def on_save(self, args: Any, state: Any, _control: Any, **_more: Any) -> None:
        """Benchmark the checkpoint that was just written, in the main process only. Errors are logged too."""
        if not state.is_world_process_zero:
            return
        checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        points = list(benchmark(checkpoint, self.system, self.datasets, self.measures, self.store))
        self.points += points
        logs: dict[str, Any] = {}
        for point in points:
            means = point.result.means if point.result else {"error": point.error}
            logs |= {f"lexbench/{point.dataset}/{name}": value for name, value in means.items()}
        if self._trainer is not None:
            self._trainer.log(logs)
        else:
            state.log_history.append({**logs, "step": state.global_step})

    def __getattr__(self, name: str) -> Any:
        """Return a function that does nothing for every other event."""
        if name.startswith("on_"):
            return lambda *_args, **_settings: None
        raise AttributeError(name)
