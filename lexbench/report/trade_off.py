"""Effectiveness against cost: which systems no other beats on both, and how effectiveness falls with fewer terms."""

import json
import re
from collections.abc import Mapping, Sequence

from lexbench.report.board import Cell, Curve, Plot, Point, System
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
        if not any(one >= x and other >= y and (one, other) != (x, y) for one, other in goods)
    }


def plots(systems: Sequence[System], cells: Sequence[Cell | None], headline: str) -> list[Plot]:
    """Return the plots of one dataset: over index bytes a document, then over speed, one for each machine and scenario."""
    found = {n: cell for n, cell in enumerate(cells) if cell and headline in cell.means and not systems[n].source}
    sizes = {n: cell.bytes_per_document for n, cell in found.items() if cell.bytes_per_document}
    made = [_plot("Index size", "bytes a document in the index (log)", sizes, systems, found, headline, lower=True)]
    speeds = {n: cell.speed for n, cell in found.items() if cell.speed}
    for machine, group in sorted({(speed.fingerprint, speed.group) for speed in speeds.values()}):
        own = {n: speed for n, speed in speeds.items() if (speed.fingerprint, speed.group) == (machine, group)}
        title = f"Speed on {next(iter(own.values())).machine} ({machine})"
        rates = {n: speed.qps for n, speed in own.items()}
        made.append(_plot(title, f"{group} (log)", rates, systems, found, headline, lower=False))
    return [plot for plot in made if len(plot.points) >= _FEWEST]


def _plot(
    title: str,
    x: str,
    values: Mapping[int, float],
    systems: Sequence[System],
    cells: Mapping[int, Cell],
    headline: str,
    *,
    lower: bool,
) -> Plot:
    aside = {number: _aside(systems[number], cells[number], speed=not lower) for number in values}
    ranked = [number for number in values if not aside[number]]
    ahead = frontier([(values[number], cells[number].means[headline]) for number in ranked], lower_is_better=lower)
    on = {ranked[place] for place in ahead}
    points = tuple(
        Point(system=number, x=value, y=cells[number].means[headline], frontier=number in on, aside=aside[number])
        for number, value in values.items()
    )
    return Plot(title=title, x=x, lower_is_better=lower, points=points)


def _aside(system: System, cell: Cell, *, speed: bool) -> str:
    if system.bound:
        return "an upper bound, not ranked"
    return "noisy timing, not ranked" if speed and cell.speed and cell.speed.noisy else ""


def curves(systems: Sequence[System], results: Sequence[Result | None], headline: str) -> list[Curve]:
    """Return a curve for each encoder of which several systems differ in nothing but how many terms they keep."""
    families: dict[str, list[tuple[int, int, Result]]] = {}
    for number, result in enumerate(results):
        if result is not None and result.vectors is not None and headline in result.means:
            kept, rest = _kept(result)
            families.setdefault(rest, []).append((kept, number, result))
    made = []
    for members in families.values():
        if sum(kept > 0 for kept, _, _ in members) >= _FEWEST:
            members.sort(key=lambda member: (member[0] or float("inf"), member[1]))
            points = tuple(_on_curve(kept, number, result, headline) for kept, number, result in members)
            name = _TOP_K.sub("", systems[members[0][1]].label)
            made.append(Curve(name=name, points=points, baseline=_baseline(results, headline)))
    return sorted(made, key=lambda curve: curve.name)


def _on_curve(kept: int, number: int, result: Result, headline: str) -> Point:
    assert result.vectors is not None
    return Point(system=number, x=result.vectors.bytes_per_document, y=result.means[headline], k=kept)


def _kept(result: Result) -> tuple[int, str]:
    """Return how many terms a system keeps of a document, 0 for all, and what else it is."""
    settings = dict(result.recipe.get("settings", {}))
    transforms = list(settings.get("transforms", ()))
    cuts = [one for one in transforms if one.get("plugin") == _PLUGIN]
    settings["transforms"] = [one for one in transforms if one not in cuts]
    kept = int(cuts[0]["settings"]["k"]) if cuts else 0
    return kept, json.dumps([result.recipe.get("plugin"), settings], sort_keys=True)


def _baseline(results: Sequence[Result | None], headline: str) -> float | None:
    return next((result.means[headline] for result in results if result and result.system == "bm25"), None)
