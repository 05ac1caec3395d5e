"""The data of a leaderboard, computed once: the Markdown and the HTML page show the same numbers from it.

A section is a suite. Its systems are ours, best first, then published ones. A cell is one system on one dataset. Everything is
a function of the result files, the suites and the catalogue.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from lexbench import registry
from lexbench.plugins import Plugin

UNKNOWN_FAMILY = "other"  # of a system whose family neither its plug-in nor the catalogue states
SCALE = 10_000  # scores of queries are stored as integers, times this: four digits


class CellSpeed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The speed of a system on one dataset, from the text of a query to its documents."""

    name: str  # "e2e QPS, single-stream-1t, k=1000, exact": scenario, stage, depth and exactness
    group: str  # speeds of one group and fingerprint are ranked together; candidates count, exactness does not
    qps: float
    p50: float | None = None  # seconds
    p95: float | None = None
    p99: float | None = None
    fingerprint: str
    machine: str
    unranked: str = ""  # why it is not ranked, e.g. "noisy timing"
    flags: tuple[str, ...] = ()
    range: tuple[float, float] | None = None  # of the QPS, over fresh processes


class Cell(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One system on one dataset."""

    means: dict[str, float]
    deviations: dict[str, float] = {}  # standard deviation of the seeds' means, for systems of several seeds
    marks: dict[str, int] = {}  # by measure: 1 for the best, 2 for the second
    interval: tuple[float, float] | None = None  # 95 %, of the headline's mean
    letters: str = ""  # of its tie groups
    better: int = 0  # how many systems it is significantly better than
    others: int = 0  # how many systems it was compared with
    scores: tuple[int, ...] = ()  # of the headline per query, times SCALE
    index: int | None = None  # bytes
    bytes_per_document: float | None = None  # of the index
    model: int | None = None  # bytes of its weights
    built: float | None = None  # seconds of encoding and indexing
    speed: CellSpeed | None = None  # at the largest k
    speeds: tuple[CellSpeed, ...] = ()  # at each other k
    found: float | None = None  # recall of exact @10, of approximate search
    where: str = ""  # for a published score: the table that it is from
    exposure: str = "unknown"  # one of `results.EXPOSURES`
    because: tuple[str, ...] = ()  # the evidence for it


class BoardMean(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A mean over datasets of one system, e.g. 0.4812, or 2/12 if members are missing."""

    text: str
    value: float | None = None
    mark: int = 0
    interval: tuple[float, float] | None = None


class BoardSystem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row of a section."""

    label: str
    notation: str = ""  # the expression that the label stands for
    seeds: tuple[str, ...] = ()  # the trainings whose mean it is
    who: tuple[str, ...] = ()  # who ran it, in merged results
    family: str
    means: tuple[BoardMean, ...] = ()  # in the order of the section's aggregates
    bound: bool = False  # an upper bound: shown, never ranked
    source: str = ""  # who published its scores; "" for ours
    index: int | None = None  # bytes over all datasets of the section; None unless it has all
    bytes_per_document: float | None = None  # over all of them
    model: int | None = None  # bytes of its files of weights
    built: float | None = None  # seconds of encoding and indexing all of them


class PlotPoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One system in a plot."""

    system: int  # its position in the section
    x: float
    y: float
    x_range: tuple[float, float] | None = None  # of a rate, over fresh processes
    y_range: tuple[float, float] | None = None  # 95 % interval of a mean over queries
    frontier: bool = False
    open: bool = False  # off the frontier, but no system that beats it on both axes is significantly better
    aside: str = ""  # why it is not ranked
    k: int = 0  # terms kept per document; 0 for all


class Plot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Effectiveness over a cost or speed, or recall of exact over speed."""

    title: str
    x: str
    y: str
    lower_is_better: bool
    points: tuple[PlotPoint, ...]
    anchors: tuple[int, ...] = ()  # positions of published systems to draw as levels, the highest first


class Curve(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Effectiveness over the size of vectors as fewer terms are kept."""

    name: str
    points: tuple[PlotPoint, ...]
    baseline: float | None = None  # the score of bm25


class Panel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One dataset of a section."""

    id: str
    stamp: str
    headline: str
    measures: tuple[str, ...]
    cells: tuple[Cell | None, ...]  # in the order of the section's systems
    queries: tuple[str, ...]
    texts: tuple[str, ...] | None = None  # of the queries, if they may be published
    compared: tuple[int, ...]  # positions of the systems that were tested against each other
    p: tuple[tuple[float, ...], ...]  # per system with those after it, corrected by Holm over all pairs
    ranges: tuple[tuple[tuple[float, float], ...], ...]  # 95 % intervals of the same differences, earlier minus later
    detectable: float | None = None  # the smallest difference that tests find with power .8, at Holm's first step
    resamples: int = 0  # of the tests
    plots: tuple[Plot, ...] = ()
    curves: tuple[Curve, ...] = ()
    timed: bool = False
    digests: dict[str, tuple[str, ...]] = {}
    notes: tuple[str, ...] = ()


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """One suite."""

    id: str
    name: str
    description: str
    headline: str
    aggregates: tuple[str, ...]
    systems: tuple[BoardSystem, ...]
    datasets: tuple[Panel, ...]
    command: str
    made: tuple[str, ...]
    published: tuple[str, ...]  # the sources of published scores, with facts about each
    ran: tuple[str, ...] = ()  # who ran what where, in merged results


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """A whole leaderboard."""

    suites: tuple[Section, ...]
    scale: int = SCALE


def ranks(scores: Mapping[str, float | None], bounds: Iterable[str] = ()) -> dict[str, int]:
    """Return 1 for the best of *scores* and 2 for the second. Scores that print alike rank alike; a single one is not ranked.

    Systems among *bounds* are upper bounds and do not count.
    """
    excluded = set(bounds)
    printed = {name: f"{score:.4f}" for name, score in scores.items() if score is not None and name not in excluded}
    if len(scores) < 2:  # noqa: PLR2004 - nothing to be better than
        return {}
    rank = {text: rank for rank, text in enumerate(sorted(set(printed.values()), key=float, reverse=True)[:2], start=1)}
    return {name: rank[text] for name, text in printed.items() if text in rank}


def family(recipe: Mapping[str, Any]) -> str:
    """Return the family of the system with this *recipe*, in the catalogue's words.

    That is the family of its encoder or else its retriever; if the plug-in leaves it open, of its first member. "other" if the
    plug-in does not state it, or is not installed.
    """
    settings = recipe.get("settings", {})
    encoder = settings.get("encoder")
    plugin = registry.find(str((encoder if isinstance(encoder, dict) else recipe).get("plugin", "")))
    said = (plugin or Plugin).family
    return said or family(settings["members"][0])


def machine_line(facts: Mapping[str, object]) -> str:
    """Return the known facts of a machine: processor, system, cores and Python."""
    names = [str(facts[name]) for name in ("processor", "cpu", "system") if facts.get(name)]
    cores = [f"{facts['cores']} cores"] if facts.get("cores") else []
    python = [f"Python {facts['python']}"] if facts.get("python") else []
    return ", ".join([*names, *cores, *python]) or "unknown machine"


def complete(values: Sequence[float | None]) -> list[float] | None:
    """Return *values*, or None if one is missing."""
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None
