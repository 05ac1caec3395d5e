"""One dataset of a leaderboard: a cell for each system, what the comparison of all found, and where the data are from."""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from lexbench.datasets.contracts import all_contracts
from lexbench.datasets.sources.pydoc import Pydoc
from lexbench.report import trade_off
from lexbench.report.board import SCALE, Cell, Panel, Speed, System, machine_line, ranks
from lexbench.report.pairs import Pairs, compare
from lexbench.report.table import notes
from lexbench.results import BOUND, Result, Timing

_SCENARIO = "single-stream"  # whose latencies are shown; others' speed is of another kind
_STAGE = "e2e"
_DIGITS = 6


def panel(
    headline: str, dataset: str, systems: Sequence[System], results: Sequence[Result | None], others: Sequence[Cell | None]
) -> Panel:
    """Return what there is of *dataset*: our *results*, one a system or None, then the cells of *others* that published."""
    there = [result for result in results if result is not None]
    comparable = {number: result for number, result in enumerate(results) if result and _alike(result, there[0], headline)}
    ranked = [number for number in comparable if not systems[number].bound]
    found = compare({str(number): np.asarray(comparable[number].per_query[headline]) for number in ranked})
    cells = [*_cells(systems, results), *others]
    for number, result in comparable.items():
        cells[number] = _compared(cells[number], str(number), found, result.per_query[headline])
    return Panel(
        id=dataset,
        stamp=there[0].contract,
        headline=headline,
        measures=tuple(dict.fromkeys(measure for result in there for measure in result.means)),
        cells=tuple(cells),
        queries=tuple(there[0].query_ids),
        texts=_texts(dataset, there[0].query_ids),
        compared=tuple(ranked),
        p=found.p,
        ranges=found.ranges,
        detectable=found.detectable,
        plots=tuple(trade_off.plots(systems, cells, headline)),
        curves=tuple(trade_off.curves(systems, results, headline)),
        timed=any(cell is not None and cell.speed is not None for cell in cells),
        digests=_digests(there),
        notes=(*notes(there), *_apart(systems, results, comparable)),
    )


def is_bound(result: Result) -> bool:
    """Whether a result is an upper bound and no result."""
    return any(note.startswith(BOUND) for note in result.notes)


def _alike(one: Result, first: Result, headline: str) -> bool:
    """Whether two results are of the same queries under the same rules, so that they may be tested against each other."""
    same = one.query_ids == first.query_ids and one.contract == first.contract
    return same and one.digests.get("qrels") == first.digests.get("qrels") and headline in one.per_query


def _cells(systems: Sequence[System], results: Sequence[Result | None]) -> list[Cell | None]:
    """Return the cells of our systems, without what a comparison adds."""
    bounds = {system.label for system in systems if system.bound}
    there = {result.system: result for result in results if result is not None}
    measures = dict.fromkeys(measure for result in there.values() for measure in result.means)
    marks = {measure: ranks({name: one.means.get(measure) for name, one in there.items()}, bounds) for measure in measures}
    return [None if result is None else _cell(result, marks) for result in results]


def _cell(result: Result, marks: Mapping[str, Mapping[str, int]]) -> Cell:
    index, documents = result.sizes.get("index"), result.counts.documents
    return Cell(
        means={measure: round(mean, _DIGITS) for measure, mean in result.means.items()},
        marks={measure: places[result.system] for measure, places in marks.items() if result.system in places},
        index=index,
        bytes_per_document=round(index / documents, 1) if index is not None and documents else None,
        speed=_speed(result.timings),
    )


def _compared(cell: Cell | None, name: str, found: Pairs, scores: Sequence[float]) -> Cell:
    assert cell is not None
    return msgspec.structs.replace(
        cell,
        interval=found.intervals.get(name),
        letters=found.letters.get(name, ""),
        better=found.better.get(name, 0),
        others=len(found.intervals) - 1 if name in found.intervals else 0,
        scores=tuple(round(score * SCALE) for score in scores),
    )


def _speed(timings: Sequence[Timing]) -> Speed | None:
    """Return the speed to show: of a stream of single queries, at the greatest depth, the latest."""
    single = [timing for timing in timings if timing.scenario.startswith(_SCENARIO) and _STAGE in timing.stages]
    if not single:
        return None
    timing = max(single, key=lambda one: (one.k, one.taken))
    latency = timing.stages[_STAGE]
    group = f"{_STAGE} QPS, {timing.scenario}, k={timing.k}"
    return Speed(
        name=f"{group}, {'exact' if timing.exact else 'approximate'}",
        group=group,
        qps=timing.qps[_STAGE],
        p50=latency.p50,
        p95=latency.p95,
        p99=latency.p99,
        fingerprint=timing.fingerprint,
        machine=machine_line(timing.machine),
        noisy="noisy" in timing.flags,
        flags=tuple(timing.flags),
    )


def _texts(dataset: str, queries: Sequence[str]) -> tuple[str, ...] | None:
    """Return the texts of *queries* where they are ours to pass on; those of other datasets have licenses of their own."""
    contract = all_contracts().get(dataset)
    if contract is None or contract.source.loader != "pydoc":
        return None
    texts = {query.query_id: query.text for query in Pydoc(contract).queries()}
    return tuple(texts.get(query_id, "") for query_id in queries)


def _digests(results: Sequence[Result]) -> dict[str, tuple[str, ...]]:
    names = dict.fromkeys(name for result in results for name in result.digests)
    return {name: tuple(sorted({result.digests[name] for result in results if name in result.digests})) for name in names}


def _apart(systems: Sequence[System], results: Sequence[Result | None], comparable: Mapping[int, Result]) -> list[str]:
    apart = [systems[number].label for number, result in enumerate(results) if result and number not in comparable]
    return [f"{label} was scored on other queries, judgements or rules than the first: not tested" for label in apart]
