"""Timings in the store: raw durations are stored, and their statistics are computed when they are read.

A query's latency is its median over the passes, so that one interruption costs nothing; it is never the best pass. A percentile
needs ten queries beyond it, similar to MLPerf Inference.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from lexbench.results import MOST_OVERHEAD, ONE_THREAD, SINGLE, STAGES, Latency, Results, Timing
from lexbench.storage.artifact_folder import digest
from lexbench.storage.node import Stored
from lexbench.storage.stopwatch import impossible_date
from lexbench.storage.store import Store, finished_files
from lexbench.timing.protocol import DURATIONS_FILE, FACTS_FILE, VERSION, MeasuredFacts
from lexbench.types import Hits

_NS = 1e9
_BEYOND = 10  # queries
_NOISY = 0.05  # coefficient of variation of the passes' medians

Durations = NDArray[np.int64]


def latency(durations: Durations) -> Latency:
    """Return the latency of one stage, in seconds, from *durations* (passes, queries) in nanoseconds."""
    medians = np.median(durations, axis=0) / _NS
    return Latency(
        p50=float(np.median(medians)), p95=_percentile(medians, 95), p99=_percentile(medians, 99), mean=float(medians.mean())
    )


def _percentile(values: NDArray[np.float64], percent: int) -> float | None:
    """Return a percentile of *values*; None if fewer than ten lie beyond it."""
    if len(values) * (100 - percent) < _BEYOND * 100:
        return None
    return float(np.percentile(values, percent))


def rate(durations: Durations, queries: int) -> float:
    """Return the queries per second of the median pass, from the *durations* (passes, blocks) of *queries* queries."""
    return float(queries / np.median(durations.sum(axis=1)) * _NS)


def unsteady(durations: Durations) -> str | None:
    """Return a line if passes differ by more than 5 %."""
    medians = np.median(durations, axis=1)
    share = float(medians.std() / medians.mean())
    return f"passes differ by {share:.0%} (coefficient of variation)" if share > _NOISY else None


CONDITIONS_FILE = "conditions.json"
_REMEMBERED = 2.0  # times as long; the processor's caches alone make less of a difference


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a timing that the process which starts the measuring process knows."""

    known: dict[str, Any]  # fields of `Timing`
    differing: int  # queries with other documents than in the untimed run
    baseline: dict[str, int]  # bytes of a process that imports the same modules and opens nothing


def read_durations(folder: Path) -> dict[str, NDArray[np.int64]]:
    """Return nanoseconds (passes, queries) by name: encode_query, search, e2e, null, and warm_up.… for the warm-up passes.

    In the offline scenario the second axis is that of blocks of queries, usually one.
    """
    return {name: array for name, array in load_file(folder / DURATIONS_FILE).items() if name not in Hits._fields}


def read_hits(folder: Path) -> Hits:
    """Return the hits (queries, k) of the timed passes."""
    arrays = load_file(folder / DURATIONS_FILE)
    return Hits(arrays["docs"], arrays["scores"])


def read_timing(folders: Sequence[Path]) -> Timing:
    """Return the timing in finished folders, one per process, in order. Memory is that of the first process."""
    conditions = [msgspec.json.decode((path / CONDITIONS_FILE).read_bytes(), type=Conditions) for path in folders]
    facts = [msgspec.json.decode((path / FACTS_FILE).read_bytes(), type=MeasuredFacts) for path in folders]
    arrays = [read_durations(path) for path in folders]
    folder, known = folders[0], conditions[0].known | {"taken": conditions[-1].known["taken"]}
    queries, single = known["queries"], known["scenario"] == SINGLE
    stages = {stage: np.concatenate([part[stage] for part in arrays]) for stage in STAGES}
    rates = {stage: [rate(part[stage], queries) for part in arrays] for stage in STAGES}
    # "null" has the durations of the loop without encoding and searching: the overhead of the harness.
    overhead = latency(arrays[0]["null"]).p50 / latency(arrays[0]["e2e"]).p50 if single else None
    first = "" if facts[0].other_warm_up else "warm_up."
    flags = list(_flags(conditions, facts, unsteady(stages["e2e"]), overhead))
    return Timing(
        **known,
        passes=len(stages["e2e"]),
        processes=len(folders),
        qps_range={stage: (min(found), max(found)) for stage, found in rates.items()} if len(folders) > 1 else {},
        first_pass={stage: latency(arrays[0][first + stage][:1]) for stage in STAGES} if single else {},
        warm_up=facts[0].warm_up,
        stages={stage: latency(matrix) for stage, matrix in stages.items()} if single else {},
        qps={stage: rate(matrix, queries) for stage, matrix in stages.items()},
        overhead=overhead,
        cpu_per_wall=max(one.cpu_per_wall for one in facts),
        flags=list(dict.fromkeys(flag for flag, _ in flags)),
        checked=all(one.same for one in facts) and not any(one.differing for one in conditions),
        memory=_memory(facts[0].memory, conditions[0].baseline),
        seconds=facts[0].seconds,
        notes=list(dict.fromkeys(note for _, note in flags)),
        folder=f"{folder.parent.name}/{folder.name}",
    )


def _flags(
    conditions: Sequence[Conditions], facts: Sequence[MeasuredFacts], unsteady: str | None, overhead: float | None
) -> Iterator[tuple[str, str]]:
    """Yield each flag with the reason for it."""
    known, differing = conditions[0].known, max(one.differing for one in conditions)
    busiest = max(one.cpu_per_wall for one in facts)
    for reason in [*(reason for one in facts for reason in one.noise), *([unsteady] if unsteady else [])]:
        yield "noisy", reason
    for line in dict.fromkeys(one.workers for one in facts if one.workers):
        yield "workers", line
    yield from facts[0].circumstances.items()
    if known["scenario"] == SINGLE and busiest > ONE_THREAD:
        yield f"threads≈{busiest:.1f}", f"it took {busiest:.2f} s of processor time per second, so more than one thread worked"
    if differing:
        yield "differs", f"{differing} of {known['queries']} queries got other documents than in the untimed run"
    if not all(one.same for one in facts):
        yield "differs", "its passes did not all return the same documents"
    again = float(np.median([one.seen_again for one in facts]))
    if again > _REMEMBERED:
        yield "cached", f"it remembers answers: queries that it has not seen take {again:,.1f} times as long as the second time"
    if not again:
        yield "repeated", "it takes no other queries than these, so it was warmed up by them"
    if overhead is not None and overhead > MOST_OVERHEAD:
        yield "overhead", f"{overhead:.0%} of its p50 is the harness's own"


def _memory(memory: dict[str, int], baseline: dict[str, int]) -> dict[str, int]:
    """Return the memory of the system alone: that of its process less that of importing the same modules."""
    if not baseline:
        return memory
    less = {name: max(0, count - baseline[name]) if name in baseline else count for name, count in memory.items()}
    return less | {"baseline": sum(baseline.values())}


def timings_of_run(store: Store, run: str) -> list[Timing]:
    """Return the newest intact timing of each scenario, k and machine of the run with that kind and key.

    Timings that lack a process, or were measured by another protocol, are left out.
    """
    processes: dict[str, dict[int, Path]] = {}
    wanted: dict[str, int] = {}  # how many processes each timing has, by the digest of its other key facts
    for file in finished_files(store, "timings", CONDITIONS_FILE):
        facts = Stored(file.parent).facts
        number = int(facts.pop("process"))
        if (facts["run"], facts["protocol"]) == (run, VERSION):
            timing = digest(facts)
            processes.setdefault(timing, {})[number] = file.parent
            wanted[timing] = int(facts["processes"])
    whole = (found for timing, found in processes.items() if len(found) == wanted[timing])
    timings = [read_timing([found[number] for number in sorted(found)]) for found in whole]
    timings.sort(key=lambda one: "" if impossible_date(one.taken) else one.taken)  # a clock may have been wrong
    return list({(one.scenario, one.k, one.fingerprint): one for one in timings}.values())


def with_timings(results: Results, store: Store) -> Results:
    """Return *results* with the timings of their runs in *store*, where they have none."""
    entries = []
    for entry in results.entries:
        found = (
            timings_of_run(store, Stored(entry.run).name) if isinstance(entry.run, Path) and not entry.result.timings else []
        )
        entries.append(entry._replace(result=msgspec.structs.replace(entry.result, timings=found)) if found else entry)
    return Results(entries, failures=results.failures, session=results.session)
