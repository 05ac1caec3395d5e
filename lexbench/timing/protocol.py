"""The settings of timing, its scenarios, and the tasks of measuring processes.

A measuring process is `python -m lexbench.timing TASK.json`. `run_task` starts it with the task's number of threads in its
environment, and waits for it. The process writes its measurements into the task's folder.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from lexbench.errors import LexbenchError
from lexbench.results import OFFLINE, SINGLE
from lexbench.storage import atomic
from lexbench.storage.environment import cores
from lexbench.types import Document, Query

VERSION = 8  # raise it when the way of measuring, or what is stored, changes
STEADY = 0.02  # the warm-up ends when the medians of two passes in a row differ by less
FEW = 8  # unseen queries that are asked twice before the next ones
SEED = 42  # of the order of queries
DURATIONS_FILE, FACTS_FILE = "durations.safetensors", "facts.json"  # written by the measuring process
DONE_LINE = "pass done"  # the measuring process prints this line after each pass
_THREAD_VARIABLES = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "RAYON", "NUMBA")  # each with _NUM_THREADS

T = TypeVar("T")


class TimingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of `--time`."""

    k: int | tuple[int, ...] | None = None  # documents asked for, one timing each; None: as many as the untimed run
    seconds: float = 10.0  # of timed passes, over all processes; there are at least five passes
    processes: int = 3  # fresh processes for the scenario with one query in flight, because processes differ
    queries: int = 1000  # at most, evenly spaced
    threads: int | None = None  # of the offline scenario; None: every core that this process may use
    offline: bool = True  # also time all queries at once
    again: bool = False  # also time what this machine has timed before


class TimingTask(msgspec.Struct, frozen=True, kw_only=True, tag="measure"):
    """Everything that a measuring process needs to time one system in one scenario."""

    system: str  # expression
    weights: list[list[float]] = []  # chosen weights, in the order of the fusions that have weights to choose
    place: Any  # of what is searched, see `lexbench.storage.node.Place`
    dataset: str = ""  # its id, because a model may have a prompt for it
    queries: list[Query]
    own: list[int] = []  # for each query, the position of the document that searches leave out; [] for none
    k: int
    threads: int
    single: bool  # one query in flight, or all at once
    seconds: float = 10.0  # of timed passes
    core: int | None = None  # the core to pin to
    on: str = ""  # the executor whose workers search, as --on takes it; "" if this process searches
    out: str  # folder for what is measured


class MemoryBaseline(msgspec.Struct, frozen=True, kw_only=True, tag="baseline"):
    """Another kind of task: import *modules* and write how much memory they take."""

    modules: list[str]
    out: str


class EncodingTask(msgspec.Struct, frozen=True, kw_only=True, tag="encoding"):
    """Another kind of task: encode *documents*, then *queries* one by one."""

    system: str  # expression of an encoder
    runtime: str  # what computes its layers, see `encoding_speed`
    documents: list[Document]
    queries: list[str]
    out: str


class MeasuredFacts(msgspec.Struct, kw_only=True):
    """The measurements of a measuring process, except the durations."""

    warm_up: int  # passes
    cpu_per_wall: float  # of the timed passes
    seconds: dict[str, float]  # open, first_query or first_block, transfer (to workers and back, per search)
    memory: dict[str, int]  # bytes
    noise: list[str]  # what disturbed the measurement
    workers: str = ""  # where workers searched, and how long the way there took; "" if this process searched
    circumstances: dict[str, str] = {}  # other flags, each with the reason for it
    gpus: list[str] = []  # the names of the GPUs that computed
    other_warm_up: bool = False  # whether the warm-up had other queries, so that the first timed pass had unseen ones
    seen_again: float = 0.0  # how many times as long unseen queries take as the second time; 0: the system takes no others
    same: bool  # whether every timed pass returned the same documents
    modules: list[str]  # imported ones


def scenarios(settings: TimingSettings) -> dict[str, int]:
    """Return the threads of each scenario: one query in flight on one core and, if wanted, all queries at once on all cores."""
    threads = settings.threads or len(cores())
    return {SINGLE: 1} | ({f"{OFFLINE}-{threads}t": threads} if settings.offline else {})


def sample(items: Sequence[T], most: int) -> list[T]:
    """Return *most* of *items*, evenly spaced, or all if there are no more."""
    if len(items) <= most:
        return list(items)
    return [items[number * len(items) // most] for number in range(most)]


def run_task(
    task: TimingTask | MemoryBaseline | EncodingTask, threads: int, on_pass: Callable[[], None] = lambda: None
) -> None:
    """Do *task* in a fresh process, and call *on_pass* after each of its passes.

    Raises LexbenchError, with the last line of its stderr, if the process fails.
    """
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as errors:
        path = Path(folder) / "task.json"
        atomic.write_bytes(path, msgspec.json.encode(task))
        # Without -P the user's current folder would be on the path of the process even if it is not on ours.
        command = [sys.executable, "-P", "-m", "lexbench.timing", str(path)]
        pipe = subprocess.PIPE  # nothing is written to its stdin; when the pipe closes, the process knows that we have ended
        environment = _environment(threads)
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, env=environment, text=True) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    if line == f"{DONE_LINE}\n":
                        on_pass()
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines() or ["no error message"]
            raise LexbenchError(f"the process that timed it ended with {process.returncode}: {lines[-1]}")


def _environment(threads: int) -> dict[str, str]:
    """Return the environment of a measuring process: the import path of this process, and *threads* for libraries."""
    return {
        **os.environ,
        **{f"{name}_NUM_THREADS": str(threads) for name in _THREAD_VARIABLES},
        "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false",
        "PYTHONPATH": os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path),
    }
