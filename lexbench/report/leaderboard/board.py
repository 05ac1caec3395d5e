"""What a leaderboard shows, worked out once: the Markdown and the page are written from it, and show the same numbers.

A section is a suite; its systems are ours in order, best first, then those whose scores others published. A cell is one system
on one dataset. All of it is a function of the result files, the suites and the catalogue.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from lexbench import registry
from lexbench.plugins import Plugin
from lexbench.results import Result

UNKNOWN_FAMILY = "other"  # of a system that neither its plug-in nor the catalogue says it of
SCALE = 10_000  # scores of queries are whole numbers of this part: four digits


class CellSpeed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How fast a system answers on one dataset, from its query's text to its documents."""

    name: str  # "e2e QPS, single-stream-1t, k=1000, exact": scenario, stage, depth and exactness
    group: str  # what may be ranked together within one fingerprint: without exactness, with the number of candidates
    qps: float
    p50: float | None = None  # seconds
    p95: float | None = None
    p99: float | None = None
    fingerprint: str
    machine: str
    unranked: str = ""  # why it is in no ranking: "noisy timing"
    flags: tuple[str, ...] = ()
    range: tuple[float, float] | None = None  # of the rate, over fresh processes


class Cell(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One system on one dataset."""

    means: dict[str, float]
    deviations: dict[str, float] = {}  # of systems of several seeds: standard deviation of the seeds' means
    marks: dict[str, int] = {}  # measure -> 1 where it is the best, 2 where the second
    interval: tuple[float, float] | None = None  # of the headline's mean, 95 %
    letters: str = ""  # of its tie groups
    better: int = 0  # systems that it is significantly better than
    others: int = 0  # that it was compared with
    scores: tuple[int, ...] = ()  # of the headline, in the order of the dataset's queries
    index: int | None = None  # bytes
    bytes_per_document: float | None = None  # of the index
    model: int | None = None  # bytes of its files of weights
    built: float | None = None  # seconds of encoding and indexing
    speed: CellSpeed | None = None  # at the greatest k
    speeds: tuple[CellSpeed, ...] = ()  # at each other k
    found: float | None = None  # of approximate search: the share of exact search's best ten
    where: str = ""  # of a published one: the table that it is from
    exposure: str = "unknown"  # what the system had seen of the dataset in training, one of `results.EXPOSURES`
    because: tuple[str, ...] = ()  # the evidence for it


class BoardMean(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An aggregate of one system: 0.4812, or 2/12."""

    text: str
    value: float | None = None
    mark: int = 0
    interval: tuple[float, float] | None = None


class BoardSystem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One row."""

    label: str
    notation: str = ""  # what the label is a name for
    seeds: tuple[str, ...] = ()  # the trainings that it is the mean of
    who: tuple[str, ...] = ()  # ran it, where results of several people are merged
    family: str
    means: tuple[BoardMean, ...] = ()  # in the order of the section's aggregates
    bound: bool = False  # an oracle: shown, never ranked
    source: str = ""  # who published its scores; "" for ours
    index: int | None = None  # bytes, of all datasets of the section; None unless it has them all
    bytes_per_document: float | None = None  # over all of them
    model: int | None = None  # bytes of its files of weights
    built: float | None = None  # seconds of encoding and indexing all of them


class PlotPoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One system in a plot."""

    system: int  # its place in the section
    x: float
    y: float
    x_range: tuple[float, float] | None = None  # of a rate, over fresh processes
    y_range: tuple[float, float] | None = None  # 95 % interval of a mean over queries
    frontier: bool = False
    open: bool = False  # not on the frontier, and not told apart from any system that beats it on both axes
    aside: str = ""  # why it takes no part in the frontier
    k: int = 0  # terms kept of a document; 0 for all


class Plot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Effectiveness over a cost or over speed, or what approximate search finds over speed."""

    title: str
    x: str
    y: str
    lower_is_better: bool
    points: tuple[PlotPoint, ...]
    anchors: tuple[int, ...] = ()  # published systems, by their places: levels to hold the points against, the highest first


class Curve(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Effectiveness over the size of vectors, of which fewer and fewer terms are kept."""

    name: str
    points: tuple[PlotPoint, ...]
    baseline: float | None = None  # what bm25 has


class Panel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One dataset of a section."""

    id: str
    stamp: str
    headline: str
    measures: tuple[str, ...]
    cells: tuple[Cell | None, ...]  # in the order of the section's systems
    queries: tuple[str, ...]
    texts: tuple[str, ...] | None = None  # of the queries, where they may be passed on
    compared: tuple[int, ...]  # systems that were tested against each other
    p: tuple[tuple[float, ...], ...]  # of each with those after it, corrected by Holm over all pairs
    ranges: tuple[tuple[tuple[float, float], ...], ...]  # 95 % intervals of the same differences, earlier less later
    detectable: float | None = None  # the least difference that would be found four times in five, at Holm's first step
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
    published: tuple[str, ...]  # the sources of published scores, with what is known of each
    ran: tuple[str, ...] = ()  # who ran what where, of merged results


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """A whole leaderboard."""

    suites: tuple[Section, ...]
    scale: int = SCALE


def ranks(scores: Mapping[str, float | None], bounds: Iterable[str] = ()) -> dict[str, int]:
    """Return 1 for the best of *scores* and 2 for the second; what prints alike ranks alike, and one alone is not ranked.

    Systems among *bounds* are no results and take no part.
    """
    excluded = set(bounds)
    printed = {name: f"{score:.4f}" for name, score in scores.items() if score is not None and name not in excluded}
    if len(scores) < 2:  # noqa: PLR2004 - nothing to be better than
        return {}
    rank = {text: rank for rank, text in enumerate(sorted(set(printed.values()), key=float, reverse=True)[:2], start=1)}
    return {name: rank[text] for name, text in printed.items() if text in rank}


def family(result: Result) -> str:
    """Return what kind of system a result is of, in the catalogue's words; "other" for a plug-in that does not say."""
    return _family(result.recipe)


def _family(recipe: Mapping[str, Any]) -> str:
    """Return the family of the system that *recipe* describes; where its plug-in leaves that to its part, the part's."""
    settings = recipe.get("settings", {})
    encoder = settings.get("encoder")
    plugin = registry.find(str((encoder if isinstance(encoder, dict) else recipe).get("plugin", "")))
    said = (plugin or Plugin).family
    return said or _family(settings["members"][0])


def machine_line(facts: Mapping[str, object]) -> str:
    """Return processor, system, cores and Python of a machine, as far as they are known."""
    names = [str(facts[name]) for name in ("processor", "cpu", "system") if facts.get(name)]
    cores = [f"{facts['cores']} cores"] if facts.get("cores") else []
    python = [f"Python {facts['python']}"] if facts.get("python") else []
    return ", ".join([*names, *cores, *python]) or "unknown machine"


def complete(values: Sequence[float | None]) -> list[float] | None:
    """Return *values* if none is missing, else None."""
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None
