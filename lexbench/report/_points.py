"""Which points a figure has: systems with an effectiveness, a speed or a size; their families, and their frontier."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lexbench.report.trade_off import frontier
from lexbench.results import BOUND, Result

_VARIANT = re.compile(r"\|top_k\(\s*(?:k\s*=\s*)?(\d+)[^)]*\)")  # the step that makes a top-K variant of a system
_LONGEST = 36  # characters of a name that have room beside a point


class Point(NamedTuple):
    """One system in a figure."""

    x: float
    y: float
    label: str
    family: str  # systems that differ in top-K alone are one
    top: float  # the K of top-K, infinite for all terms


def headline(results: Sequence[Result]) -> str:
    """Return the measure that most of *results* have; of several the one that stands first in the first result."""
    named = [measure for result in results for measure in result.means]
    return max(dict.fromkeys(named), key=named.count)  # max keeps the first of equals


def speed_points(results: Iterable[Result], measure: str) -> dict[tuple[str, str], list[Point]]:
    """Return the points of each figure of speed, by machine fingerprint and the label of the axis.

    The label is the whole name of the speed, with scenario, threads and k, so no two kinds of speed are in one figure. What
    was measured while something else ran ("noisy") is left out, and so are upper bounds.
    """
    found: dict[tuple[str, str], list[Point]] = {}
    for result in _scored(results, measure):
        for timing in result.timings:
            if timing.scenario.startswith("single-stream") and "e2e" in timing.qps and "noisy" not in timing.flags:
                label = f"e2e QPS, {timing.scenario}, k={timing.k} (query encoding counts)"
                point = _point(timing.qps["e2e"], result, measure)
                kind = point if timing.exact else point._replace(label=f"{point.label} (approximate)")
                found.setdefault((timing.fingerprint, label), []).append(kind)
    return found


def index_points(results: Iterable[Result], measure: str) -> list[Point]:
    """Return the points of the figure of index bytes a document, of systems that have an index and know how many documents."""
    return [
        _point(result.sizes["index"] / result.counts.documents, result, measure)
        for result in _scored(results, measure)
        if result.sizes.get("index") and result.counts.documents
    ]


def named(points: Iterable[Point]) -> list[Point]:
    """Return *points* with names that tell them apart: in a family only one has the whole name, the others have their top-K."""
    found = []
    for members in families(points).values():
        found += [one._replace(label=one.label.rpartition(", ")[2]) for one in members[:-1]] + members[-1:]
    return found


def families(points: Iterable[Point]) -> dict[str, list[Point]]:
    """Return the points by family, each from the smallest top-K to the largest."""
    found: dict[str, list[Point]] = {}
    for point in sorted(points, key=lambda one: (one.top, one)):
        found.setdefault(point.family, []).append(point)
    return {family: found[family] for family in sorted(found)}


def best(points: Sequence[Point], *, smaller: bool) -> list[Point]:
    """Return the points of the frontier, by x ascending; *smaller* says which side of x is the better one."""
    ahead = frontier([(one.x, one.y) for one in points], lower_is_better=smaller)
    return sorted(points[number] for number in ahead)


def _scored(results: Iterable[Result], measure: str) -> list[Result]:
    return [one for one in results if measure in one.means and not any(note.startswith(BOUND) for note in one.notes)]


def written(name: str, most: int = _LONGEST) -> str:
    """Return *name* as it can stand in a figure: of a long one the beginning, and blanks for what is no visible character."""
    visible = "".join(one if one.isprintable() else " " for one in name)
    return visible if len(visible) <= most else f"{visible[: most - 1]}…"


def _point(x: float, result: Result, measure: str) -> Point:
    top = _VARIANT.search(result.system)
    family = _VARIANT.sub("", result.system)
    name = written(family)
    label, kept = (f"{name}, top {top[1]}", float(top[1])) if top else (name, float("inf"))
    return Point(x, result.means[measure], label, family, kept)
