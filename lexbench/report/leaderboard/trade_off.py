"""Plots of effectiveness against cost, and the frontier of systems that no other beats on both axes."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from lexbench.report.leaderboard.board import BoardSystem, Plot, PlotPoint, machine_line
from lexbench.report.timings import qps_name, single_stream
from lexbench.results import Result, Timing

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
    bounds = {n: "an upper bound, not ranked" if systems[n].bound else "" for n in scored}
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
