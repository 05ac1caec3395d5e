"""Build a board from results: suites and systems in order, means over datasets, and published systems beside ours."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import quote
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from lexbench import catalog, suites
from lexbench.analysis import aggregates
from lexbench.analysis.significance import bootstrap
from lexbench.analysis.verify.published import PublishedScore, published_scores, system_of
from lexbench.catalog import Model
from lexbench.contracts import contract_of
from lexbench.errors import CommandError, visible
from lexbench.report.leaderboard.board import (
    UNKNOWN_FAMILY,
    Board,
    BoardMean,
    BoardSystem,
    Cell,
    Section,
    complete,
    family,
    machine_line,
    ranks,
)
from lexbench.report.leaderboard.panels import panel_of, seconds_to_build
from lexbench.report.leaderboard.trade_off import anchors_of
from lexbench.results import Exposure, Result
from lexbench.runner.exposure import UNKNOWN, exposure_of_entry
from lexbench.suites import Aggregate, Suite

ResultsBySystem: TypeAlias = dict[str, dict[str, Result]]  # system -> dataset -> result


def board(
    results: Mapping[str, ResultsBySystem],
    ran: Mapping[str, Mapping[str, tuple[str, ...]]] | None = None,
    lines: Mapping[str, tuple[str, ...]] | None = None,
) -> Board:
    """Return the board of *results*: suite id -> system -> dataset -> result.

    For merged results, *ran* has the people who ran each system of a suite, and *lines* who ran what where.
    """
    published = read_published()
    every = {suite: [result for of in systems.values() for result in of.values()] for suite, systems in results.items()}
    sections = [_section(suites.suite_of_results(suite, every[suite]), of, published) for suite, of in results.items()]
    if ran and lines:
        sections = [_with_people(section, ran[section.id], lines[section.id]) for section in sections]
    return Board(suites=tuple(sections))


def _with_people(section: Section, ran: Mapping[str, tuple[str, ...]], lines: tuple[str, ...]) -> Section:
    """Return the section with the people who ran each of our systems."""
    systems = tuple(
        system if system.source else msgspec.structs.replace(system, who=ran[system.label]) for system in section.systems
    )
    return msgspec.structs.replace(section, systems=systems, ran=lines)


def _section(suite: Suite, results: ResultsBySystem, published: "Published") -> Section:
    strays = {name for by_dataset in results.values() for name in by_dataset} - set(suite.datasets)
    if strays:
        raise CommandError(
            f"{min(strays)} is not a dataset of the suite {suite.id}; move its results to the folder of its suite"
        )
    datasets = [name for name in suite.datasets if any(name in by_dataset for by_dataset in results.values())]
    order = sorted(results, key=lambda name: (*_standing(results[name], datasets, suite.headline), name))
    order.sort(key=lambda name: _is_bound(results[name]))  # upper bounds come last
    ours = {name: results[name] for name in order}
    others = published_systems(published, suite, datasets)
    means = _means(suite, ours, [other.scores for other in others])
    bare = [*(_system(name, ours[name], datasets) for name in ours), *(other.system for other in others)]
    systems = [msgspec.structs.replace(system, means=mean) for system, mean in zip(bare, means, strict=True)]
    panels = [
        panel_of(
            suite.headline,
            name,
            systems,
            [by_dataset.get(name) for by_dataset in ours.values()],
            [other.cells.get(name) for other in others],
        )
        for name in datasets
    ]
    return Section(
        id=suite.id,
        name=suite.name,
        description=suite.description,
        headline=suite.headline,
        aggregates=tuple(aggregate.id for aggregate in _aggregates(suite)),
        systems=tuple(systems),
        datasets=tuple(panels),
        command=_command(suite, datasets, {name: next(iter(of.values())) for name, of in results.items()}),
        made=_provenance([result for by_dataset in results.values() for result in by_dataset.values()]),
        published=tuple(sorted({other.origin for other in others})),
    )


def _is_bound(by_dataset: Mapping[str, Result]) -> bool:
    return any(result.is_bound for result in by_dataset.values())


def _command(suite: Suite, datasets: Sequence[str], systems_run: Mapping[str, Result]) -> str:
    """Return the command that runs the systems again on *datasets*, given one result of each system."""
    seeds = {name: result.seeds.systems for name, result in systems_run.items() if result.seeds}
    named = {name: result.notation for name, result in systems_run.items() if name not in seeds}
    for members in seeds.values():
        named |= members
    typed = [f"{name} = {notation}" if notation else name for name, notation in named.items()]
    groups = [f"{name} = {', '.join(members)}" for name, members in seeds.items()]
    words = [f"-d {name}" for name in datasets] if len(datasets) < len(suite.datasets) else []
    words += [*(f"-r {_quoted(text)}" for text in typed), *(f"--seeds {_quoted(text)}" for text in groups)]
    if suite.id == suites.DATASETS:
        return "; ".join(f"lexbench run dataset {_quoted(name)} {' '.join(words)}" for name in datasets)
    return f"lexbench run suite {suite.id} {' '.join(words)}"


def _quoted(text: str) -> str:
    return quote(visible(" ".join(text.split())))


def _standing(by_dataset: Mapping[str, Result], datasets: Sequence[str], headline: str) -> tuple[int, float]:
    """Return the sort key of a system: how many datasets it has, then the sum of its headline scores."""
    means = [by_dataset[name].means for name in datasets if name in by_dataset]
    scores = [mean[headline] for mean in means if headline in mean]
    return -len(scores), -sum(scores)


def _aggregates(suite: Suite) -> list[Aggregate]:
    return [aggregate for aggregate in suite.aggregates if aggregate.measure == suite.headline]


def _system(name: str, by_dataset: Mapping[str, Result], datasets: Sequence[str]) -> BoardSystem:
    results = [by_dataset[dataset] for dataset in datasets if dataset in by_dataset]
    sizes = complete([result.sizes.get("index") for result in results]) if len(results) == len(datasets) else None
    documents = complete([result.counts.documents for result in results])
    built = complete([seconds_to_build(result) for result in results])
    return BoardSystem(
        label=name,
        notation=next((result.notation for result in results), ""),
        seeds=tuple(next((result.seeds.systems for result in results if result.seeds), ())),
        family=family(results[0].recipe) if results else UNKNOWN_FAMILY,
        bound=any(result.is_bound for result in results),
        index=int(sum(sizes)) if sizes else None,
        bytes_per_document=round(sum(sizes) / sum(documents), 1) if sizes and documents and sum(documents) else None,
        model=max((result.sizes["model"] for result in results if "model" in result.sizes), default=None),
        built=round(sum(built), 1) if built and len(results) == len(datasets) else None,
    )


def _means(suite: Suite, ours: ResultsBySystem, others: Sequence[Mapping[str, float]]) -> list[tuple[BoardMean, ...]]:
    """Return the means over datasets of our systems, then of *others*, given by their scores by dataset."""
    columns = []
    for aggregate in _aggregates(suite):
        means = {name: aggregates.over_results(aggregate, by_dataset.values()) for name, by_dataset in ours.items()}
        marks = ranks({name: mean.value for name, mean in means.items()}, filter(lambda name: _is_bound(ours[name]), ours))
        column = [
            BoardMean(
                text=str(mean), value=mean.value, mark=marks.get(name, 0), interval=_interval(aggregate, ours[name], mean.value)
            )
            for name, mean in means.items()
        ]
        published = [aggregates.mean(aggregate, scores) for scores in others]
        columns.append([*column, *(BoardMean(text=str(mean), value=mean.value) for mean in published)])
    return list(zip(*columns, strict=True)) if columns else [()] * (len(ours) + len(others))


def _interval(aggregate: Aggregate, by_dataset: Mapping[str, Result], value: float | None) -> tuple[float, float] | None:
    if value is None:
        return None
    values = [np.asarray(by_dataset[member].per_query[aggregate.measure]) for member in aggregate.members]
    low, high = bootstrap.macro_interval(values, aggregate.weights)
    return round(low, 4), round(high, 4)


def _provenance(results: Sequence[Result]) -> tuple[str, ...]:
    """Return one line per combination of software and machine that results were made with."""
    lines = set()
    for result in results:
        software = ", ".join(f"{name} {version}" for name, version in result.measured.versions.items())
        lines.add(f"{software or 'unknown software'}; {machine_line(result.measured.machine)}")
    return tuple(sorted(lines))


class PublishedSystem(NamedTuple):
    """A system with published scores: a marked row beside ours with its source, never ranked."""

    system: BoardSystem
    cells: dict[str, Cell]  # by dataset
    scores: dict[str, float]  # of the headline on every dataset of the suite
    origin: str  # facts about the source


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
    by_system = _by_system(
        score for score in published.scores if score.measure == suite.headline and score.dataset in suite.datasets
    )
    rows = [row for row in _published_systems(by_system, published.models, suite.headline, datasets) if row.cells]
    rows.sort(key=lambda row: _published_standing(row, suite.headline))
    unique: dict[object, PublishedSystem] = {}
    for row in rows:
        unique.setdefault(tuple(sorted(row.scores.items())), row)
    return list(unique.values())


def published_levels(published: Published, dataset: str, measure: str) -> list[PublishedSystem]:
    """Return the published systems to draw as levels in plots of *measure* on *dataset*, the same as on the leaderboard's page.

    They come from the first suite (by name) with this headline; none if there is no such suite.
    """
    for name in suites.suite_names():
        suite = suites.suite(name)
        if suite.headline == measure and dataset in suite.datasets:
            rows = published_systems(published, suite, suite.datasets)
            places = anchors_of([row.system for row in rows], [row.cells.get(dataset) for row in rows], measure)
            return [rows[place] for place in places]
    return []


def _by_system(scores: Iterable[PublishedScore]) -> dict[str, dict[str, PublishedScore]]:
    """Return the scores of each system by dataset, from the source that has most of them."""
    by_source: dict[str, dict[str, dict[str, PublishedScore]]] = {}
    for score in scores:
        if not score.differs:
            sources = by_source.setdefault(score.system or score.called, {})
            sources.setdefault(score.source.name, {}).setdefault(score.dataset, score)
    return {name: max(sources.values(), key=len) for name, sources in by_source.items()}


def _published_systems(
    by_system: Mapping[str, Mapping[str, PublishedScore]], models: Mapping[str, Model], headline: str, datasets: Sequence[str]
) -> Iterator[PublishedSystem]:
    for name, by_dataset in by_system.items():
        first = next(iter(by_dataset.values()))
        model = models.get(name)
        system = BoardSystem(
            label=model.name if model else first.called,
            family=model.family if model else UNKNOWN_FAMILY,
            source=first.source.name,
        )
        shown = {dataset: by_dataset[dataset] for dataset in datasets if dataset in by_dataset}
        cells = {dataset: _published_cell(headline, score, model) for dataset, score in shown.items()}
        scores = {dataset: score.value for dataset, score in by_dataset.items()}
        yield PublishedSystem(system, cells, scores, f"{system.source}: {first.source.origin}. {first.source.protocol}")


def _published_cell(headline: str, score: PublishedScore, model: Model | None) -> Cell:
    seen = exposure_of_entry(model, contract_of(score.dataset)) if model else Exposure(status=UNKNOWN)
    means = {headline: score.value}
    return Cell(means=means, where=score.where, exposure=seen.status, because=tuple(seen.because))


def _published_standing(row: PublishedSystem, headline: str) -> tuple[int, float, str]:
    scores = [cell.means[headline] for cell in row.cells.values()]
    return -len(scores), -sum(scores), row.system.label
