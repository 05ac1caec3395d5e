"""Timings that no measurement can give: rates against latencies, counts, flags, memory, and the machine with its fingerprint.

Dates and facts of machines are also checked of results without timings.
"""

import re
from collections.abc import Iterator, Mapping
from math import inf, isfinite
from typing import Any

import msgspec

from lexbench.results import (
    LEAST_PASSES,
    MOST_OVERHEAD,
    MOST_PASSES,
    MOST_WARM_UP,
    OFFLINE,
    ONE_THREAD,
    SINGLE,
    STAGES,
    UNRANKED,
    Latency,
    Result,
    Timing,
)  # fmt: skip
from lexbench.storage.artifact_folder import digest
from lexbench.storage.stopwatch import impossible_date

_PINNED = ("core", "siblings")  # facts of a timing's machine that are not in its fingerprint
_OTHER_FLAGS = ("differs", "overhead", "gpu", "repeated")
_SLACK = 1e-9  # of sums of doubles
_LEAST_SHARE, _MOST_SHARE = 0.5, 1.02  # of the time of a query that its two steps take; 0.99 to 1.00 on the committed board
# QPS times the mean latency is about 1. Other work of the machine lowers it without limit: it makes few passes much longer.
# It can raise it, too, if it hits other queries in each pass: QPS is of the median pass, latencies are medians of each query.
_LEAST_PRODUCT, _MOST_PRODUCT = 0.8, 1.1
_LEAST_TIME, _MOST_TIME = 0.6, 2.0  # timed seconds as a share of those that were asked for
_MOST_APART = 2.0  # QPS of a process against that of all: passes that differ by more than 5 % are flagged as noisy
_DISTURBED = {"noisy", "overhead"}  # flags of timings that are not ranked, or whose passes have other work in them
OLDEST_PYTHON = (3, 11)
_TICK = 1 / 64  # seconds between two readings of the processor time that differ, on Windows
_GIB = 2**30
_LEAST_PROCESS = 8 << 20  # bytes of a process with Python and NumPy; it has 25 MiB and more
_RESIDENT = ("pss_anonymous", "pss_file", "baseline", "peak_open", "peak_search")  # parts of the machine's memory


def impossible_timing(result: Result, timing: Timing) -> Iterator[str]:
    """Yield what is impossible in a timing of a result, each beginning with its scenario."""
    incomplete = tuple(_numbers(timing))
    faults = (*incomplete, *_counts(result, timing), *_flags(timing), *_machine(timing), *_memory(timing))
    faults += tuple(_sizes(result, timing))
    if not incomplete:
        faults += tuple(_rates(timing))
    yield from (f"its timing {timing.scenario}: {fault}" for fault in faults)


def impossible_machine(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield facts that no machine with lexbench has: of the machine of a result, whose facts are texts, or of a timing."""
    if "python" in facts:
        found = re.match(r"(\d+)\.(\d+)", str(facts["python"]))
        if not found or tuple(map(int, found.groups())) < OLDEST_PYTHON:
            yield f"it was made by Python {facts['python']}, and lexbench needs {'.'.join(map(str, OLDEST_PYTHON))}"
    for name in ("cores", "usable_cores", "logical_cores", "physical_cores"):
        if not re.fullmatch("[1-9][0-9]*", str(facts.get(name, 1))):
            yield f"its machine has {name} {facts[name]!r}"


def _numbers(timing: Timing) -> Iterator[str]:
    """Yield numbers that are negative, infinite or missing."""
    facts = msgspec.to_builtins(timing)
    facts.pop("machine")
    if any(not isfinite(number) or number < 0 for number in numbers_in(facts)):
        yield "it has a number that is infinite or below 0"
    stages = set(STAGES)
    if timing.qps.keys() != stages or min(timing.qps.values(), default=0) <= 0:
        yield "it has no QPS above 0 for each of encode_query, search and e2e"
    if single := timing.scenario == SINGLE:
        for name, found in {"stages": timing.stages, "first_pass": timing.first_pass}.items():
            if found.keys() != stages or min(latency.mean for latency in found.values()) <= 0:
                yield f"it has no {name} above 0 for each of encode_query, search and e2e"
    elif timing.stages or timing.overhead is not None:
        yield "only single queries have latencies"
    if timing.cpu_per_wall <= 0 or (single and timing.overhead is None):
        yield "it has no processor time, or no overhead"
    if timing.qps_range.keys() != (set() if timing.processes == 1 else stages):
        yield "it has no range of QPS over its processes"


def numbers_in(value: Any) -> Iterator[float]:
    """Yield all numbers in values of JSON."""
    if isinstance(value, Mapping):
        for one in value.values():
            yield from numbers_in(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from numbers_in(one)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def _counts(result: Result, timing: Timing) -> Iterator[str]:
    """Yield counts that the protocol excludes."""
    least, most = LEAST_PASSES * timing.processes, MOST_PASSES * timing.processes
    if timing.processes < 1 or not least <= timing.passes <= most:
        yield f"{timing.passes} passes in {timing.processes} processes; there are {LEAST_PASSES} to {MOST_PASSES} in each"
    if not 1 <= timing.queries <= result.counts.queries:
        yield f"{timing.queries} queries were timed, and the dataset has {result.counts.queries}"
    if not 1 <= timing.warm_up <= MOST_WARM_UP:
        yield f"{timing.warm_up} passes of warm-up; there are 1 to {MOST_WARM_UP}"
    if timing.k < 1 or timing.asked_seconds <= 0:
        yield "it asked for no documents, or for no seconds"
    threads = "1" if timing.scenario == SINGLE else timing.scenario.removeprefix(f"{OFFLINE}-").removesuffix("t")
    if threads != str(timing.threads):
        yield f"it has {timing.threads} threads"
    if result.found and timing.exact and min(result.found.values()) < 1:
        yield "it is marked as exact, and its search finds only a part of the exact result"


def _rates(timing: Timing) -> Iterator[str]:
    """Yield rates that latencies, ranges or the duration of the measurement contradict."""
    total, quiet = timing.qps["e2e"], not _DISTURBED & set(timing.flags)
    if min(timing.qps.values()) < total * (1 - _SLACK):
        yield "its e2e has more QPS than one of the two steps in it"
    yield from _ranges(timing, quiet=quiet)
    for name, steps in {"": timing.stages, " in the first pass": timing.first_pass}.items():
        for stage, latency in steps.items():
            yield from _latency(timing, f"{stage}{name}", latency)
            if latency.mean > steps["e2e"].mean * (1 + _SLACK):
                yield f"the mean of {stage}{name} is above that of e2e"
        # The medians of two steps add up to that of both if passes agree. If not, their sum is at most twice as large.
        least, most = (_LEAST_SHARE, _MOST_SHARE) if quiet else (0, 2)
        if steps and not least <= (share := _share(steps)) <= most:
            yield f"encode_query and search{name} take {share:.0%} of the time of e2e"
    yield from _against_latencies(timing)
    # Passes end when the seconds are over, but there are at least and at most so many.
    one, asked = timing.queries / total, timing.asked_seconds
    least = _LEAST_TIME * asked if quiet else 0.0
    most = _MOST_TIME * asked + 2 * timing.processes * one
    too_short = timing.passes * one < least and timing.passes < MOST_PASSES * timing.processes
    if too_short or (timing.passes * one > most and timing.passes > LEAST_PASSES * timing.processes):
        yield f"its {timing.passes} passes took {timing.passes * one:.3g} s in place of {asked:.3g} s"


def _ranges(timing: Timing, *, quiet: bool) -> Iterator[str]:
    """Yield ranges of QPS over the processes that contradict the QPS of all, or each other."""
    total, whole = timing.qps["e2e"], timing.qps_range.get("e2e", (0.0, 0.0))
    for stage, (low, high) in timing.qps_range.items():
        if not 0 < low <= high:
            yield f"its range of QPS of {stage} goes from {low:,.4g} to {high:,.4g}"
        elif not low * 0.999 <= timing.qps[stage] <= high * 1.001:
            yield f"its QPS of {stage} is {timing.qps[stage]:,.4g}, outside its range from {low:,.4g} to {high:,.4g}"
        if whole[0] > low * (1 + _SLACK) or whole[1] > high * (1 + _SLACK):  # in each pass, a step is a part of it
            yield f"its range of QPS of e2e is above that of {stage}"
        if quiet and stage == "e2e" and max(total / low if low else inf, high / total) > _MOST_APART:
            yield f"its QPS is {total:,.4g} and goes from {low:,.4g} to {high:,.4g}, which its flags do not say"


def _share(steps: Mapping[str, Latency]) -> float:
    return (steps["encode_query"].mean + steps["search"].mean) / steps["e2e"].mean


def _against_latencies(timing: Timing) -> Iterator[str]:
    """Yield rates that are not those of the mean latencies."""
    low, high = _LEAST_PRODUCT, _MOST_PRODUCT
    if _DISTURBED & set(timing.flags):
        # If each pass is slow at other queries, their medians are slow, and the median pass is not.
        low, high = 0.0, max(high, timing.passes / 2 + 1)
    for stage, latency in timing.stages.items():
        if not low <= (share := timing.qps[stage] * latency.mean) <= high:
            rate = f"{timing.qps[stage]:,.4g} QPS of {stage} and a mean latency of {latency.mean:.4g} s"
            yield f"{rate} give {share:.3g} and not 1"


def _latency(timing: Timing, stage: str, latency: Latency) -> Iterator[str]:
    """Yield percentiles that are out of order, or that too few queries have."""
    known = [one for one in (latency.p50, latency.p95, latency.p99) if one is not None]
    if known != sorted(known) or latency.mean < latency.p50 / 2 * (1 - _SLACK) or latency.p50 <= 0 or latency.mean <= 0:
        yield f"its latencies of {stage} are out of order"
    if (latency.p95 is None) != (timing.queries < 200) or (latency.p99 is None) != (timing.queries < 1000):  # noqa: PLR2004
        yield f"its latencies of {stage} have percentiles that {timing.queries} queries do not give"


def _flags(timing: Timing) -> Iterator[str]:
    """Yield flags that the stored facts contradict."""
    crowded = [flag for flag in timing.flags if re.fullmatch(r"threads≈[0-9]+\.[0-9]", flag)]
    unknown = [flag for flag in timing.flags if flag not in (*UNRANKED, *_OTHER_FLAGS, *crowded)]
    single = timing.scenario == SINGLE
    if unknown:
        yield f"it has the unknown flag {unknown[0]!r}"
    if timing.checked == ("differs" in timing.flags):
        yield "the flag differs and `checked` contradict each other"
    if single and bool(crowded) != (timing.cpu_per_wall > ONE_THREAD):
        yield f"it took {timing.cpu_per_wall:.2f} s of processor time per second, which its flags do not say"
    if timing.overhead is not None and ("overhead" in timing.flags) != (timing.overhead > MOST_OVERHEAD):
        yield f"its overhead is {timing.overhead:.1%}, which its flags do not say"
    if ("gpu" in timing.flags) != ("computed_on" in timing.machine):
        yield "the flag gpu and the GPUs of its machine contradict each other"
    if len(timing.notes) < len(timing.flags) or len(set(timing.flags)) < len(timing.flags):
        yield "each flag has a note that says why, and it lacks one"
    if timing.notes and not timing.flags:
        yield "it has notes on flags that it lacks"


def _machine(timing: Timing) -> Iterator[str]:
    """Yield contradictions of the machine and its fingerprint, facts that no machine has, and an impossible date."""
    facts = {name: fact for name, fact in timing.machine.items() if name not in _PINNED}
    if digest(facts) != timing.fingerprint:
        yield "its fingerprint is not that of the facts of its machine"
    yield from impossible_machine(facts)
    if fault := impossible_date(timing.taken):
        yield f"it was taken on {fault}"
    cores = [facts[name] for name in ("usable_cores", "logical_cores") if isinstance(facts.get(name), int)]
    # A clock that ticks is ahead by a tick at most after each pass. Half of the passes may be shorter than the median pass.
    rate = max(timing.qps_range.get("e2e", (0.0,))[-1], timing.qps.get("e2e", 0.0)) / max(timing.queries, 1)
    if cores and timing.cpu_per_wall > max(cores) * ONE_THREAD + 2 * _TICK * rate:
        yield f"it took {timing.cpu_per_wall:.2f} s of processor time per second, and its machine has {max(cores)} cores"


def _memory(timing: Timing) -> Iterator[str]:
    """Yield amounts of memory that contradict each other, the machine or the flags."""
    memory, gib = timing.memory, str(timing.machine.get("memory_gib", ""))
    if memory and "in process" in timing.flags:
        yield "it has memory, which is not measured in the user's process"
    if memory.get("peak_gpu") and "computed_on" not in timing.machine:
        yield f"it has {memory['peak_gpu']:,} bytes of a GPU, and no GPU computed"
    if ("pss_file" in memory) != ("baseline" in memory):
        yield "its memory has pss_file or baseline, and each is measured with the other"
    # Both are less than the process has: the one lacks what imports take, the other is of a process that only imports.
    least = memory.get("pss_anonymous", 0) + memory.get("pss_file", 0) + memory.get("baseline", 0) // 2
    for name, needed in {"peak_open": _LEAST_PROCESS, "peak_search": max(_LEAST_PROCESS, least)}.items():
        if memory.get(name, needed) < needed:
            yield f"its {name} is {memory[name]:,} bytes, and the process needs {needed:,}"
    if re.fullmatch("[1-9][0-9]*", gib):  # rounded
        for name in _RESIDENT:
            if memory.get(name, 0) > (int(gib) + 1) * _GIB:
                yield f"its {name} is {memory[name]:,} bytes, and its machine has {gib} GiB of memory"


def _sizes(result: Result, timing: Timing) -> Iterator[str]:
    """Yield a size of the index that the files on disk contradict."""
    index = result.sizes.get("index")  # on its server, if it is on one
    if index is not None and timing.disk and "elsewhere" not in timing.flags and sum(timing.disk.values()) != index:
        yield f"the files of its index have {sum(timing.disk.values()):,} bytes, and the result says {index:,}"
