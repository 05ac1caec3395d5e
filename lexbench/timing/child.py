"""The measuring process: opens one system, warms it up, times it, and writes every duration and what the conditions were.

The system is made again from its text, with the weights that a run chose and so many threads.
"""

import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from lexbench.executors import executor
from lexbench.plugins import (
    CHOSEN_WEIGHTS,
    Fusion,
    HoldsObjects,
    LeavesOut,
    NeedsQueryIds,
    SearchesInBlocks,
    TellsTransfer,
    Weighted,
    encode_queries,
)
from lexbench.registry import everywhere, has_threads
from lexbench.runner import systems
from lexbench.storage import atomic
from lexbench.timing import counters
from lexbench.timing.loop import Pass, Work, null, order_of, run_pass, serve, timed_passes, warm_up
from lexbench.timing.protocol import DURATIONS_FILE, FACTS_FILE, LEAST_PASSES, STAGES, Facts, Task
from lexbench.types import Hits, Query


def chosen_weights(named: Any, resolved: Any) -> list[list[float]]:
    """Return the weights that *resolved* has where the retriever as it was *named* leaves them open, inner ones first."""
    weights = []
    if isinstance(named, Fusion):
        for part, resolved_part in zip(named.parts, resolved.parts, strict=True):
            weights += chosen_weights(part, resolved_part)
        if isinstance(named, Weighted) and named.weights in CHOSEN_WEIGHTS:
            weights.append(list(resolved.weights))
    return weights


def with_weights(retriever: Any, weights: Iterator[Sequence[float]]) -> Any:
    """Return *retriever* with *weights* where they are to be chosen: the inverse of `chosen_weights`."""
    if not isinstance(retriever, Fusion):
        return retriever
    changed: Any = replace(retriever, parts=tuple(with_weights(part, weights) for part in retriever.parts))  # type: ignore[type-var]
    chosen = isinstance(changed, Weighted) and changed.weights in CHOSEN_WEIGHTS
    return replace(changed, weights=tuple(next(weights))) if chosen else changed


def with_threads(plugin: Any, threads: int) -> Any:
    """Return *plugin* with that number wherever it, or a part of it, has a setting `threads` that changes no answer."""
    return everywhere(plugin, lambda one: replace(one, threads=threads) if has_threads(one) else one)


def _open(task: Task) -> Any:
    """Return the searcher of a task."""
    retriever = with_threads(with_weights(systems.system(task.system).retriever, iter(task.weights)), task.threads)
    workers = executor(task.on) if task.on else None
    if isinstance(workers, HoldsObjects):
        retriever = systems.on_workers(retriever, workers, lambda _line: None)
    return retriever.open(Path(task.index))


def _inputs(searcher: Any, task: Task) -> tuple[Callable[[Any], Any], list[Any]]:
    """Return what encodes queries, and what it is given: one query each time, or as many as the searcher takes at once."""
    most = searcher.queries_at_a_time if isinstance(searcher, SearchesInBlocks) else len(task.queries)
    size = 1 if task.single else most
    starts = range(0, len(task.queries), size)
    blocks = [task.queries[start : start + size] for start in starts]
    if task.own and isinstance(searcher, LeavesOut):
        owns = [np.array(task.own[start : start + size], np.int32) for start in starts]
        listed = [([Query(*query) for query in block], own) for block, own in zip(blocks, owns, strict=True)]
        return lambda block: searcher.without(encode_queries(searcher, block[0]), block[1]), listed
    if isinstance(searcher, NeedsQueryIds):
        return searcher.encode_queries, [[Query(*query) for query in block] for block in blocks]
    return searcher.encode, [[text for _, text in block] for block in blocks]


class _Watch:
    """Hears of each pass: whether it returned what the others did; keeps the hits of one."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self.hits: list[Hits] = []
        self.digests: set[str] = set()

    def warmed(self, _timed: Pass) -> None:
        self._tell()

    def timed(self, timed: Pass) -> None:
        self.digests.add(_digest(timed.hits))
        self.hits = self.hits or list(timed.hits)
        self._tell()


def _digest(hits: Sequence[Hits]) -> str:
    digest = hashlib.sha256()
    for block in hits:
        digest.update(np.ascontiguousarray(block.docs).tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Start:
    """How a process began that was forked from one that had imported modules."""

    last: bool  # try: whatever has to be imported
    modules: frozenset[str] = field(default_factory=lambda: frozenset(sys.modules))
    memory: dict[str, int] = field(default_factory=counters.memory)

    def imported(self) -> list[str]:
        """Return the modules that this process has imported since."""
        return [name for name in counters.imported_modules() if name not in self.modules]


def measure(task: Task, tell: Callable[[], None], start: Start | None = None) -> list[str]:
    """Do *task*, and write what came of it into its folder; *tell* is called after each pass. Return [].

    But return, and measure nothing, what the first query made a process import that has begun as *start* says.
    """
    if task.core is not None:
        os.sched_setaffinity(0, {task.core})
    seconds, memory = {}, {}
    begin = time.perf_counter()
    searcher = _open(task)
    seconds["open"] = time.perf_counter() - begin
    encode, inputs = _inputs(searcher, task)
    _limit_torch(task.threads)
    begin = time.perf_counter()
    searcher.search(encode(inputs[0]), task.k)
    seconds["first_query" if task.single else "first_block"] = time.perf_counter() - begin
    modules = start.imported() if start else []
    if start and not start.last and modules:
        return modules
    memory["peak_open"] = counters.peak_memory()
    work, watch = Work(encode, searcher.search, inputs, task.k), _Watch(tell)
    counters.reset_peak_memory()
    warm = warm_up(work, watch.warmed)
    memory |= counters.memory() | {"model": counters.model_bytes()}
    before, joules, travelled = counters.moment(), counters.energy_counters(), _transfer(searcher)
    passes = timed_passes(work, len(warm), watch.timed, 0 if task.load else task.seconds)
    served = serve(work, task.load, task.seconds)[:, np.newaxis] if task.load else None
    after = counters.moment()
    energy = counters.energy_spent(joules, counters.energy_counters(), len(task.queries) * len(passes))
    if (transfer := _transfer(searcher) - travelled) > 0:
        seconds["transfer"] = transfer / (len(inputs) * len(passes))
    memory["peak_search"] = counters.peak_memory()
    nothing = null(work, watch.hits)
    idle = [run_pass(nothing, order_of(number, len(inputs))) for number in range(LEAST_PASSES)]
    cpu_per_wall = sum(item.cpu for item in passes) / sum(item.wall for item in passes)
    noise = list(counters.disturbances(before, after, os.cpu_count() or 1))
    if task.single and not task.on and (crowd := counters.crowded(cpu_per_wall)):
        noise.append(crowd)
    out = Path(task.out)
    timed = _arrays(passes, "") if served is None else dict(zip(STAGES, served, strict=True))
    arrays = timed | _arrays(warm, "warm_up.") | {"null": _arrays(idle, "")["e2e"]} | _joined(watch.hits)
    atomic.write_bytes(out / DURATIONS_FILE, save(arrays))
    facts = Facts(
        warm_up=len(warm),
        cpu_per_wall=cpu_per_wall,
        seconds=seconds,
        memory={name: count for name, count in memory.items() if count},
        noise=noise,
        workers=_workers(task, seconds),
        energy=energy,
        same=len(watch.digests) == 1,
        modules=counters.imported_modules(),
        imports={} if start is None or modules else start.memory,
    )
    atomic.write_bytes(out / FACTS_FILE, msgspec.json.encode(facts))
    return []


def _transfer(searcher: Any) -> float:
    """Return the seconds that searches so far have taken for the way to workers and back."""
    return searcher.transfer if isinstance(searcher, TellsTransfer) else 0.0


def _workers(task: Task, seconds: dict[str, float]) -> str:
    """Return a line of where workers search, if they do."""
    way = 1000 * seconds.get("transfer", 0)
    return f"workers search, on {task.on}; the way there and back takes {way:.2f} ms of a search" if task.on else ""


def _arrays(passes: Sequence[Pass], prefix: str) -> dict[str, NDArray[Any]]:
    """Return durations (passes, inputs) by stage."""
    stacked = np.stack([item.durations for item in passes], axis=1)
    return {prefix + stage: np.ascontiguousarray(matrix) for stage, matrix in zip(STAGES, stacked, strict=True)}


def _joined(hits: Sequence[Hits]) -> dict[str, NDArray[Any]]:
    """Return hits (queries, k): a searcher may return fewer columns for one query than for another."""
    width = max(block.docs.shape[1] for block in hits)
    docs = [np.pad(block.docs, ((0, 0), (0, width - block.docs.shape[1])), constant_values=-1) for block in hits]
    scores = [np.pad(block.scores, ((0, 0), (0, width - block.scores.shape[1]))) for block in hits]
    return {"docs": np.concatenate(docs).astype(np.int32), "scores": np.concatenate(scores).astype(np.float32)}


def _limit_torch(threads: int) -> None:
    """Hold torch to so many threads, if it has been imported."""
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(threads)


def baseline(modules: list[str], out: Path) -> None:
    """Import *modules* and write what memory that takes: what of a measuring process is not the system's."""
    with suppress(OSError):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    counters.import_all(modules)
    atomic.write_bytes(out / FACTS_FILE, msgspec.json.encode(counters.memory()))
