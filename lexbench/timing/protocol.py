"""What is timed and how: the scenarios, the number of queries, the passes; and the process that measures.

That process is `python -m lexbench.timing TASK.json`: fresh, with its number of threads in the environment, its parent waiting
for it. It is told a task, and writes what it measured into the task's folder.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from lexbench.errors import LexbenchError
from lexbench.storage import atomic, children

STAGES = ("encode_query", "search", "e2e")
LEAST_PASSES = 5  # that are timed
MOST_PASSES = 5000
MOST_WARM_UP = 5  # passes
STEADY = 0.02  # two warm-up passes whose medians differ by less end the warm-up
SEED = 42  # of the order of queries
ONE_THREAD = 1.05  # CPU time over wall time, at most
DONE = "pass done"  # a measuring process writes after each one
SINGLE, OFFLINE, SERVER = "single-stream-1t", "offline", "server"
DURATIONS_FILE, FACTS_FILE = "durations.safetensors", "facts.json"  # that a measuring process writes
_THREADS = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "RAYON", "NUMBA")  # _NUM_THREADS
_TASK = "task.json"

T = TypeVar("T")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What a user asks for with `--time`."""

    k: int | tuple[int, ...] | None = None  # documents asked for, one timing each; None: as many as the untimed run asked for
    seconds: float = 10.0  # of timed passes, of all processes together; there are at least five passes
    processes: int = 3  # fresh ones, systems by turns, for the scenario of one query in flight: they differ, too
    loads: tuple[float, ...] = ()  # queries a second that are offered, one scenario `server` each
    queries: int = 1000  # at most, evenly spaced
    threads: int | None = None  # of the scenario offline; None: every core of this process
    offline: bool = True  # also all queries at once
    again: bool = False  # also where this machine has timed it before


class Task(msgspec.Struct, frozen=True, kw_only=True, tag="measure"):
    """What a measuring process is told: everything that it does."""

    system: str  # in the notation of parts
    weights: list[list[float]] = []  # chosen ones, in the order of the combinations that have weights to choose
    index: str  # folder
    queries: list[tuple[str, str]]  # ids and texts
    own: list[int] = []  # of each query, the position of the document that fusions leave out; [] for none
    k: int
    threads: int
    single: bool  # one query in flight, or all at once
    seconds: float = 10.0  # of timed passes, or of offered load
    load: float = 0.0  # queries a second that are offered; 0: the next is sent when the last is answered
    core: int | None = None  # to which one thread is pinned
    on: str = ""  # the executor whose workers search, as --on has it; "" for this process
    out: str  # folder for what it measured


class Baseline(msgspec.Struct, frozen=True, kw_only=True, tag="baseline"):
    """Instead: import *modules*, and say what memory that takes."""

    modules: list[str]
    out: str


class Calibrate(msgspec.Struct, frozen=True, kw_only=True, tag="calibrate"):
    """Instead: do the work that is the same on every machine."""

    core: int | None
    out: str


class Facts(msgspec.Struct, kw_only=True):
    """What a measuring process found, its durations apart."""

    warm_up: int  # passes
    cpu_per_wall: float  # of the timed passes
    seconds: dict[str, float]
    memory: dict[str, int]
    noise: list[str]
    workers: str = ""  # where workers searched, and what the way there took; "" where its own process did
    energy: dict[str, Any]
    same: bool  # every timed pass returned the same documents
    modules: list[str]  # that were imported
    imports: dict[str, int] = {}  # bytes that importing these takes, where the process began with them; {}: another must say


@dataclass(frozen=True)
class Scenario:
    """One way to send queries."""

    name: str
    threads: int
    load: float = 0.0  # queries a second that are offered

    @property
    def single(self) -> bool:
        """Whether queries are answered one by one."""
        return not self.name.startswith(OFFLINE)


def scenarios(settings: Settings) -> list[Scenario]:
    """Return the scenarios that are measured: one query in flight on one core, then, if wanted, all at once on all of them.

    And for each load one of queries that arrive at that rate, at random, whether or not the last has been answered.
    """
    threads = settings.threads or len(cores())
    served = [Scenario(f"{SERVER}-1t-{load:g}qps", 1, load) for load in settings.loads]
    at_once = [Scenario(f"{OFFLINE}-{threads}t", threads)] if settings.offline else []
    return [Scenario(SINGLE, 1), *at_once, *served]


def cores() -> list[int]:
    """Return the cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def last_core() -> int | None:
    """Return the core to pin to: the last that this process may use, since the system's own work is mostly on the first.

    None where there is no pinning.
    """
    return cores()[-1] if hasattr(os, "sched_setaffinity") else None


def sample(items: Sequence[T], most: int) -> list[T]:
    """Return *most* of *items*, evenly spaced, or all where there are no more."""
    if len(items) <= most:
        return list(items)
    return [items[number * len(items) // most] for number in range(most)]


def run_task(task: Task | Baseline | Calibrate, threads: int, on_pass: Callable[[], None] = lambda: None) -> None:
    """Let a fresh process do *task*, telling *on_pass* of each pass. LexbenchError, in one line, where it fails."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as errors:
        path = Path(folder) / _TASK
        atomic.write_bytes(path, msgspec.json.encode(task))
        command = children.command("lexbench.timing", str(path))
        pipe = subprocess.PIPE  # to the process nothing is written: that this pipe ends tells it that we have ended
        environment = child_environment(threads)
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, env=environment, text=True) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    if line == f"{DONE}\n":
                        on_pass()
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            errors.seek(0)
            raise ended(process.returncode, errors.read().decode(errors="replace"))


def ended(code: int, errors: str) -> LexbenchError:
    """Return what is raised for a measuring process that ended with *code*, and had written *errors*."""
    lines = errors.strip().splitlines() or ["no word"]
    return LexbenchError(f"the process that timed it ended with {code}: {lines[-1]}")


def child_environment(threads: int) -> dict[str, str]:
    """Return the environment of a measuring process: the same modules can be imported, and libraries take so many threads."""
    numbers = {f"{name}_NUM_THREADS": str(threads) for name in _THREADS}
    return children.environment(**numbers, TOKENIZERS_PARALLELISM="true" if threads > 1 else "false")
