"""One dataset of a leaderboard: its table, tests of all pairs, plots and the origin of the data."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import ceil
from statistics import median
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench.analysis.judgements import judged_gaps, judged_levels
from lexbench.analysis.significance import bootstrap, randomisation
from lexbench.analysis.significance.cautions import cautions
from lexbench.contracts import Contract, find_contract
from lexbench.datasets.dataset import open_dataset
from lexbench.report.grid import details
from lexbench.report.leaderboard.board import SCALE, BoardSystem, Panel, Plot, PlotPoint, machine_line
from lexbench.report.run import notes
from lexbench.report.timings import qps_name, single_stream
from lexbench.results import Note, Result, Timing

_TEST_DIGITS = 4
_WANTED = 0.01  # the difference for which boards say how many queries it takes


def panel_of(
    dataset: str,
    headline: str,
    systems: Sequence[BoardSystem],
    results: Sequence[Result | None],
    levels: Sequence[tuple[str, float]],
    texts: Mapping[str, str] | None = None,
) -> Panel:
    """Return the panel of *dataset* from *results*, one per system or None.

    *levels* are published scores for the plots, *texts* those of the queries of a user's own data.
    """
    found = {at: result for at, result in enumerate(results) if result is not None}
    present = [msgspec.structs.replace(one, system=systems[at].label) for at, one in found.items()]
    tested = testable(headline, systems, results)
    values = np.array([result.per_query[headline] for result in tested.values()])
    resampled = bootstrap.means(values) if tested else np.empty((0, 0))
    intervals = dict(zip(tested, _percentiles(resampled), strict=True))
    ranking = randomisation.ranking(values) if tested else None
    queries = next(iter(tested.values()), present[0]).query_ids
    contract = find_contract(dataset)
    issues = contract.defects if contract else ()
    defects = [Note("data issue", f"data issue: {' '.join(one.what.split())} ({one.source})") for one in issues]
    grid = details({result.system: result for result in present})
    rows = tuple(msgspec.structs.replace(row, system=at) for at, row in zip(found, grid.rows, strict=True))
    return Panel(
        id=dataset,
        stamp=present[0].contract,
        headline=headline,
        details=msgspec.structs.replace(grid, rows=rows),
        means=tuple(result.means.get(headline) if result else None for result in results),
        scores=tuple(tuple(round(score * SCALE) for score in one.per_query[headline]) for one in tested.values()),
        queries=tuple(queries),
        texts=tuple(texts.get(query, "") for query in queries) if texts else published_texts(contract, queries),
        compared=tuple(tested),
        p=tuple(tuple(row[at + 1 :]) for at, row in enumerate(ranking.ps.round(_TEST_DIGITS).tolist())) if ranking else (),
        floor=ceil(ranking.floor * 10**_TEST_DIGITS) / 10**_TEST_DIGITS if ranking else 0.0,
        ranges=_ranges_of_pairs(values),
        plots=tuple(plots_of(systems, results, headline, intervals, levels)),
        digests={
            name: tuple(sorted({result.digests[name] for result in present if name in result.digests}))
            for name in dict.fromkeys(name for result in present for name in result.digests)
        },
        notes=(
            *defects,
            *(Note("judged share", line) for line in (*judged_levels(present, headline), *judged_gaps(present))),
            *notes(present),
            *power_notes(dataset, values),
            *_doubted(dataset, [one.system for one in tested.values()], values, ranking),
        ),
    )


def testable(headline: str, systems: Sequence[BoardSystem], results: Sequence[Result | None]) -> dict[int, Result]:
    """Return the results that are tested, by the position of their system. Variants and those aside are not."""
    return {
        at: result
        for at, result in enumerate(results)
        if result and headline in result.per_query and systems[at].base is None and not systems[at].aside
    }


def published_texts(contract: Contract | None, queries: Sequence[str]) -> tuple[str, ...] | None:
    """Return the texts of *queries* if the contract allows publishing them, otherwise None."""
    if contract is None or not contract.source.publishable:
        return None
    texts = {query.query_id: query.text for query in open_dataset(contract).queries}
    return tuple(texts.get(query_id, "") for query_id in queries)


def power_notes(dataset: str, values: NDArray[np.float64]) -> Iterator[Note]:
    """Yield which difference the tests of *values* (systems, queries) find, and how many queries a difference of .01 takes.

    Both are medians over the pairs that differ, for tests at Holm's first step, which does not depend on other pairs.
    """
    pairs = list(combinations(values, 2))
    level = randomisation.LEVEL / max(len(pairs), 1)
    differing = [one - other for one, other in pairs if np.any(one != other)]
    if differing and values.shape[1] > 1:  # one query has no standard deviation
        least = median(randomisation.minimum_detectable(one, level=level) for one in differing)
        needed = median(randomisation.queries_needed(one, _WANTED, level=level) for one in differing)
        yield Note(
            "power",
            f"The tests on {dataset} find differences of {least:.3f} with 80 % power ({values.shape[1]:,} queries); a "
            f"difference of {_WANTED:g} takes about {needed:,.0f} queries",
        )


_MOST_PAIRS = 300  # with all resamples; more pairs get fewer, because each costs a column of the product
_FEWER = 2_000


def _ranges_of_pairs(values: NDArray[np.float64]) -> tuple[tuple[tuple[float, float], ...], ...]:
    """Return the interval of the difference between each of *values* (systems, queries) and every later one."""
    resamples = randomisation.RESAMPLES if len(values) * (len(values) - 1) // 2 <= _MOST_PAIRS else _FEWER
    rows = []
    for at in range(len(values)):
        later = values[at] - values[at + 1 :]
        found = bootstrap.difference_intervals(later, resamples=resamples).round(_TEST_DIGITS) if len(later) else later
        rows.append(tuple((float(low), float(high)) for low, high in found))
    return tuple(rows)


def _doubted(
    dataset: str, systems: Sequence[str], values: NDArray[np.float64], ranking: randomisation.PairedTests | None
) -> Iterator[Note]:
    """Yield a note if the tests have few queries, or if pairs that they tell apart have skewed differences."""
    pairs = combinations(range(len(systems)), 2)
    apart = [(one, other) for one, other in pairs if ranking and ranking.ps[one, other] < randomisation.LEVEL]
    yield from cautions(dataset, {f"{systems[one]} and {systems[other]}": values[one] - values[other] for one, other in apart})


def _percentiles(resampled: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Return the 95 % intervals of *resampled* (resamples, systems)."""
    if not resampled.shape[1]:
        return []
    low, high = np.percentile(resampled, [2.5, 97.5], axis=0).round(_TEST_DIGITS)
    return [(float(start), float(end)) for start, end in zip(low, high, strict=True)]


# ---- plots of effectiveness against cost, and the frontier of systems that no other beats on both axes ----------------------


_FEWEST = 2  # points of a plot
_FOUND_AT = "10"  # the k of the recall of exact that is shown


def frontier(points: Sequence[tuple[float, float]], *, lower_is_better: bool) -> set[int]:
    """Return the positions of the *points* (cost or speed, effectiveness) that no other point dominates.

    A point dominates another if it is at least as good on both axes and better on one. Equal points are both on the frontier.
    """
    sign = -1 if lower_is_better else 1
    goods = [(sign * x, y) for x, y in points]
    return {
        number
        for number, (x, y) in enumerate(goods)
        if not any(other_x >= x and other_y >= y and (other_x, other_y) != (x, y) for other_x, other_y in goods)
    }


_Range: TypeAlias = tuple[float, float] | None
_Levels: TypeAlias = Mapping[int, tuple[float, _Range]]  # a value and its interval, by system


def plots_of(
    systems: Sequence[BoardSystem],
    results: Sequence[Result | None],
    headline: str,
    intervals: Mapping[int, tuple[float, float]],
    levels: Sequence[tuple[str, float]],
) -> list[Plot]:
    """Return the plots of one dataset: effectiveness over index bytes per document, and over speed per machine and scenario.

    Where engines are approximate there is also a plot of their recall of exact over speed. *levels* are published scores: their
    cost was not measured, so they are horizontal lines.
    """
    scored = {n: result for n, result in enumerate(results) if result and headline in result.means}
    effects: _Levels = {n: (result.means[headline], intervals.get(n)) for n, result in scored.items()}
    sizes: _Levels = {
        n: (result.sizes["index"] / result.counts.documents, None)
        for n, result in scored.items()
        if result.sizes.get("index") and result.counts.documents
    }
    bounds = {n: f"{systems[n].aside}, not ranked" if systems[n].aside else "" for n in scored}
    plots = [
        _plot("index", ("Index size", "index bytes per document (log)", headline), sizes, effects, bounds, levels, lower=True)
    ]
    for (fingerprint, group), timings in sorted(_by_machine(scored).items()):
        where = f"{machine_line(next(iter(timings.values())).machine)} ({fingerprint})"
        rates: _Levels = {n: (one.qps["e2e"], one.qps_range.get("e2e")) for n, one in timings.items()}
        aside = {n: bounds[n] or (f"{one.unranked}, not ranked" if one.unranked else "") for n, one in timings.items()}
        name = f"{fingerprint}.{'.'.join(group.split(', ')[2:])}"
        axes = (f"Speed on {where}", f"{group} (log)", headline)
        plots.append(_plot(f"speed.{name}", axes, rates, effects, aside, levels, lower=False))
        if any(_FOUND_AT in scored[n].found for n in timings):
            exact: _Levels = {n: (1.0, None) for n, one in timings.items() if one.exact}
            found = {**exact, **{n: (scored[n].found[_FOUND_AT], None) for n in timings if _FOUND_AT in scored[n].found}}
            axes = (f"Approximate search on {where}", f"{group} (log)", f"recall of exact @{_FOUND_AT}")
            plots.append(_plot(f"recall.{name}", axes, rates, found, aside, (), lower=False))
    return [plot for plot in plots if len(plot.points) >= _FEWEST]


def _by_machine(scored: Mapping[int, Result]) -> dict[tuple[str, str], dict[int, Timing]]:
    """Return the timings that may share a plot: of one machine, scenario and depth; candidates count, exactness does not."""
    groups: dict[tuple[str, str], dict[int, Timing]] = {}
    for number, result in scored.items():
        for timing in single_stream(result):
            name = qps_name(timing)
            group = name if timing.candidates else name.rpartition(", ")[0]
            groups.setdefault((timing.fingerprint, group), {}).setdefault(number, timing)
    return groups


def _plot(
    name: str,
    axes: tuple[str, str, str],
    costs: _Levels,
    effects: _Levels,
    aside: Mapping[int, str],
    levels: Sequence[tuple[str, float]],
    *,
    lower: bool,
) -> Plot:
    """Return the plot of *effects* over *costs*, both by system. *axes* are the title and the names of both axes."""
    shown = [number for number in costs if number in effects]
    ranked = [number for number in shown if not aside[number]]
    places = [(costs[number][0], effects[number][0]) for number in ranked]
    best = {ranked[place] for place in frontier(places, lower_is_better=lower)}
    points = tuple(
        PlotPoint(
            system=number,
            x=costs[number][0],
            y=effects[number][0],
            x_range=costs[number][1],
            y_range=effects[number][1],
            frontier=number in best,
            aside=aside[number],
        )
        for number in shown
    )
    return Plot(name=name, title=axes[0], x=axes[1], y=axes[2], lower_is_better=lower, points=points, levels=tuple(levels))
