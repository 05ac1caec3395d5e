"""The data of a leaderboard, computed once: Markdown, LaTeX, CSV and the HTML page show the same texts from it.

A section is a suite. Its systems are in one order, best first, and grids, panels and plots refer to them by position.
Everything is a function of the result files, the suites and the catalogue.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from lexbench import registry
from lexbench.plugins import Plugin
from lexbench.report.change.facts import Change
from lexbench.report.grid import Grid
from lexbench.results import Note, Result, Results

UNKNOWN_FAMILY = "other"  # of a system whose family neither its plug-in nor the catalogue states
SCALE = 10_000  # scores of queries are stored as integers, times this: four digits
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666", "#999933")  # Okabe and Ito's, of lines
_AS_FAST = 1.25  # the most by which the rates of two equal systems differ
_LOCAL = re.compile(r'"(?:[A-Za-z]:[\\/]|/)[^"]*?([^"/\\]+)[/\\]*"')  # an absolute path in quotes


class BoardSystem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One of our systems."""

    label: str
    expression: str = msgspec.field(default="", name="notation")  # that the label stands for
    seeds: tuple[str, ...] = ()  # the trainings whose mean it is
    who: tuple[str, ...] = ()  # who ran it, in merged results
    family: str
    aside: str = ""  # why it is shown, but never ranked: it is an upper bound, or was not measured
    base: int | None = None  # the system whose row it shares: the same with more terms, or one with the same figures
    k: int = 0  # terms kept per document; 0 for all


class PlotPoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One system in a plot."""

    system: int  # its position in the section
    x: float
    y: float
    x_range: tuple[float, float] | None = None  # of a rate, over fresh processes
    y_range: tuple[float, float] | None = None  # 95 % interval of a mean over queries
    frontier: bool = False
    aside: str = ""  # why it is not ranked


class Plot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Effectiveness over a cost or speed, or recall of exact over speed."""

    title: str
    x: str
    y: str
    lower_is_better: bool
    points: tuple[PlotPoint, ...]
    name: str  # "index", "speed.FINGERPRINT.DEPTH" or "recall.FINGERPRINT.DEPTH"
    levels: tuple[tuple[str, float], ...] = ()  # published systems and their scores, the highest first


class Panel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One dataset of a section."""

    id: str
    stamp: str
    headline: str
    details: Grid  # all measures
    means: tuple[float | None, ...]  # of the headline, in the order of the section's systems
    scores: tuple[tuple[int, ...], ...]  # of the headline per compared system and query, times SCALE
    queries: tuple[str, ...]
    texts: tuple[str, ...] | None = None  # of the queries, if they may be published
    compared: tuple[int, ...]  # positions of the systems that were tested against each other
    p: tuple[tuple[float, ...], ...]  # per compared system with those after it, corrected by Holm over all pairs
    floor: float = 0.0  # the smallest p that the resamples can show
    ranges: tuple[tuple[tuple[float, float], ...], ...]  # 95 % intervals of the same differences, earlier minus later
    plots: tuple[Plot, ...] = ()
    digests: dict[str, tuple[str, ...]] = {}
    notes: tuple[Note, ...] = ()

    def p_of(self, one: int, other: int) -> float:
        """Return the p of two compared systems, by position."""
        first, second = sorted((self.compared.index(one), self.compared.index(other)))
        return max(self.p[first][second - first - 1], self.floor)


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One suite."""

    id: str
    name: str
    description: str
    headline: str
    systems: tuple[BoardSystem, ...]
    summary: Grid  # all systems; those with a base are variants
    top_k: Grid | None
    published: Grid | None
    datasets: tuple[Panel, ...]
    better: tuple[tuple[int, int], ...]  # positions of systems: the first is significantly better over the datasets
    notes: tuple[str, ...]  # by kind, at most six
    names: tuple[str, ...]  # what names stand for
    command: str
    made: tuple[str, ...]
    sources: tuple[str, ...]  # of published scores, with facts about each
    ran: tuple[str, ...] = ()  # who ran what where, in merged results
    change: Change | None = None  # from a baseline to the best system; None if there are no two to compare


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """A whole leaderboard."""

    suites: tuple[Section, ...]
    scale: int = SCALE


def family(recipe: Mapping[str, Any]) -> str:
    """Return the family of the system with this *recipe*, in the catalogue's words.

    It is the family of its encoder, or else of its retriever. A retriever without a family has that of its first member. The
    family is "other" if the plug-in does not state it or is not installed.
    """
    settings = recipe.get("settings", {})
    encoder = settings.get("encoder")
    plugin = registry.find(str((encoder if isinstance(encoder, dict) else recipe).get("plugin", "")))
    return (plugin or Plugin).family or family(settings["members"][0])


def top_k_of(result: Result) -> tuple[int, str]:
    """Return how many terms a system keeps per document (0 for all), and the rest of its recipe as text."""
    settings = dict(result.recipe.get("settings", {}))
    transforms = list(settings.get("transforms", ()))
    cuts = [transform for transform in transforms if transform.get("plugin") == "transforms/top_k"]
    settings["transforms"] = [transform for transform in transforms if transform not in cuts]
    k = int(cuts[0]["settings"]["k"]) if cuts else 0
    return k, json.dumps([result.recipe.get("plugin"), settings], sort_keys=True)


def systems_of(results: Results) -> tuple[BoardSystem, ...]:
    """Return the systems. A system that keeps fewer terms than another, or has the same figures, has that one as its base."""
    names = results.systems
    rows = [[*results.row(name).values()] for name in names]
    firsts = [row[0] for row in rows]
    kept = [top_k_of(result) for result in firsts]
    widest: dict[str, int] = {}
    for at in sorted(range(len(names)), key=lambda at: -(kept[at][0] or float("inf"))):
        if kept[at][0] or firsts[at].recipe.get("settings"):
            widest.setdefault(kept[at][1], at)
    figures: dict[object, list[int]] = {}
    systems = []
    people = {name: [entry.person for entry in results.entries if entry.result.system == name] for name in names}
    for at, (name, row, first) in enumerate(zip(names, rows, firsts, strict=True)):
        base = widest.get(kept[at][1], at)
        alike = figures.setdefault(_all_figures(row), [])
        same = next((other for other in alike if _are_as_fast(rows[other], row)), at)
        alike.append(at)
        systems.append(
            BoardSystem(
                label=name,
                expression=shareable(first.expression),
                seeds=tuple(next((one.seeds.systems for one in row if one.seeds), ())),
                who=tuple(dict.fromkeys(filter(None, people[name]))),
                family=family(first.recipe),
                aside=next((result.aside for result in row if result.aside), ""),
                base=base if base != at and kept[at][0] else same if same != at else None,
                k=kept[at][0],
            )
        )
    return tuple(systems)


def _all_figures(row: Sequence[Result]) -> object:
    """Return the values of all queries, the bytes of index and model, and the exposure.

    Systems that agree in these, and in speed, share a row.
    """
    facts = sorted(
        (one.dataset, sorted(one.sizes.items()), sorted(one.per_query.items()), one.aside, repr(one.exposure)) for one in row
    )
    return repr(facts) if all("index" in one.sizes for one in row) else object()


def _are_as_fast(one: Sequence[Result], other: Sequence[Result]) -> bool:
    """Return whether no timing of two systems, of one dataset, scenario and machine, differs by more than processes do."""
    rates = [
        {
            (result.dataset, timing.scenario, timing.k, timing.fingerprint): (timing.qps["e2e"], timing.unranked)
            for result in row
            for timing in result.timings
        }
        for row in (one, other)
    ]
    both = [(rates[0][key], rates[1][key]) for key in rates[0].keys() & rates[1].keys()]
    return all(first[1] == second[1] and 1 / _AS_FAST < first[0] / second[0] < _AS_FAST for first, second in both)


def shareable(expression: str) -> str:
    """Return an expression with each absolute path cut to its last part, because other machines do not have the rest."""
    return _LOCAL.sub(r'"\1"', expression)


def machine_line(facts: Mapping[str, object]) -> str:
    """Return the known facts of a machine: processor, system, cores and Python."""
    names = [str(facts[name]) for name in ("processor", "cpu", "system") if facts.get(name)]
    cores = [f"{facts['cores']} core{'' if facts['cores'] == 1 else 's'}"] if facts.get("cores") else []
    python = [f"Python {facts['python']}"] if facts.get("python") else []
    return ", ".join([*names, *cores, *python]) or "unknown machine"
