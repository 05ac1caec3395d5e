"""Timings in the store: raw durations are stored, and statistics of them are made when they are read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from lexbench.results import Timing
from lexbench.storage.store import Store, finished_files, recipe_of
from lexbench.timing import statistics
from lexbench.timing.protocol import DURATIONS_FILE, FACTS_FILE, ONE_THREAD, SERVER, SINGLE, STAGES, Facts
from lexbench.types import Hits

CONDITIONS_FILE = "conditions.json"
PROCESS = "process-"  # begins the names of the folders of further processes
_MOST_OVERHEAD = 0.05
_SAME = ("scenario", "k", "threads", "exact", "candidates", "queries", "disk", "taken")  # in the conditions and the timing


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """What the process that asks for a timing knows of it."""

    scenario: str
    threads: int
    k: int
    exact: bool
    candidates: int = 0
    queries: int
    differing: int  # queries with other documents than in the untimed run
    baseline: dict[str, int]  # bytes of a process that opens nothing
    disk: dict[str, int]
    fingerprint: str
    machine: dict[str, Any]
    calibration: dict[str, float]
    taken: str


def read_durations(folder: Path) -> dict[str, NDArray[np.int64]]:
    """Return nanoseconds (passes, queries) by stage: encode_query, search, e2e, null, and warm_up.… of the passes before.

    Of offline the second axis is that of blocks of queries, mostly one.
    """
    return {name: array for name, array in load_file(folder / DURATIONS_FILE).items() if name not in Hits._fields}


def read_hits(folder: Path) -> Hits:
    """Return what the timed passes found (queries, k)."""
    arrays = load_file(folder / DURATIONS_FILE)
    return Hits(arrays["docs"], arrays["scores"])


def read_timing(folder: Path) -> Timing:
    """Return the timing of a finished folder."""
    conditions = msgspec.json.decode((folder / CONDITIONS_FILE).read_bytes(), type=Conditions)
    facts = msgspec.json.decode((folder / FACTS_FILE).read_bytes(), type=Facts)
    arrays = read_durations(folder)
    further = [read_durations(path) for path in sorted(folder.glob(f"{PROCESS}*"))]
    stages = {stage: np.concatenate([part[stage] for part in (arrays, *further)]) for stage in STAGES}
    single, served = conditions.scenario == SINGLE, conditions.scenario.startswith(SERVER)
    overhead = statistics.overhead(arrays["null"], arrays["e2e"]) if single else None
    notes = list(_notes(conditions, facts, stages["e2e"], overhead, served=served))
    rates = {stage: [statistics.rate(part[stage], conditions.queries) for part in (arrays, *further)] for stage in STAGES}
    return Timing(
        **{name: getattr(conditions, name) for name in _SAME},
        passes=len(stages["e2e"]),
        processes=1 + len(further),
        qps_range={stage: (min(by_process), max(by_process)) for stage, by_process in rates.items()} if further else {},
        first_pass={stage: statistics.latency(arrays[f"warm_up.{stage}"][:1]) for stage in STAGES} if single else {},
        warm_up=facts.warm_up,
        stages={stage: statistics.latency(matrix) for stage, matrix in stages.items()} if single or served else {},
        qps={} if served else {stage: statistics.rate(matrix, conditions.queries) for stage, matrix in stages.items()},
        overhead=overhead,
        cpu_per_wall=facts.cpu_per_wall,
        flags=list(dict.fromkeys(flag for flag, _ in notes)),
        checked=facts.same and not conditions.differing,
        memory=_memory(facts.memory, conditions.baseline),
        fingerprint=conditions.fingerprint,
        machine=conditions.machine,
        calibration=conditions.calibration,
        energy=facts.energy,
        seconds=facts.seconds,
        notes=[note for _, note in notes],
        folder=f"{folder.parent.name}/{folder.name}",
    )


def _notes(
    conditions: Conditions, facts: Facts, e2e: NDArray[np.int64], overhead: float | None, *, served: bool
) -> Iterator[tuple[str, str]]:
    """Yield each flag with why it is there."""
    for reason in [*facts.noise, None if served else statistics.unsteady(e2e)]:
        if reason:
            yield "noisy", reason
    if conditions.scenario == SINGLE and facts.cpu_per_wall > ONE_THREAD:
        flag = f"threads≈{facts.cpu_per_wall:.1f}"
        yield flag, f"it took {facts.cpu_per_wall:.2f} s of processor a second: it is not of one thread"
    if conditions.differing:
        yield "differs", f"{conditions.differing} of {conditions.queries} queries got other documents than in the untimed run"
    if not facts.same:
        yield "differs", "its passes did not all return the same documents"
    if overhead is not None and overhead > _MOST_OVERHEAD:
        yield "overhead", f"{overhead:.0%} of its p50 is the harness's own"


def _memory(memory: dict[str, int], baseline: dict[str, int]) -> dict[str, int]:
    """Return the memory that is the system's: less than what importing the same takes."""
    if not baseline:
        return memory
    less = {name: max(0, count - baseline[name]) if name in baseline else count for name, count in memory.items()}
    return less | {"baseline": sum(baseline.values())}


def timings_of_run(store: Store, key: str) -> list[Timing]:
    """Return every sound timing in the store of the run with that key, on whatever machine."""
    folders = [path.parent for path in finished_files(store, "timings", CONDITIONS_FILE)]
    return [read_timing(folder) for folder in folders if recipe_of(folder)["run"] == key]
