"""Published scores beside ours: which systems, from which source, and which of them to show."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lexbench import catalog
from lexbench.analysis import aggregates
from lexbench.analysis.verify.published import PublishedScore, published_scores, system_of
from lexbench.catalog import Model
from lexbench.contracts import contract_of
from lexbench.report.grid import SEEN, Column, Grid, Row, Value, score_names
from lexbench.report.leaderboard.board import UNKNOWN_FAMILY
from lexbench.results import EXPOSURES
from lexbench.runner.exposure import UNKNOWN, exposure_of_entry
from lexbench.suites import Aggregate, Suite
from lexbench.table import number

_FEW = 10  # rows


class PublishedSystem(NamedTuple):
    """A system with published scores. It is shown beside ours, but never ranked or tested."""

    label: str
    family: str
    source: str
    scores: dict[str, float]  # of the headline on every dataset of the suite
    seen: str  # the mark of what it saw in training
    origin: str  # facts about the source

    @property
    def name(self) -> str:
        """Its name with its source."""
        return f"{self.label} ({self.source})"


class Published(NamedTuple):
    """All published scores, and the models of the catalogue."""

    scores: list[PublishedScore]
    models: dict[str, Model]  # by their expression in published scores


def read_published() -> Published:
    """Read the catalogue and the files of published scores."""
    models = {system_of(model): model for model in catalog.listing().values() if isinstance(model, Model)}
    return Published(published_scores(), models)


def published_systems(published: Published, suite: Suite, datasets: Sequence[str]) -> list[PublishedSystem]:
    """Return the published systems with a headline score on one of *datasets*, those with most scores first.

    A system is listed once, with the source that has most of its scores; systems with identical scores also count as one.
    Scores made under other rules are left out.
    """
    by_source: dict[str, dict[str, dict[str, PublishedScore]]] = {}
    for score in published.scores:
        if score.measure == suite.headline and score.dataset in suite.datasets and not score.differs:
            sources = by_source.setdefault(score.system or score.called, {})
            sources.setdefault(score.source.name, {}).setdefault(score.dataset, score)
    rows = [_system(published.models.get(name), max(of.values(), key=len), datasets) for name, of in by_source.items()]
    rows = [row for row in rows if row.scores.keys() & set(datasets)]
    rows.sort(key=lambda row: (*_standing(row, datasets), row.label))
    unique: dict[object, PublishedSystem] = {}
    for row in rows:
        unique.setdefault(tuple((name, row.scores.get(name)) for name in datasets), row)
    return list(unique.values())


def _system(model: Model | None, scores: Mapping[str, PublishedScore], datasets: Sequence[str]) -> PublishedSystem:
    first = next(iter(scores.values()))
    shown = [name for name in datasets if name in scores]
    seen = [exposure_of_entry(model, contract_of(name)).status if model else UNKNOWN for name in shown]
    return PublishedSystem(
        label=model.name if model else first.called,
        family=model.family if model else UNKNOWN_FAMILY,
        source=first.source.name,
        scores={name: score.value for name, score in scores.items()},
        seen=SEEN[max(seen, key=EXPOSURES.index)] if seen else "",
        origin=f"{first.source.name}: {first.source.origin}. {first.source.protocol}",
    )


def _standing(row: PublishedSystem, datasets: Sequence[str]) -> tuple[int, float]:
    scores = [row.scores[name] for name in datasets if name in row.scores]
    return -len(scores), -sum(scores)


def best_of_families(rows: Iterable[PublishedSystem]) -> list[PublishedSystem]:
    """Return the first of each family of the catalogue; systems without a family are left out."""
    best: dict[str, PublishedSystem] = {}
    for row in rows:
        if row.family != UNKNOWN_FAMILY:
            best.setdefault(row.family, row)
    return list(best.values())


def published_grid(
    rows: Sequence[PublishedSystem], datasets: Sequence[str], headline: str, means: Sequence[Aggregate], how: str
) -> Grid | None:
    """Return the table of published scores: *how* is none, few (ten at most, the best of each family) or all."""
    shown = {"none": [], "few": (best_of_families(rows) or list(rows))[:_FEW], "all": list(rows)}[how]
    columns = [Column(name, keep=70) for name in score_names(datasets, headline)] + [Column(mean.id, keep=90) for mean in means]
    found = []
    for row in shown:
        values = [Value(number(row.scores.get(name)), row.scores.get(name)) for name in datasets]
        for mean in means:
            value = aggregates.mean(mean, row.scores)
            values.append(Value(str(value), value.value))
        found.append(Row(row.name, (*values, Value(row.family), Value(row.seen)), ranked=False, published=True))
    grid = Grid("", (*columns, Column("family", keep=10), Column("zero-shot", keep=40)), tuple(found))
    return grid.only(found) if found else None
