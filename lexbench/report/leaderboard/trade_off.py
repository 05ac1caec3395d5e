"""Effectiveness against cost: which systems no other beats on both, and how effectiveness falls with fewer terms."""

import json
import re
from collections.abc import Mapping, Sequence

from lexbench.report.leaderboard.board import BoardSystem, Cell, Curve, Plot, PlotPoint
from lexbench.results import Result

_TOP_K = re.compile(r"\|top_k\([^)]*\)")
_PLUGIN = "transforms/top_k"
_FEWEST = 2  # points of a plot


def frontier(points: Sequence[tuple[float, float]], *, lower_is_better: bool) -> set[int]:
    """Return which of *points* (cost or speed, effectiveness) are not dominated.

    One dominates another if it is at least as good on both axes and better on one; equal points are both on the frontier.
    """
    sign = -1 if lower_is_better else 1
    goods = [(sign * x, y) for x, y in points]
    return {
        number
        for number, (x, y) in enumerate(goods)
        if not any(other_x >= x and other_y >= y and (other_x, other_y) != (x, y) for other_x, other_y in goods)
    }


def plots_of(systems: Sequence[BoardSystem], cells: Sequence[Cell | None], headline: str) -> list[Plot]:
    """Return the plots of one dataset: over index bytes a document, then over speed, one for each machine and scenario."""
    scored = {n: cell for n, cell in enumerate(cells) if cell and headline in cell.means and not systems[n].source}
    sizes = {n: cell.bytes_per_document for n, cell in scored.items() if cell.bytes_per_document}
    plots = [_plot("Index size", "bytes a document in the index (log)", sizes, systems, scored, headline, lower=True)]
    speeds = {n: cell.speed for n, cell in scored.items() if cell.speed}
    for fingerprint, group in sorted({(speed.fingerprint, speed.group) for speed in speeds.values()}):
        alike = {n: speed for n, speed in speeds.items() if (speed.fingerprint, speed.group) == (fingerprint, group)}
        title = f"Speed on {next(iter(alike.values())).machine} ({fingerprint})"
        rates = {n: speed.qps for n, speed in alike.items()}
        plots.append(_plot(title, f"{group} (log)", rates, systems, scored, headline, lower=False))
    return [plot for plot in plots if len(plot.points) >= _FEWEST]


def _plot(
    title: str,
    x: str,
    values: Mapping[int, float],
    systems: Sequence[BoardSystem],
    cells: Mapping[int, Cell],
    headline: str,
    *,
    lower: bool,
) -> Plot:
    aside = {number: _aside(systems[number], cells[number], speed=not lower) for number in values}
    ranked = [number for number in values if not aside[number]]
    best = frontier([(values[number], cells[number].means[headline]) for number in ranked], lower_is_better=lower)
    on_frontier = {ranked[place] for place in best}
    points = tuple(
        PlotPoint(system=number, x=value, y=cells[number].means[headline], frontier=number in on_frontier, aside=aside[number])
        for number, value in values.items()
    )
    return Plot(title=title, x=x, lower_is_better=lower, points=points)


def _aside(system: BoardSystem, cell: Cell, *, speed: bool) -> str:
    if system.bound:
        return "an upper bound, not ranked"
    return "noisy timing, not ranked" if speed and cell.speed and cell.speed.noisy else ""


def curves_of(systems: Sequence[BoardSystem], results: Sequence[Result | None], headline: str) -> list[Curve]:
    """Return a curve for each encoder of which several systems differ in nothing but how many terms they keep."""
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
    """Return how many terms a system keeps of a document, 0 for all, and the rest of its recipe as text."""
    settings = dict(result.recipe.get("settings", {}))
    transforms = list(settings.get("transforms", ()))
    cuts = [transform for transform in transforms if transform.get("plugin") == _PLUGIN]
    settings["transforms"] = [transform for transform in transforms if transform not in cuts]
    k = int(cuts[0]["settings"]["k"]) if cuts else 0
    return k, json.dumps([result.recipe.get("plugin"), settings], sort_keys=True)


def _baseline(results: Sequence[Result | None], headline: str) -> float | None:
    return next((result.means[headline] for result in results if result and result.system == "bm25"), None)
