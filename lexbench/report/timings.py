"""The tables of timings: latencies, rates and memory, never without the conditions under which they were measured."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from lexbench.display.table import Table, number
from lexbench.errors import listed
from lexbench.results import Result, Timing, by_dataset

_STAGES = {"encode_query": "encode", "search": "search", "e2e": "e2e"}
_PERCENTILES = ("p50", "p95", "p99")
_PASSES = "a query's latency is its median over the passes, after a warm-up with all queries; e2e is measured, not a sum"
_FEW = "; p95 takes 200 queries, p99 1,000"
_NOISY = "noisy: not ranked"
_NAMED = 2  # systems in a note, of those with a flag
_MEMORY = (
    "own and files: memory of the process itself and of mapped files except libraries, less that of an idle process; peak: "
    "maximum resident memory while searching; built in: encoding and indexing, when they were done"
)


_Timed: TypeAlias = tuple[Result, Timing]


def conditions(timing: Timing) -> str:
    """Return the conditions of a rate or latency, which every table names."""
    searched = f"candidates={timing.candidates}" if timing.candidates else "exact" if timing.exact else "approximate"
    return f"{timing.scenario}, k={timing.k}, {searched}"


def qps_name(timing: Timing) -> str:
    """Return the full name of the end-to-end rate, e.g. "e2e QPS, single-stream-1t, k=1000, exact"."""
    return f"e2e QPS, {conditions(timing)}"


def rate(timing: Timing) -> str:
    """Return the e2e queries per second as a cell: with ~ if they are not ranked, with ≠ if the documents differ."""
    qps = timing.qps.get("e2e")
    text = number(qps, ",.0f" if qps is not None and qps > 100 else ".1f")  # noqa: PLR2004 - three significant digits
    return text + " ~" * bool(timing.unranked) + " ≠" * ("differs" in timing.flags)


def single_stream(result: Result) -> list[Timing]:
    """Return the timings of one query in flight, the latest of each machine and k, the largest k first."""
    single = [timing for timing in result.timings if timing.scenario.startswith("single-stream") and "e2e" in timing.stages]
    latest = {(timing.fingerprint, timing.k): timing for timing in sorted(single, key=lambda timing: timing.taken)}
    return sorted(latest.values(), key=lambda timing: (-timing.k, timing.fingerprint))


def timing_tables(results: Sequence[Result]) -> list[Table]:
    """Return the timing tables of each dataset. All timings of a table have the same conditions and machine."""
    groups: dict[tuple[str, str, str], list[_Timed]] = {}
    for dataset, group in by_dataset(results).items():
        for result, timing in ((one, timing) for one in group for timing in one.timings):
            groups.setdefault((dataset, conditions(timing), timing.fingerprint), []).append((result, timing))
    tables = []
    for (dataset, *_), timed in groups.items():
        first = timed[0][1]
        tables.append((_latencies if first.stages else _rates)(dataset, timed))
        if first.stages and first.memory:
            tables.append(_memory(dataset, timed))
    return tables


def _latencies(dataset: str, timed: Sequence[_Timed]) -> Table:
    """Return milliseconds by stage and percentile, and the rate."""
    percentiles = [name for name in _PERCENTILES if any(getattr(timing.stages["e2e"], name) for _, timing in timed)]
    header = [f"{short}\n{name}" for short in _STAGES.values() for name in percentiles]
    rows = []
    for result, timing in timed:
        seconds = [getattr(timing.stages[stage], name) for stage in _STAGES for name in percentiles]
        latencies = [number(None if value is None else value * 1e3, ".3f") for value in seconds]
        cells = rate(timing), f"{timing.cpu_per_wall:.2f}", number(timing.overhead, ".2%"), ", ".join(timing.flags)
        rows.append((result.system, *latencies, *cells))
    passes = _PASSES + _FEW * (len(percentiles) < len(_PERCENTILES))
    title = f"{dataset}: latency in ms; {qps_name(timed[0][1])}"
    heads = ("system", *header, "e2e\nQPS", "CPU/\nwall", "over-\nhead", "flags")
    return Table(title, heads, tuple(rows), (*_notes(timed), passes))


def _rates(dataset: str, timed: Sequence[_Timed]) -> Table:
    """Return the rates of all queries at once."""
    rows = []
    for result, timing in timed:
        rates = (number(timing.qps[stage], ",.0f") for stage in _STAGES)
        rows.append((result.system, *rates, f"{timing.cpu_per_wall:.2f}", ", ".join(timing.flags)))
    header = ("system", *(f"{short}\nQPS" for short in _STAGES.values()), "CPU/\nwall", "flags")
    return Table(f"{dataset}: QPS, {conditions(timed[0][1])}", header, tuple(rows), tuple(_notes(timed)))


def _memory(dataset: str, timed: Sequence[_Timed]) -> Table:
    """Return megabytes: in memory, of models, and on disk."""
    rows = []
    for result, timing in timed:
        memory, disk = timing.memory, sum(timing.disk.values())
        per_document = disk / result.counts.documents if result.counts.documents else None
        names = ("pss_anonymous", "pss_file", "peak_search", "model")
        megabytes = [number(memory[name] / 1e6 if name in memory else None, ",.1f") for name in names]
        built = sum(result.measured.seconds.get(stage, 0.0) for stage in ("encode", "build"))
        cells = (number(disk / 1e6 or None, ",.1f"), number(per_document or None, ",.0f"), number(built or None, ",.1f"))
        rows.append((result.system, *megabytes, *cells))
    header = ("system", "own", "files", "peak", "model", "on disk", "bytes/\ndocument", "built in s")
    return Table(f"{dataset}: memory and index, MB; {conditions(timed[0][1])}", header, tuple(rows), (_MEMORY,))


def _notes(timed: Sequence[_Timed]) -> Iterator[str]:
    """Yield at most three lines: the machine; the largest spread of processes and first passes; why timings have flags."""
    first = timed[0][1]
    passes = sorted({timing.passes for _, timing in timed})
    count = f"{passes[0]}" if len(passes) == 1 else f"{passes[0]} to {passes[-1]}"
    yield f"machine {first.fingerprint}: {_machine(first)}; {first.queries:,} queries, {count} timed passes"
    spreads = {one.system: timing.qps_range["e2e"] for one, timing in timed if "e2e" in timing.qps_range}
    starts = {
        one.system: timing.first_pass["e2e"].p50 / timing.stages["e2e"].p50
        for one, timing in timed
        if "e2e" in timing.first_pass
    }
    parts = []
    if spreads:
        widest = max(spreads, key=lambda name: spreads[name][1] / spreads[name][0])
        low, high = spreads[widest]
        parts.append(f"processes differ most for {widest}: {low:,.0f} to {high:,.0f} e2e QPS over {first.processes}")
    if starts:
        slowest = max(starts, key=lambda name: starts[name])
        parts.append(f"the first pass takes up to {starts[slowest]:.2g} times a later one ({slowest})")
    if parts:
        yield "; ".join(parts)
    why = [
        f"{one.system}: {timing.notes[0]}" + (f" and {len(timing.notes) - 1} more reasons" if timing.notes[1:] else "")
        for one, timing in timed
        if timing.notes
    ]
    if why:
        noisy = f"; {_NOISY}" if any("noisy" in timing.flags for _, timing in timed) else ""
        yield f"{listed(why, _NAMED)}{noisy}; all reasons: --json"


def _machine(timing: Timing) -> str:
    """Return the machine in one line."""
    facts = timing.machine
    known = [
        facts.get("processor"),
        f"{facts['usable_cores']} core{'' if facts['usable_cores'] == 1 else 's'}" if "usable_cores" in facts else None,
        f"{facts['memory_gib']} GiB" if "memory_gib" in facts else None,
        facts.get("system"),
        " ".join(word for word in ("virtual", "container") if facts.get(word)),
        *facts.get("gpus", [])[:1],
    ]
    return ", ".join(str(fact) for fact in known if fact)
