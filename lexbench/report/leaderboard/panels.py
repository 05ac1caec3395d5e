"""One dataset of a leaderboard: a cell per system, tests of all pairs with letters, and the origin of the data."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import isfinite
from statistics import median

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench.analysis.judgements import judged_gaps
from lexbench.analysis.significance import bootstrap, randomisation
from lexbench.contracts import find_contract
from lexbench.datasets.dataset import open_dataset
from lexbench.report.leaderboard.board import SCALE, BoardSystem, Cell, CellSpeed, Panel, machine_line, ranks
from lexbench.report.leaderboard.trade_off import curves_of, plots_of
from lexbench.report.run import notes
from lexbench.report.timings import qps_name
from lexbench.results import Result, Timing
from lexbench.runner.exposure import UNKNOWN

_SCENARIO = "single-stream"  # the scenario to show; speeds of other scenarios are not comparable
_STAGE = "e2e"
FOUND_AT = "10"  # the k of the recall of exact that is shown
_MEAN_DIGITS, _TEST_DIGITS = 6, 4


def panel_of(
    headline: str,
    dataset: str,
    systems: Sequence[BoardSystem],
    results: Sequence[Result | None],
    others: Sequence[Cell | None],
) -> Panel:
    """Return the panel of *dataset* from our *results*, one per system or None, and the published cells of *others*."""
    present = [result for result in results if result is not None]
    called = [msgspec.structs.replace(one, system=systems[at].label) for at, one in enumerate(results) if one is not None]
    first = present[0]
    tested = {number: result for number, result in enumerate(results) if result and headline in result.per_query}
    ranked = [number for number in tested if not systems[number].bound]
    pairs = compare_all({str(number): np.asarray(tested[number].per_query[headline]) for number in ranked})
    cells = [*_cells(systems, results), *others]
    for number, result in tested.items():
        cells[number] = _with_tests(cells[number], str(number), pairs, result.per_query[headline])
    return Panel(
        id=dataset,
        stamp=first.contract,
        headline=headline,
        measures=tuple(dict.fromkeys(measure for result in present for measure in result.means)),
        cells=tuple(cells),
        queries=tuple(first.query_ids),
        texts=_texts(dataset, first.query_ids),
        compared=tuple(ranked),
        p=pairs.p,
        ranges=pairs.ranges,
        detectable=pairs.detectable,
        resamples=pairs.resamples,
        plots=tuple(plots_of(systems, cells, headline, partial(_tied, ranked, pairs.p))),
        curves=tuple(curves_of(systems, results, headline)),
        timed=any(cell is not None and cell.speed is not None for cell in cells),
        digests=_digests(present),
        notes=(*_defects(dataset), *judged_gaps(called), *notes(called), *_not_tested(headline, systems, results, tested)),
    )


def _defects(dataset: str) -> Iterator[str]:
    """Yield a note for each known issue of the data, with its source."""
    contract = find_contract(dataset)
    for defect in contract.defects if contract else ():
        yield f"data issue: {' '.join(defect.what.split())} ({defect.source})"


def _tied(tested: Sequence[int], p: Sequence[Sequence[float]], one: int, other: int) -> bool:
    """Whether two systems, given by position, were tested without a significant difference; *p* is that of all pairs."""
    if one not in tested or other not in tested:
        return False
    first, second = sorted((tested.index(one), tested.index(other)))
    return p[first][second - first - 1] >= randomisation.LEVEL


def _cells(systems: Sequence[BoardSystem], results: Sequence[Result | None]) -> list[Cell | None]:
    """Return the cells of our systems, before tests."""
    bounds = {system.label for system in systems if system.bound}
    present = {result.system: result for result in results if result is not None}
    measured = dict.fromkeys(measure for result in present.values() for measure in result.means)
    marks = {
        measure: ranks({name: result.means.get(measure) for name, result in present.items()}, bounds)
        for measure in measured
        if not measure.startswith("Judged")  # a property of the judgements: never ranked
    }
    return [None if result is None else _cell(result, marks) for result in results]


def _cell(result: Result, marks: Mapping[str, Mapping[str, int]]) -> Cell:
    index, documents, speeds = result.sizes.get("index"), result.counts.documents, _speeds(result.timings)
    return Cell(
        means={measure: round(mean, _MEAN_DIGITS) for measure, mean in result.means.items()},
        deviations=_deviations(result),
        marks={measure: places[result.system] for measure, places in marks.items() if result.system in places},
        index=index,
        bytes_per_document=round(index / documents, 1) if index is not None and documents else None,
        model=result.sizes.get("model"),
        built=seconds_to_build(result),
        speed=speeds[0] if speeds else None,
        speeds=tuple(speeds[1:]),
        found=result.found.get(FOUND_AT),
        exposure=result.exposure.status if result.exposure else UNKNOWN,
        because=tuple(result.exposure.because) if result.exposure else (),
    )


def _deviations(result: Result) -> dict[str, float]:
    return {measure: round(result.seeds.deviation(measure), _MEAN_DIGITS) for measure in result.means} if result.seeds else {}


def _with_tests(cell: Cell | None, name: str, pairs: "Pairs", scores: Sequence[float]) -> Cell:
    assert cell is not None
    return msgspec.structs.replace(
        cell,
        interval=pairs.intervals.get(name),
        letters=pairs.letters.get(name, ""),
        better=pairs.better.get(name, 0),
        others=len(pairs.intervals) - 1 if name in pairs.intervals else 0,
        scores=tuple(round(score * SCALE) for score in scores),
    )


def seconds_to_build(result: Result) -> float | None:
    """Return the seconds of encoding and indexing; None if unknown, or known only for the last of several processes."""
    seconds = [result.measured.seconds[stage] for stage in ("encode", "build") if stage in result.measured.seconds]
    return round(sum(seconds), 1) if seconds and not result.measured.resumed else None


def _speeds(timings: Sequence[Timing]) -> list[CellSpeed]:
    """Return the speeds to show: the latest single-stream timing of each k, the largest k first."""
    single = [timing for timing in timings if timing.scenario.startswith(_SCENARIO) and _STAGE in timing.stages]
    latest = {timing.k: timing for timing in sorted(single, key=lambda timing: timing.taken)}
    return [_speed(latest[k]) for k in sorted(latest, reverse=True)]


def _speed(timing: Timing) -> CellSpeed:
    latency, name = timing.stages[_STAGE], qps_name(timing, _STAGE)
    return CellSpeed(
        name=name,
        group=name if timing.candidates else name.rpartition(", ")[0],
        qps=timing.qps[_STAGE],
        p50=latency.p50,
        p95=latency.p95,
        p99=latency.p99,
        fingerprint=timing.fingerprint,
        machine=machine_line(timing.machine),
        unranked=timing.unranked,
        flags=tuple(timing.flags),
        range=timing.qps_range.get(_STAGE),
    )


def _texts(dataset: str, queries: Sequence[str]) -> tuple[str, ...] | None:
    """Return the texts of *queries* if the contract allows publishing them, otherwise None."""
    contract = find_contract(dataset)
    if contract is None or not contract.source.publishable:
        return None
    texts = {query.query_id: query.text for query in open_dataset(contract).queries}
    return tuple(texts.get(query_id, "") for query_id in queries)


def _digests(results: Sequence[Result]) -> dict[str, tuple[str, ...]]:
    names = dict.fromkeys(name for result in results for name in result.digests)
    return {name: tuple(sorted({result.digests[name] for result in results if name in result.digests})) for name in names}


def _not_tested(
    headline: str, systems: Sequence[BoardSystem], results: Sequence[Result | None], tested: Mapping[int, Result]
) -> list[str]:
    """Return a note for each system without the headline."""
    labels = [systems[number].label for number, result in enumerate(results) if result and number not in tested]
    return [f"{label} is not tested: it has no {headline}" for label in labels]


@dataclass(frozen=True)
class Pairs:
    """Tests of all pairs of systems. Pairs are (earlier, later) in the given order, differences earlier minus later."""

    intervals: dict[str, tuple[float, float]]  # 95 %, of each mean
    letters: dict[str, str]  # of each system's tie groups; empty if all systems are one group
    better: dict[str, int]  # how many systems each is significantly better than
    p: tuple[tuple[float, ...], ...]  # per system with those after it, corrected by Holm over all pairs
    ranges: tuple[tuple[tuple[float, float], ...], ...]  # 95 % intervals of the same differences
    detectable: float | None  # see `_detectable`
    resamples: int = 0  # of the tests


def compare_all(scores: Mapping[str, NDArray[np.float64]]) -> Pairs:
    """Compare every two systems by *scores*, values (queries,) in one order. All pairs share their resamples."""
    names = list(scores)
    if not names:
        return Pairs({}, {}, {}, (), (), None)
    resampled = bootstrap.means(np.array([scores[name] for name in names]))
    intervals = dict(zip(names, _percentiles(resampled), strict=True))
    if len(names) == 1:
        return Pairs(intervals, {}, {}, ((),), ((),), None)
    tied = randomisation.tie_groups(scores)
    row = {name: number for number, name in enumerate(tied.systems)}
    p = tuple(
        tuple(round(float(tied.ps[row[name], row[other]]), _TEST_DIGITS) for other in names[number + 1 :])
        for number, name in enumerate(names)
    )
    ranges = tuple(tuple(_percentiles(resampled[:, [at]] - resampled[:, at + 1 :])) for at in range(len(names)))
    letters = tied.letters if len(tied.groups) > 1 else {}  # a single group says nothing, and would be in every cell
    better = {name: len(worse) for name, worse in tied.worse.items()}
    return Pairs(
        intervals,
        letters,
        better,
        p,
        ranges,
        _detectable(scores),
        randomisation.resamples_for(len(list(combinations(names, 2)))),
    )


def _detectable(scores: Mapping[str, NDArray[np.float64]]) -> float | None:
    """Return the smallest difference that a test finds with power .8: the median over pairs of systems that differ.

    Tests are at Holm's first step, which does not depend on other pairs. None if no two systems differ, or for one query.
    """
    pairs = list(combinations(scores, 2))
    differing = [scores[one] - scores[other] for one, other in pairs if np.any(scores[one] != scores[other])]
    level = randomisation.LEVEL / max(len(pairs), 1)
    smallest = [randomisation.minimum_detectable(differences, level=level) for differences in differing]
    return round(median(smallest), _TEST_DIGITS) if smallest and isfinite(median(smallest)) else None


def _percentiles(resampled: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Return the 95 % intervals of *resampled* (resamples, systems)."""
    if not resampled.shape[1]:
        return []
    low, high = np.percentile(resampled, [2.5, 97.5], axis=0).round(_TEST_DIGITS)
    return [(float(start), float(end)) for start, end in zip(low, high, strict=True)]
