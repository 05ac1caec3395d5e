"""The tables of a run: scores, what vectors weigh, and timings, never without the conditions that they are of."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from lexbench.analysis import aggregates
from lexbench.analysis.incompleteness import judged_gaps
from lexbench.contracts import find_contract
from lexbench.report.table import Table, heading, number, with_deviation
from lexbench.report.vectors import vector_tables
from lexbench.results import EXPOSURES, Latency, Result, Seeds, Timing
from lexbench.suites import Suite

_WARN = 0.001  # a tie interval wider than this is said

_FLOAT32 = "float32", "trec_eval to v9.0.8 of 2020, pytrec_eval, BEIR and MTEB"
_PRECISIONS = {"double": _FLOAT32, "float32": ("double", "trec_eval since 2023 and v10.0")}  # the other one, and whose it is

_STAGES = {"encode_query": "encode", "search": "search", "e2e": "e2e"}
_PERCENTILES = ("p50", "p95", "p99")
_PASSES = (
    "a query's latency is its median over the passes, each query seen before in the warm-up; e2e is measured, not added up"
)
_FEW = "p95 takes 200 queries, p99 1,000"
_NOISY = "noisy: in no ranking, since the machine was disturbed"


def tables(results: Sequence[Result], suite: Suite | None) -> list[Table]:
    """Return the tables of *results*: measures across where there is one dataset or one system, else systems across."""
    if not results:
        return []
    *scores, last = _score_tables(results, suite)
    scores.append(replace(last, notes=(*last.notes, *judged_gaps(results), *exposures(results), *defects(results))))
    return [*scores, *vector_tables(results), *timing_tables(results)]


def _score_tables(results: Sequence[Result], suite: Suite | None) -> list[Table]:
    systems = list(dict.fromkeys(result.system for result in results))
    datasets = list(dict.fromkeys(result.dataset for result in results))
    if len(datasets) == 1:
        return [_by_measure(f"{datasets[0]}", results, [result.system for result in results], "system", None)]
    if len(systems) == 1:
        return [_by_measure(f"{systems[0]}", results, [result.dataset for result in results], "dataset", suite)]
    measured = list(dict.fromkeys(measure for result in results for measure in result.means))
    whole = suite is not None and suite.headline in measured and len(results[0].means) == len(suite.measures)
    measures = [suite.headline] if suite and whole else measured  # measures that were asked for by name are all shown
    by_measure = [_by_system(measure, results, systems, datasets, suite) for measure in measures]
    return [*by_measure[:-1], replace(by_measure[-1], notes=tuple(notes(results)))]


def _by_system(measure: str, results: Sequence[Result], systems: list[str], datasets: list[str], suite: Suite | None) -> Table:
    """Return the means of one measure with a row for each of what there is more of: long names fold in the first column."""
    cells = {(result.system, result.dataset): score(result, measure) for result in results}
    header = [*datasets]
    columns = [[cells.get((system, dataset), number(None)) for system in systems] for dataset in datasets]
    for aggregate in suite.aggregates if suite else ():
        if aggregate.measure == measure:
            by_system = [[result for result in results if result.system == system] for system in systems]
            header.append(aggregate.id)
            columns.append([str(aggregates.over_results(aggregate, group)) for group in by_system])
    if len(systems) > len(datasets):
        return Table(measure, ("system", *header), tuple(zip(systems, *columns, strict=True)))
    return Table(measure, ("dataset", *systems), tuple((name, *column) for name, column in zip(header, columns, strict=True)))


def _by_measure(title: str, results: Sequence[Result], names: Sequence[str], what: str, suite: Suite | None) -> Table:
    measures = list(dict.fromkeys(measure for result in results for measure in result.means))
    rows = [(name, *(score(result, measure) for measure in measures)) for name, result in zip(names, results, strict=True)]
    if suite:
        for aggregate in suite.aggregates:
            value = str(aggregates.over_results(aggregate, results))
            rows.append((aggregate.id, *(value if measure == aggregate.measure else "" for measure in measures)))
    return Table(title, (what, *map(heading, measures)), tuple(rows), tuple(notes(results)))


def notes(results: Sequence[Result]) -> list[str]:
    """Return what a reader must know: queries without hits, self-matches, wide tie intervals, and the results' own notes."""
    lines = names(results)
    for result in results:
        name = f"{result.system} on {result.dataset}"
        counts = result.counts
        if counts.missing:
            lines.append(f"{name}: {counts.missing} of {counts.queries} queries returned nothing and score 0")
        if counts.unjudged:
            lines.append(f"{name}: {counts.unjudged} queries of the run have no judgement, and are not counted")
        if counts.judged_absent:
            lines.append(f"{name}: {counts.judged_absent} judged documents are not in the corpus, so no system finds them")
        if counts.self_matches:
            lines.append(f"{name}: {counts.self_matches} documents with the query's own id were dropped (the contract's rule)")
        if counts.excluded:
            lines.append(
                f"{name}: {counts.excluded} documents were dropped whose grade is one of no answers (the contract's rule)"
            )
        wide = [
            f"{measure} [{tie.lowest:.4f}, {tie.highest:.4f}]"
            for measure, tie in result.ties.items()
            if tie.highest - tie.lowest > _WARN
        ]
        if wide:
            lines.append(f"{name}: tied scores leave open {', '.join(wide)}")
        lines += [f"{name}: {note}" for note in (*_of_precision(result), *result.notes)]
    return lines


def score(result: Result, measure: str) -> str:
    """Return the mean of *measure* as a cell, with the standard deviation over seeds where the system has several."""
    has = result.seeds and measure in result.means
    return with_deviation(result.means.get(measure), result.seeds.deviation(measure) if has and result.seeds else None)


def names(results: Sequence[Result]) -> list[str]:
    """Return a line for each system that was given a name or is several seeds, with what it stands for."""
    lines = [
        f"{result.system} = {result.notation}" if result.notation else _seeds(result.system, result.seeds)
        for result in results
        if result.notation or result.seeds
    ]
    return list(dict.fromkeys(lines))


def _seeds(system: str, seeds: Seeds | None) -> str:
    assert seeds is not None
    members = "; ".join(f"{name} = {notation}" if notation else name for name, notation in seeds.systems.items())
    return f"{system}: mean ± standard deviation (n - 1) of {len(seeds.systems)} seeds, {members}"


def exposures(results: Sequence[Result]) -> Iterator[str]:
    """Yield a line for each dataset that not all systems met unseen: which had seen what of it, and the evidence."""
    for dataset in dict.fromkeys(result.dataset for result in results):
        seen = [result for result in results if result.dataset == dataset and result.exposure]
        by_status = {status: [one for one in seen if one.exposure and one.exposure.status == status] for status in EXPOSURES}
        if len(by_status["zero-shot"]) < len(seen):
            groups = [f"{status}: {', '.join(one.system for one in group)}" for status, group in by_status.items() if group]
            yield f"seen of {dataset} in training: {'; '.join(groups)}"
            lines = dict.fromkeys(line for one in seen if one.exposure for line in one.exposure.because)
            yield from (f"{dataset}: {line}" for line in lines)


def defects(results: Sequence[Result]) -> Iterator[str]:
    """Yield one line with the datasets of whose data something wrong or surprising is known, how much, and where it is told."""
    contracts = [find_contract(dataset) for dataset in dict.fromkeys(result.dataset for result in results)]
    known = {contract.id: len(contract.defects) for contract in contracts if contract and contract.defects}
    if known:
        told = ", ".join(f"{dataset} {count}" for dataset, count in known.items())
        name = next(iter(known)) if len(known) == 1 else "NAME"
        yield f"known to be wrong or surprising in the data: {told}; read it: lexbench show dataset {name}"


def _of_precision(result: Result) -> list[str]:
    """Return what the other way of comparing the scores of a run file would give, where that differs."""
    if not result.other_precision:
        return []
    other, tools = _PRECISIONS[result.precision]
    means = ", ".join(f"{measure} {mean:.4f}" for measure, mean in result.other_precision.items())
    return [f"scores are compared as {result.precision}; as {other}, as {tools} do: {means}"]


class _Timed(NamedTuple):
    """One timing of a result."""

    result: Result
    timing: Timing


def conditions(timing: Timing) -> str:
    """Return what a rate or latency of *timing* is of: the part of its name that no table leaves out."""
    searched = f"candidates={timing.candidates}" if timing.candidates else "exact" if timing.exact else "approximate"
    return f"{timing.scenario}, k={timing.k}, {searched}"


def qps_name(timing: Timing, stage: str = "e2e") -> str:
    """Return the full name of a rate, as "e2e QPS, single-stream-1t, k=1000, exact"."""
    return f"{stage} QPS, {conditions(timing)}"


def timing_tables(results: Sequence[Result]) -> list[Table]:
    """Return tables for each dataset on which systems were timed; only what has the same conditions is in one."""
    tables = []
    for dataset in dict.fromkeys(result.dataset for result in results):
        timings = [_Timed(result, timing) for result in results if result.dataset == dataset for timing in result.timings]
        for timed in _groups(timings):
            tables.append((_latencies if timed[0].timing.stages else _rates)(dataset, timed))
            if timed[0].timing.stages and timed[0].timing.memory:
                tables.append(_memory(dataset, timed))
    return tables


def _groups(timings: Iterable[_Timed]) -> list[list[_Timed]]:
    """Return the timings by their conditions and machine."""
    groups: dict[tuple[str, str], list[_Timed]] = {}
    for row in timings:
        groups.setdefault((conditions(row.timing), row.timing.fingerprint), []).append(row)
    return list(groups.values())


def _latencies(dataset: str, timed: Sequence[_Timed]) -> Table:
    """Return milliseconds by stage and percentile, and the rate."""
    percentiles = [name for name in _PERCENTILES if any(getattr(row.timing.stages["e2e"], name) for row in timed)]
    header = [f"{short}\n{name}" for short in _STAGES.values() for name in percentiles]
    rows = [
        (
            row.result.system,
            *(_ms(row.timing.stages[stage], name) for stage in _STAGES for name in percentiles),
            _qps(row.timing),
            f"{row.timing.cpu_per_wall:.2f}",
            number(row.timing.overhead, ".2%"),
            ", ".join(row.timing.flags),
        )
        for row in timed
    ]
    few = [_FEW] if len(percentiles) < len(_PERCENTILES) else []
    return Table(
        f"{dataset}: latency in ms; {qps_name(timed[0].timing)}",
        ("system", *header, "e2e\nQPS", "CPU/\nwall", "over-\nhead", "flags"),
        tuple(rows),
        (*_timing_notes(timed), *few, _PASSES),
    )


def _qps(timing: Timing) -> str:
    rate = timing.qps.get("e2e")
    return number(rate, ",.0f" if rate is not None and rate > 100 else ".1f")  # noqa: PLR2004 - digits


def _spread(result: Result, timing: Timing) -> Iterator[str]:
    """Yield how much processes differ, and what queries take that were not seen before."""
    if "e2e" in timing.qps_range:
        low, high = timing.qps_range["e2e"]
        yield f"{result.system}: {low:,.0f} to {high:,.0f} e2e QPS over {timing.processes} fresh processes"
    if "e2e" in timing.first_pass:
        first, steady = timing.first_pass["e2e"].p50 * 1e3, timing.stages["e2e"].p50 * 1e3
        yield f"{result.system}: e2e p50 {first:.3f} ms in the first pass, {steady:.3f} ms steady"


def _ms(latency: Latency, percentile: str) -> str:
    value = getattr(latency, percentile)
    return number(None if value is None else value * 1e3, ".3f")


def _rates(dataset: str, timed: Sequence[_Timed]) -> Table:
    """Return the rates of all queries at once."""
    rows = [
        (
            row.result.system,
            *(number(row.timing.qps[stage], ",.0f") for stage in _STAGES),
            f"{row.timing.cpu_per_wall:.2f}",
            ", ".join(row.timing.flags),
        )
        for row in timed
    ]
    header = ("system", *(f"{short}\nQPS" for short in _STAGES.values()), "CPU/\nwall", "flags")
    return Table(f"{dataset}: QPS, {conditions(timed[0].timing)}", header, tuple(rows), tuple(_timing_notes(timed)))


def _memory(dataset: str, timed: Sequence[_Timed]) -> Table:
    """Return megabytes: in memory, at most, of models, and on disk."""
    rows = []
    for result, timing in timed:
        memory, disk = timing.memory, sum(timing.disk.values())
        per_document = disk / result.counts.documents if result.counts.documents else None
        names = ("pss_anonymous", "pss_file", "peak_search", "model")
        megabytes = [number(memory[name] / 1e6 if name in memory else None, ",.1f") for name in names]
        built = sum(result.measured.seconds.get(stage, 0.0) for stage in ("encode", "build"))
        seconds = number(built or None, ",.1f")
        rows.append((result.system, *megabytes, number(disk / 1e6, ",.1f"), number(per_document, ",.0f"), seconds))
    header = ("system", "own", "files", "peak", "model", "on disk", "bytes a\ndocument", "built in s")
    legend = (
        "own and files: of the process itself and of mapped files but libraries, less what importing the same takes; "
        "peak: most resident memory while searching, with all; built in: encoding and indexing, when that was done"
    )
    return Table(f"{dataset}: memory and index, MB; {conditions(timed[0].timing)}", header, tuple(rows), (legend,))


def _timing_notes(timed: Sequence[_Timed]) -> Iterator[str]:
    """Yield the machine, then why each flag is there."""
    first = timed[0].timing
    yield f"machine {first.fingerprint}: {_machine(first)}; {first.queries:,} queries, {_passes(timed)} timed passes"
    for row in timed:
        yield from _spread(row.result, row.timing)
        yield from (f"{row.result.system}: {note}" for note in row.timing.notes)
    if any("noisy" in row.timing.flags for row in timed):
        yield _NOISY


def _passes(timed: Sequence[_Timed]) -> str:
    counts = sorted({row.timing.passes for row in timed})
    return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _machine(timing: Timing) -> str:
    """Return the machine in a line."""
    facts = timing.machine
    kind = " ".join(word for word in ("virtual", "container") if facts.get(word))
    known = [
        facts.get("processor"),
        f"{facts['usable_cores']} cores" if "usable_cores" in facts else None,
        f"{facts['memory_gib']} GiB" if "memory_gib" in facts else None,
        facts.get("system"),
        kind,
        *facts.get("gpus", [])[:1],
    ]
    return ", ".join(str(fact) for fact in known if fact)
