"""Scores that others published, as rows beside ours: marked, never ranked, each with its source."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from lexbench import catalog
from lexbench.analysis.verify.published import PublishedScore, published_scores, system_of
from lexbench.catalog import Model
from lexbench.report.board import Cell, System
from lexbench.suites import Suite


class Row(NamedTuple):
    """One published system."""

    system: System
    cells: dict[str, Cell]  # by dataset
    scores: dict[str, float]  # its headline on every dataset of the suite
    origin: str  # what is known of the source


class Known(NamedTuple):
    """What has been published."""

    figures: list[PublishedScore]
    models: dict[str, Model]  # by what figures call them


def read() -> Known:
    """Read the catalogue and the files of published figures."""
    models = {system_of(model): model for model in catalog.listing().values() if isinstance(model, Model)}
    return Known(published_scores(), models)


def rows(known: Known, suite: Suite, datasets: Sequence[str]) -> list[Row]:
    """Return the published systems that have a figure of the headline for one of *datasets*, those with the most first.

    A system is there once, by the source that has most of it, and so is what has the very same scores under other names.
    PublishedScores that are known to be of another protocol are left out.
    """
    found = _by_system(one for one in known.figures if one.measure == suite.headline and one.dataset in suite.datasets)
    made = [row for row in _rows(found, known.models, suite.headline, datasets) if row.cells]
    made.sort(key=lambda row: _standing(row, suite.headline))
    return list({tuple(sorted(row.scores.items())): row for row in reversed(made)}.values())[::-1]


def _by_system(published: Iterable[PublishedScore]) -> dict[str, dict[str, PublishedScore]]:
    """Return the figures of each system by dataset: those of one source."""
    by_source: dict[str, dict[str, dict[str, PublishedScore]]] = {}
    for figure in published:
        if not figure.differs:
            sources = by_source.setdefault(figure.system or figure.called, {})
            sources.setdefault(figure.source.name, {}).setdefault(figure.dataset, figure)
    return {name: max(sources.values(), key=len) for name, sources in by_source.items()}


def _rows(
    found: dict[str, dict[str, PublishedScore]], models: dict[str, Model], headline: str, datasets: Sequence[str]
) -> Iterator[Row]:
    for name, by_dataset in found.items():
        first = next(iter(by_dataset.values()))
        model = models.get(name)
        system = System(
            label=model.name if model else first.called, family=model.family if model else "other", source=first.source.name
        )
        there = {dataset: by_dataset[dataset] for dataset in datasets if dataset in by_dataset}
        cells = {dataset: Cell(means={headline: figure.value}, where=figure.where) for dataset, figure in there.items()}
        scores = {dataset: figure.value for dataset, figure in by_dataset.items()}
        yield Row(system, cells, scores, f"{system.source}: {first.source.origin}. {first.source.protocol}")


def _standing(row: Row, headline: str) -> tuple[int, float, str]:
    scores = [cell.means[headline] for cell in row.cells.values()]
    return -len(scores), -sum(scores), row.system.label
