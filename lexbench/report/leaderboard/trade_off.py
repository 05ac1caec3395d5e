"""Effectiveness against cost: the frontier of systems that no other beats on both axes, and curves over the number of terms."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from lexbench.report.leaderboard.board import UNKNOWN_FAMILY, BoardSystem, Cell, CellSpeed, Curve, Plot, PlotPoint
from lexbench.results import Result

_TOP_K = re.compile(r"\|top_k\([^)]*\)")
_PLUGIN = "transforms/top_k"
_FEWEST = 2  # points of a plot

Tied: TypeAlias = Callable[[int, int], bool]


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


def plots_of(systems: Sequence[BoardSystem], cells: Sequence[Cell | None], headline: str, tied: Tied) -> list[Plot]:
    """Return the plots of one dataset: effectiveness over index bytes per document, and over speed per machine and scenario.

    Where engines are approximate there is also a plot of their recall of exact over speed. *tied* tells whether two systems,
    given by position, were tested without a significant difference. Published scores have no measured cost, so the best of each
    family is a horizontal level.
    """
    levels = anchors_of(systems, cells, headline)
    scored = {n: cell for n, cell in enumerate(cells) if cell and headline in cell.means and not systems[n].source}
    effects = {n: _Level(cell.means[headline], cell.interval) for n, cell in scored.items()}
    sizes = {n: _Level(cell.bytes_per_document) for n, cell in scored.items() if cell.bytes_per_document}
    axes = ("Index size", "index bytes per document (log)", headline)
    plots = [_plot(axes, sizes, effects, {n: _aside(systems[n], None) for n in scored}, tied, lower=True)]
    speeds = {n: (cell.speed, *cell.speeds) for n, cell in scored.items() if cell.speed}
    for fingerprint, group in sorted({(one.fingerprint, one.group) for of in speeds.values() for one in of}):
        alike = {n: one for n, of in speeds.items() for one in of if (one.fingerprint, one.group) == (fingerprint, group)}
        where = f"{next(iter(alike.values())).machine} ({fingerprint})"
        rates = {n: _Level(one.qps, one.range) for n, one in alike.items()}
        aside = {n: _aside(systems[n], one) for n, one in alike.items()}
        plots.append(_plot((f"Speed on {where}", f"{group} (log)", headline), rates, effects, aside, tied, lower=False))
        if any(scored[n].found is not None for n in alike):
            found = {n: level for n, one in alike.items() if (level := _found(scored[n], one))}
            axes = (f"Approximate search on {where}", f"{group} (log)", "recall of exact @10")
            plots.append(_plot(axes, rates, found, aside, lambda *_: False, lower=False))
    drawn = [plot for plot in plots if len(plot.points) >= _FEWEST]
    return [msgspec.structs.replace(plot, anchors=levels) if plot.y == headline else plot for plot in drawn]


def anchors_of(systems: Sequence[BoardSystem], cells: Sequence[Cell | None], headline: str) -> tuple[int, ...]:
    """Return the positions of the published systems to draw as levels: the best of each family, the highest first.

    Of equal ones the first counts. Systems without a family in the catalogue are left out, because readers could not place
    them.
    """
    scores = {
        number: cell.means[headline]
        for number, cell in enumerate(cells)
        if cell and headline in cell.means and systems[number].source and systems[number].family != UNKNOWN_FAMILY
    }
    best: dict[str, int] = {}
    for number in sorted(scores, key=lambda number: -scores[number]):
        best.setdefault(systems[number].family, number)
    return tuple(best.values())


class _Level(NamedTuple):
    """A value and its interval."""

    value: float
    range: tuple[float, float] | None = None


_Levels: TypeAlias = Mapping[int, _Level]  # by system


def _found(cell: Cell, speed: CellSpeed) -> _Level | None:
    """Return the recall of exact of a system: 1 for an exact one; None if it is unknown."""
    if cell.found is not None:
        return _Level(cell.found)
    return _Level(1.0) if speed.name.endswith(", exact") else None


def _plot(
    axes: tuple[str, str, str],
    costs: _Levels,
    effects: _Levels,
    aside: Mapping[int, str],
    tied: Tied,
    *,
    lower: bool,
) -> Plot:
    """Return the plot of *effects* over *costs*, both by system. *axes* are the title and the names of both axes."""
    shown = [number for number in costs if number in effects]
    ranked = [number for number in shown if not aside[number]]
    places = [(costs[number].value, effects[number].value) for number in ranked]
    best = {ranked[place] for place in frontier(places, lower_is_better=lower)}
    points = tuple(
        PlotPoint(
            system=number,
            x=costs[number].value,
            y=effects[number].value,
            x_range=costs[number].range,
            y_range=effects[number].range,
            frontier=number in best,
            open=number in ranked and number not in best and _is_open(number, ranked, costs, effects, tied, lower=lower),
            aside=aside[number],
        )
        for number in shown
    )
    return Plot(title=axes[0], x=axes[1], y=axes[2], lower_is_better=lower, points=points)


def _is_open(number: int, ranked: Sequence[int], costs: _Levels, effects: _Levels, tied: Tied, *, lower: bool) -> bool:
    """Whether no system that is at least as good on both axes is significantly more effective."""
    sign = -1 if lower else 1
    above = [
        other
        for other in ranked
        if sign * costs[other].value >= sign * costs[number].value and effects[other].value >= effects[number].value
    ]
    return all(tied(other, number) for other in above if other != number)


def _aside(system: BoardSystem, speed: CellSpeed | None) -> str:
    if system.bound:
        return "an upper bound, not ranked"
    return f"{speed.unranked}, not ranked" if speed and speed.unranked else ""


def curves_of(systems: Sequence[BoardSystem], results: Sequence[Result | None], headline: str) -> list[Curve]:
    """Return a curve for each encoder with several systems that differ only in how many terms they keep."""
    families: dict[str, list[tuple[int, int, Result]]] = {}
    for number, result in enumerate(results):
        if result is not None and result.vectors is not None and headline in result.means:
            k, rest = _top_k(result)
            families.setdefault(rest, []).append((k, number, result))
    curves = []
    for members in families.values():
        if sum(k > 0 for k, _, _ in members) >= _FEWEST:
            members.sort(key=lambda member: (member[0] or float("inf"), member[1]))
            points = tuple(_on_curve(k, number, result, headline) for k, number, result in members)
            name = _TOP_K.sub("", systems[members[0][1]].label)
            curves.append(Curve(name=name, points=points, baseline=_baseline(results, headline)))
    return sorted(curves, key=lambda curve: curve.name)


def _on_curve(k: int, number: int, result: Result, headline: str) -> PlotPoint:
    assert result.vectors is not None
    return PlotPoint(system=number, x=result.vectors.bytes_per_document, y=result.means[headline], k=k)


def _top_k(result: Result) -> tuple[int, str]:
    """Return how many terms a system keeps per document (0 for all), and the rest of its recipe as text."""
    settings = dict(result.recipe.get("settings", {}))
    transforms = list(settings.get("transforms", ()))
    cuts = [transform for transform in transforms if transform.get("plugin") == _PLUGIN]
    settings["transforms"] = [transform for transform in transforms if transform not in cuts]
    k = int(cuts[0]["settings"]["k"]) if cuts else 0
    return k, json.dumps([result.recipe.get("plugin"), settings], sort_keys=True)


def _baseline(results: Sequence[Result | None], headline: str) -> float | None:
    return next((result.means[headline] for result in results if result and result.system == "bm25"), None)
