"""Timings in the store: raw durations are stored, and statistics of them are made when they are read."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from lexbench.results import Timing
from lexbench.storage.manifest import digest, recipe_of
from lexbench.storage.store import Store, finished_files
from lexbench.timing import statistics
from lexbench.timing.protocol import DURATIONS_FILE, FACTS_FILE, ONE_THREAD, SERVER, SINGLE, STAGES, Facts
from lexbench.types import Hits

CONDITIONS_FILE = "conditions.json"
_PROCESS = "process-"  # began the names of the folders of further processes in protocol 2
_A_FOLDER_EACH = 3  # the protocol from which on every process has a folder of the store
_MOST_OVERHEAD = 0.05
_SAME = ("scenario", "k", "threads", "exact", "candidates", "queries", "disk")  # in the conditions and the timing


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


def read_timing(folders: Sequence[Path]) -> Timing:
    """Return the timing that finished folders hold together, a process each, in order; of memory the first one's."""
    folder, conditions = folders[0], [_conditions(path) for path in folders]
    first, last = conditions[0], conditions[-1]
    parts = [part for path in folders for part in (path, *sorted(path.glob(f"{_PROCESS}*")))]
    facts = [msgspec.json.decode((part / FACTS_FILE).read_bytes(), type=Facts) for part in parts]
    arrays = [read_durations(part) for part in parts]
    stages = {stage: np.concatenate([part[stage] for part in arrays]) for stage in STAGES}
    single, served = first.scenario == SINGLE, first.scenario.startswith(SERVER)
    overhead = statistics.overhead(arrays[0]["null"], arrays[0]["e2e"]) if single else None
    differing, busiest = max(one.differing for one in conditions), max(one.cpu_per_wall for one in facts)
    same = all(one.same for one in facts)
    noise = [reason for one in facts for reason in one.noise]
    noise += [reason] if not served and (reason := statistics.unsteady(stages["e2e"])) else []
    workers = list(dict.fromkeys(one.workers for one in facts if one.workers))
    notes = list(_notes(first, noise, workers, overhead, busiest, differing, same=same))
    rates = {stage: [statistics.rate(part[stage], first.queries) for part in arrays] for stage in STAGES}
    return Timing(
        **{name: getattr(first, name) for name in _SAME},
        taken=last.taken,
        passes=len(stages["e2e"]),
        processes=len(parts),
        qps_range={stage: (min(by_process), max(by_process)) for stage, by_process in rates.items()} if len(parts) > 1 else {},
        first_pass={stage: statistics.latency(arrays[0][f"warm_up.{stage}"][:1]) for stage in STAGES} if single else {},
        warm_up=facts[0].warm_up,
        stages={stage: statistics.latency(matrix) for stage, matrix in stages.items()} if single or served else {},
        qps={} if served else {stage: statistics.rate(matrix, first.queries) for stage, matrix in stages.items()},
        overhead=overhead,
        cpu_per_wall=busiest,
        flags=list(dict.fromkeys(flag for flag, _ in notes)),
        checked=same and not differing,
        memory=_memory(facts[0].memory, first.baseline),
        fingerprint=first.fingerprint,
        machine=first.machine,
        calibration=first.calibration,
        energy=facts[0].energy,
        seconds=facts[0].seconds,
        notes=list(dict.fromkeys(note for _, note in notes)),
        folder=f"{folder.parent.name}/{folder.name}",
    )


def _conditions(folder: Path) -> Conditions:
    return msgspec.json.decode((folder / CONDITIONS_FILE).read_bytes(), type=Conditions)


def _notes(
    conditions: Conditions,
    noise: Sequence[str],
    workers: Sequence[str],
    overhead: float | None,
    busiest: float,
    differing: int,
    *,
    same: bool,
) -> Iterator[tuple[str, str]]:
    """Yield each flag with why it is there."""
    yield from (("noisy", reason) for reason in noise)
    yield from (("workers", line) for line in workers)
    if conditions.scenario == SINGLE and busiest > ONE_THREAD:
        yield f"threads≈{busiest:.1f}", f"it took {busiest:.2f} s of processor a second: it is not of one thread"
    if differing:
        yield "differs", f"{differing} of {conditions.queries} queries got other documents than in the untimed run"
    if not same:
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
    """Return every sound timing in the store of the run with that key, on whatever machine; none that lacks a process."""
    processes: dict[str, dict[int, Path]] = {}
    of = {path.parent: recipe_of(path.parent) for path in finished_files(store, "timings", CONDITIONS_FILE)}
    for folder, recipe in of.items():
        number = int(recipe.pop("process", 0))
        if recipe["run"] == key:
            processes.setdefault(digest(recipe), {})[number] = folder
    whole = (found for found in processes.values() if len(found) == _count(of[found[min(found)]]))
    return [read_timing([found[number] for number in sorted(found)]) for found in whole]


def _count(recipe: Mapping[str, Any]) -> int:
    """Return how many folders a timing has: one a process, but all in one in protocols before 3."""
    return int(recipe["processes"]) if recipe["protocol"] >= _A_FOLDER_EACH else 1
