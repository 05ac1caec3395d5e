"""The tables of timed systems: latencies, queries a second and memory, never without the conditions that they are of."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from lexbench.report.cells import Table, figure
from lexbench.results import Latency, Result, Timing

_STAGES = {"encode_query": "encode", "search": "search", "e2e": "e2e"}
_PERCENTILES = ("p50", "p95", "p99")
_SEEN = "a query's latency is its median over the passes, each query seen before in the warm-up; e2e is measured, not added up"
_FEW = "p95 takes 200 queries, p99 1,000"
_NOISY = "noisy: in no ranking, since the machine was disturbed"


class _Timed(NamedTuple):
    result: Result
    timing: Timing


def conditions(timing: Timing) -> str:
    """Return what a rate or latency of *timing* is of: the part of its name that no table leaves out."""
    return f"{timing.scenario}, k={timing.k}, {'exact' if timing.exact else 'approximate'}"


def qps_name(timing: Timing, stage: str = "e2e") -> str:
    """Return the full name of a rate, as "e2e QPS, single-stream-1t, k=1000, exact"."""
    return f"{stage} QPS, {conditions(timing)}"


def timing_tables(results: Sequence[Result]) -> list[Table]:
    """Return tables for each dataset on which systems were timed; only what has the same conditions is in one."""
    found = []
    for dataset in dict.fromkeys(result.dataset for result in results):
        every = [_Timed(result, one) for result in results if result.dataset == dataset for one in result.timings]
        for timed in _groups(every):
            found.append((_latencies if timed[0].timing.stages else _rates)(dataset, timed))
            if timed[0].timing.stages and timed[0].timing.memory:
                found.append(_memory(dataset, timed))
    return found


def _groups(every: Iterable[_Timed]) -> list[list[_Timed]]:
    groups: dict[tuple[str, str], list[_Timed]] = {}
    for one in every:
        groups.setdefault((conditions(one.timing), one.timing.fingerprint), []).append(one)
    return list(groups.values())


def _latencies(dataset: str, timed: Sequence[_Timed]) -> Table:
    """Return milliseconds by stage and percentile, and the rate."""
    told = [name for name in _PERCENTILES if any(getattr(one.timing.stages["e2e"], name) for one in timed)]
    header = [f"{short}\n{name}" for short in _STAGES.values() for name in told]
    rows = [
        (
            one.result.system,
            *(_ms(one.timing.stages[stage], name) for stage in _STAGES for name in told),
            figure(one.timing.qps["e2e"], ",.0f" if one.timing.qps["e2e"] > 100 else ".1f"),  # noqa: PLR2004 - digits
            f"{one.timing.cpu_per_wall:.2f}",
            figure(one.timing.overhead, ".2%"),
            _flags(one.timing),
        )
        for one in timed
    ]
    few = [_FEW] if len(told) < len(_PERCENTILES) else []
    title = f"{dataset}: latency in ms; {qps_name(timed[0].timing)}"
    return Table(
        title, ("system", *header, "e2e\nQPS", "CPU/\nwall", "over-\nhead", "flags"), tuple(rows), (*_notes(timed), *few, _SEEN)
    )


def _ms(latency: Latency, percentile: str) -> str:
    value = getattr(latency, percentile)
    return figure(None if value is None else value * 1e3, ".3f")


def _rates(dataset: str, timed: Sequence[_Timed]) -> Table:
    """Return the rates of all queries at once."""
    rows = [
        (
            one.result.system,
            *(figure(one.timing.qps[stage], ",.0f") for stage in _STAGES),
            f"{one.timing.cpu_per_wall:.2f}",
            _flags(one.timing),
        )
        for one in timed
    ]
    header = ("system", *(f"{short}\nQPS" for short in _STAGES.values()), "CPU/\nwall", "flags")
    return Table(f"{dataset}: QPS, {conditions(timed[0].timing)}", header, tuple(rows), tuple(_notes(timed)))


def _memory(dataset: str, timed: Sequence[_Timed]) -> Table:
    """Return megabytes: in memory, at most, of models, and on disk."""
    rows = []
    for result, timing in timed:
        held, disk = timing.memory, sum(timing.disk.values())
        per_document = disk / result.counts.documents if result.counts.documents else None
        names = ("pss_anonymous", "pss_file", "peak_search", "model")
        megabytes = [figure(held[name] / 1e6 if name in held else None, ",.1f") for name in names]
        rows.append((result.system, *megabytes, figure(disk / 1e6, ",.1f"), figure(per_document, ",.0f")))
    header = ("system", "own", "files", "peak", "model", "on disk", "bytes a\ndocument")
    legend = (
        "own and files: proportional set size, less that of a process that imports the same and opens nothing; "
        "peak: most resident memory while searching, with all"
    )
    return Table(f"{dataset}: memory and index, MB; {conditions(timed[0].timing)}", header, tuple(rows), (legend,))


def _flags(timing: Timing) -> str:
    return ", ".join(timing.flags)


def _notes(timed: Sequence[_Timed]) -> Iterator[str]:
    """Yield the machine, then why each flag is there."""
    first = timed[0].timing
    yield f"machine {first.fingerprint}: {machine_line(first)}; {first.queries:,} queries, {_passes(timed)} timed passes"
    for one in timed:
        yield from (f"{one.result.system}: {note}" for note in one.timing.notes)
    if any("noisy" in one.timing.flags for one in timed):
        yield _NOISY


def _passes(timed: Sequence[_Timed]) -> str:
    counts = sorted({one.timing.passes for one in timed})
    return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def machine_line(timing: Timing) -> str:
    """Return the machine in a line."""
    facts = timing.machine
    kind = " ".join(word for word, there in (("virtual", facts.get("virtual")), ("container", facts.get("container"))) if there)
    told = [
        facts.get("processor"),
        f"{facts['usable_cores']} cores" if "usable_cores" in facts else None,
        f"{facts['memory_gib']} GiB" if "memory_gib" in facts else None,
        facts.get("system"),
        kind,
        *facts.get("gpus", [])[:1],
    ]
    return ", ".join(str(one) for one in told if one)
