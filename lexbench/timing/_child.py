"""The measuring process: opens one system, warms it up, times it, and writes every duration and what the conditions were."""

import hashlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from lexbench.storage import atomic
from lexbench.timing import _energy, _loop, _memory, _noise
from lexbench.timing._opening import inputs_of, opened
from lexbench.timing.protocol import LEAST_PASSES, STAGES, Task
from lexbench.types import Hits

DURATIONS, FACTS = "durations.safetensors", "facts.json"


class Facts(msgspec.Struct, kw_only=True):
    """What a measuring process found, its durations apart."""

    warm_up: int
    cpu_per_wall: float  # of the timed passes
    seconds: dict[str, float]
    memory: dict[str, int]
    noise: list[str]
    energy: dict[str, Any]
    same: bool  # every timed pass returned the same documents
    modules: list[str]  # that were imported


class _Watch:
    """Hears of each pass: whether it returned what the others did; keeps the hits of one."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self.hits: list[Hits] = []
        self.digests: set[str] = set()

    def warmed(self, _passed: _loop.Passed) -> None:
        self._tell()

    def timed(self, passed: _loop.Passed) -> None:
        self.digests.add(_digest(passed.hits))
        self.hits = self.hits or list(passed.hits)
        self._tell()


def _digest(hits: Sequence[Hits]) -> str:
    digest = hashlib.sha256()
    for one in hits:
        digest.update(np.ascontiguousarray(one.docs).tobytes())
    return digest.hexdigest()


def measure(task: Task, tell: Callable[[], None]) -> None:
    """Do *task*, and write what came of it into its folder; *tell* is called after each pass."""
    if task.core is not None:
        os.sched_setaffinity(0, {task.core})
    seconds, memory = {}, {}
    start = time.perf_counter()
    searcher = opened(task)
    seconds["open"] = time.perf_counter() - start
    encode, inputs = inputs_of(searcher, task)
    _at_most(task.threads)
    start = time.perf_counter()
    searcher.search(encode(inputs[0]), task.k)
    seconds["first_query" if task.single else "first_block"] = time.perf_counter() - start
    memory["peak_open"] = _memory.peak()
    work, watch = _loop.Work(encode, searcher.search, inputs, task.k), _Watch(tell)
    _memory.reset_peak()
    warm = _loop.warm_up(work, watch.warmed)
    memory |= _memory.proportional() | {"model": _memory.model_bytes()}
    before, joules = _noise.moment(), _energy.counters()
    passes = _loop.timed(work, len(warm), watch.timed)
    after, energy = _noise.moment(), _energy.spent(joules, _energy.counters(), len(task.queries) * len(passes))
    memory["peak_search"] = _memory.peak()
    null = _loop.null(work, watch.hits)
    idle = [_loop.one_pass(null, _loop.order_of(number, len(inputs))) for number in range(LEAST_PASSES)]
    cpu_per_wall = sum(one.cpu for one in passes) / sum(one.wall for one in passes)
    noise = list(_noise.reasons(before, after, os.cpu_count() or 1))
    if task.single and (crowd := _noise.crowded(cpu_per_wall)):
        noise.append(crowd)
    out = Path(task.out)
    arrays = _arrays(passes, "") | _arrays(warm, "warm_up.") | {"null": _arrays(idle, "")["e2e"]} | _joined(watch.hits)
    atomic.write_bytes(out / DURATIONS, save(arrays))
    facts = Facts(
        warm_up=len(warm),
        cpu_per_wall=cpu_per_wall,
        seconds=seconds,
        memory={name: count for name, count in memory.items() if count},
        noise=noise,
        energy=energy,
        same=len(watch.digests) == 1,
        modules=_memory.modules(),
    )
    atomic.write_bytes(out / FACTS, msgspec.json.encode(facts))


def _arrays(passes: Sequence[_loop.Passed], prefix: str) -> dict[str, NDArray[Any]]:
    """Return durations (passes, inputs) by stage."""
    stacked = np.stack([one.durations for one in passes], axis=1)
    return {prefix + stage: np.ascontiguousarray(matrix) for stage, matrix in zip(STAGES, stacked, strict=True)}


def _joined(hits: Sequence[Hits]) -> dict[str, NDArray[Any]]:
    """Return hits (queries, k): a searcher may return fewer columns for one query than for another."""
    width = max(one.docs.shape[1] for one in hits)
    docs = [np.pad(one.docs, ((0, 0), (0, width - one.docs.shape[1])), constant_values=-1) for one in hits]
    scores = [np.pad(one.scores, ((0, 0), (0, width - one.scores.shape[1]))) for one in hits]
    return {"docs": np.concatenate(docs).astype(np.int32), "scores": np.concatenate(scores).astype(np.float32)}


def _at_most(threads: int) -> None:
    """Hold torch to so many threads, if it has been imported."""
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(threads)


def baseline(modules: list[str], out: Path) -> None:
    """Import *modules* and write what memory that takes: what of a measuring process is not the system's."""
    with suppress(OSError):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    _memory.import_all(modules)
    atomic.write_bytes(out / FACTS, msgspec.json.encode(_memory.proportional()))
