"""Build a board from results: one section per suite, with its table, its top-K variants and published scores."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from shlex import quote
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import structs

from lexbench import catalog
from lexbench.analysis.compare.comparison import compare_results
from lexbench.analysis.compare.query_changes import Reader
from lexbench.analysis.judgements import judged_gaps, judged_levels
from lexbench.analysis.ranks import Ranks, SystemRank, ranks
from lexbench.analysis.verify.published import PublishedScore, published_scores, system_of
from lexbench.catalog import CatalogModel
from lexbench.contracts import find_contract
from lexbench.display.table import number
from lexbench.errors import CannotStart, CommandError, listed, visible
from lexbench.report.change import report_of
from lexbench.report.change.facts import Change
from lexbench.report.grid import MISSING, SEEN, Column, Grid, Row, Value, mean_value, score_names, summary
from lexbench.report.leaderboard.board import (
    UNKNOWN_FAMILY,
    Board,
    BoardSystem,
    Panel,
    Section,
    machine_line,
    shareable,
    systems_of,
)
from lexbench.report.leaderboard.panels import panel_of, published_texts
from lexbench.report.run import WIDE_TIE, names
from lexbench.results import DATASETS, EXPOSURES, Entry, Note, QueryTexts, Result, Results, measures_of
from lexbench.runner.exposure import UNKNOWN, exposure_of_entry
from lexbench.storage.code import codes
from lexbench.storage.stopwatch import Measurement
from lexbench.suites import Aggregate, Suite, suite_names, suite_of_results
from lexbench.timing.protocol import TimingSettings

_FEW = 10  # rows


class PublishedSystem(NamedTuple):
    """A system with published scores. It is shown with ours, but never ranked or tested."""

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


# All published scores, and the catalogue's models by expression.
Published: TypeAlias = tuple[list[PublishedScore], dict[str, CatalogModel]]


def read_published() -> Published:
    """Return all published scores, and the models of the catalogue by their expression in published scores."""
    models = {system_of(model): model for model in catalog.listing().values() if isinstance(model, CatalogModel)}
    return published_scores(), models


def published_systems(published: Published, suite: Suite, datasets: Sequence[str]) -> list[PublishedSystem]:
    """Return the published systems with a headline score on one of *datasets*. Systems with most scores come first.

    A system is listed once, with the source that has most of its scores; systems with identical scores also count as one.
    Scores made under other rules are left out.
    """
    by_source: dict[str, dict[str, dict[str, PublishedScore]]] = {}
    scores, models = published
    for score in scores:
        if score.measure == suite.headline and score.dataset in suite.datasets and not score.differs:
            sources = by_source.setdefault(score.system or score.called, {})
            sources.setdefault(score.source.name, {}).setdefault(score.dataset, score)
    rows = [_system(models.get(name), max(sources.values(), key=len), datasets) for name, sources in by_source.items()]
    rows = [row for row in rows if row.scores.keys() & set(datasets)]
    rows.sort(key=lambda row: (*_standing(row.scores, datasets), row.label))
    unique: dict[object, PublishedSystem] = {}
    for row in rows:
        unique.setdefault(tuple((name, row.scores.get(name)) for name in datasets), row)
    return list(unique.values())


def _system(model: CatalogModel | None, scores: Mapping[str, PublishedScore], datasets: Sequence[str]) -> PublishedSystem:
    first = next(iter(scores.values()))
    shown = [name for name in datasets if name in scores]
    contracts = [find_contract(name) for name in shown]  # None for a folder without one
    seen = [exposure_of_entry(model, one).status if model and one else UNKNOWN for one in contracts]
    return PublishedSystem(
        label=model.name if model else first.called,
        family=model.family if model else UNKNOWN_FAMILY,
        source=first.source.name,
        scores={name: score.value for name, score in scores.items()},
        seen=SEEN[max(seen, key=EXPOSURES.index)] if seen else "",
        origin=f"{first.source.name}: {first.source.origin}. {first.source.protocol}",
    )


def _standing(scores: Mapping[str, float], datasets: Sequence[str]) -> tuple[int, float]:
    """Return the sort key of a system with these headline *scores*: how many of *datasets* it has, then the sum."""
    known = [scores[name] for name in datasets if name in scores]
    return -len(known), -sum(known)


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
        values += [mean_value(mean.over(row.scores)) for mean in means]
        found.append(Row(row.name, (*values, Value(row.family), Value(row.seen)), ranked=False, published=True))
    grid = Grid("", (*columns, Column("family", keep=10), Column("zero-shot", keep=40)), tuple(found))
    return grid.only(found) if found else None


# ---- sections --------------------------------------------------------------------------------------------------------------


_SEVERAL = 3  # datasets; with so many, a column counts how often each system is the best
_NOTES = 6  # at most
_FEWEST = 2  # systems to compare
_CHANGED = 5  # queries that lose and gain most


def board(results: Results, published: str = "few") -> Board:
    """Return the board of *results*, a section per suite, with no, few or all *published* scores."""
    scores = read_published()
    sections = []
    for name in results.suites:
        of_suite, own = results.select(suite=name), results.session.suite
        suite = own if own and own.id == name else suite_of_results(name or DATASETS, of_suite)
        sections.append(_section(suite, of_suite, scores, published))
    return Board(suites=tuple(sections))


def _section(suite: Suite, results: Results, published: Published, how: str) -> Section:
    if strays := {*results.datasets} - set(suite.datasets):
        raise CommandError(
            f"{min(strays)} is not a dataset of the suite {suite.id}; move its results to the folder of its suite"
        )
    datasets = [name for name in suite.datasets if name in results.datasets]

    # The best systems first; upper bounds and those that were not measured last.
    def standing(name: str) -> tuple[bool, int, float, str]:
        row = results.row(name)
        scores = {dataset: one.means[suite.headline] for dataset, one in row.items() if suite.headline in one.means}
        return any(one.aside for one in row.values()), *_standing(scores, datasets), name

    ours = results.select(systems=sorted(results.systems, key=standing))
    systems = systems_of(ours)

    # The mean over datasets: those of the suite that are complete, or else one of the datasets that are here.
    whole = [one for one in suite.aggregates if one.measure == suite.headline and set(one.members) <= set(datasets)]
    alone = Aggregate(id="mean", measure=suite.headline, members=tuple(datasets))
    means = whole if len(datasets) > 1 and whole else [alone]
    shown_means = means if len(datasets) > 1 else []
    ranked = _ranks(ours, systems, means[0])

    # Published scores beside ours, and a panel for each dataset.
    rows = published_systems(published, suite, datasets)
    shown = published_grid(rows, datasets, suite.headline, shown_means, how)
    panels = []
    for dataset in datasets:
        column = ours.column(dataset)
        levels = best_of_families(published_systems(published, suite, [dataset])) if how != "none" else []
        named = [(row.name, row.scores[dataset]) for row in levels]
        kept = next((one.texts() for one in ours.entries if one.result.dataset == dataset), None)
        results_of = [column.get(name) for name in ours.systems]
        panels.append(panel_of(dataset, suite.headline, systems, results_of, named, kept.texts if kept else None))
    # What the section says about all datasets together.
    one_each = [next(iter(ours.row(name).values())) for name in ours.systems]
    main = [result for system in systems if system.base is None for result in ours.row(system.label).values()]
    places = {name: at for at, name in enumerate(ours.systems)}
    summed = summary(ours, datasets, suite.headline, shown_means)
    by_place = {places[one.system]: one for one in ranked.systems} if ranked else {}
    return Section(
        id=suite.id,
        name=suite.name,
        description=suite.description,
        headline=suite.headline,
        systems=systems,
        summary=_with_ranks(summed, systems, by_place, len(datasets)),
        top_k=_top_k_grid(ours, systems, means[0]),
        published=shown,
        datasets=tuple(panels),
        better=tuple(sorted((places[one], places[other]) for one, other in ranked.better)) if ranked else (),
        notes=(*_grouped_notes(main, suite.headline, [line for panel in panels for line in panel.notes]), *_without_ids(ours)),
        names=tuple(shareable(line) for line in names(one_each)),
        command=command(suite, ours),
        made=tuple(sorted({_made(result.measured) for result in ours})),
        sources=tuple(sorted({row.origin for row in rows if shown and row.name in {one.name for one in shown.rows}})),
        ran=tuple(_ran(results)),
        change=_best_change(ours, systems, panels, suite.headline),
    )


class _BoardReader(Reader):
    """Reads what is in a folder of results, and the queries that anybody may publish, once per dataset."""

    def __init__(self) -> None:
        self._published: dict[str, QueryTexts | None] = {}

    def texts(self, entry: Entry) -> QueryTexts | None:
        """Return the texts of a user's own data, or those of a contract that allows to publish them."""
        result = entry.result
        if kept := super().texts(entry):
            return kept
        if result.dataset not in self._published:
            texts = published_texts(find_contract(result.dataset), result.query_ids)
            named = dict(zip(result.query_ids, texts or (), strict=bool(texts)))
            found = QueryTexts(dataset=result.dataset, digests={}, texts=named, relevant={})
            self._published[result.dataset] = found if texts else None
        return self._published[result.dataset]


def _best_change(ours: Results, systems: Sequence[BoardSystem], panels: Sequence[Panel], headline: str) -> Change | None:
    """Return the change from bm25, or else from the second best system, to the best one; None if there are no two to compare.

    The best of many systems is chosen by these very scores, so p is that of the panels, corrected for all pairs.
    """
    places = [at for at in range(len(systems)) if all(at in panel.compared for panel in panels)]
    if len(places) < _FEWEST:
        return None
    names = [systems[at].label for at in places]
    pair = places[0], places[names.index("bm25") if "bm25" in names[1:] else 1]
    chosen = ours.select(systems=[systems[at].label for at in reversed(pair)])
    found = compare_results(chosen, [{panel.id: headline for panel in panels}], _BoardReader())
    tested = [
        structs.replace(on, differences=[structs.replace(on.differences[0], corrected=panel.p_of(*pair))])
        for on, panel in zip(found.comparison.datasets, panels, strict=True)
    ]
    corrected = found._replace(comparison=structs.replace(found.comparison, datasets=tested))
    return report_of(corrected, _CHANGED).changes[0]


def _ranks(ours: Results, systems: Sequence[BoardSystem], mean: Aggregate) -> Ranks | None:
    """Return the possible ranks over the members of *mean*; None for one system. Variants are not ranked."""
    main = ours.select(systems=[system.label for system in systems if system.base is None])
    with suppress(CannotStart):
        return ranks(main, mean.measure, datasets=mean.members, weights=mean.weights)
    return None


def _ran(results: Results) -> Iterator[str]:
    """Yield for merged results which systems each person ran, with which lexbench on which machine."""
    systems: dict[tuple[str, str], dict[str, None]] = {}
    for entry in results.entries:
        if entry.person:
            measured = entry.result.measured
            where = f"lexbench {measured.versions.get('lexbench', '?')}; {machine_line(measured.machine)}"
            systems.setdefault((entry.person, where), {})[entry.result.system] = None
    yield from (f"{who}: {', '.join(rows)} ({where})" for (who, where), rows in systems.items())


def _with_ranks(grid: Grid, systems: Sequence[BoardSystem], ranked: Mapping[int, SystemRank], datasets: int) -> Grid:
    """Return the grid with a column of ranks before the others, and with how many datasets each system won."""
    main = [row for row, system in zip(grid.rows, systems, strict=True) if system.base is None and row.ranked]
    best = [max((row.values[at].value or 0.0, row.values[at].text) for row in main)[1] for at in range(datasets) if main]
    rows = []
    for at, row in enumerate(grid.rows):
        place = ranked.get(at)
        rank = Value(place.text, place.best + place.worst / 1000) if place else Value(MISSING)
        won = sum(value.text == text for value, text in zip(row.values, best, strict=False)) if row in main else None
        more = (Value(number(won, "d"), won),) if datasets >= _SEVERAL else ()
        rows.append(
            msgspec.structs.replace(row, system=at, values=(rank, *row.values[:datasets], *more, *row.values[datasets:]))
        )
    wins = (Column("won", keep=45),) if datasets >= _SEVERAL else ()
    columns = (Column("rank", keep=95), *grid.columns[:datasets], *wins, *grid.columns[datasets:])
    return msgspec.structs.replace(grid, columns=columns, rows=tuple(rows)).only(rows)


def _top_k_grid(ours: Results, systems: Sequence[BoardSystem], mean: Aggregate) -> Grid | None:
    """Return the headline of each model by how many terms documents keep; None if no system keeps fewer terms.

    Columns that change nothing for any model are left out, with a note.
    """
    names = ours.systems
    bases = sorted({system.base for system in systems if system.k and system.base is not None})
    cells: dict[tuple[int, int], Value] = {}
    for at, system in enumerate(systems):
        base = system.base if system.k and system.base is not None else at
        if base in bases:
            cells[base, system.k] = mean_value(mean.over_results(ours.row(names[at]).values()))
    ks = sorted({k for _, k in cells}, key=lambda k: k or float("inf"))
    idle = [k for k in ks if k and all(cells.get((base, k), cells.get((base, 0))) == cells.get((base, 0)) for base in bases)]
    columns = tuple(Column(str(k) if k else "all", keep=k or 999) for k in ks if k not in idle)
    rows = tuple(
        Row(names[base], tuple(cells.get((base, k), Value()) for k in ks if k not in idle), system=base) for base in bases
    )
    notes = (f"{' and '.join(f'top {k}' for k in idle)}: as all terms",) if idle else ()
    title = f"{mean.measure} with the K heaviest terms of each document"
    return Grid(title, columns, rows, notes) if bases else None


def _made(measured: Measurement) -> str:
    software = ", ".join(f"{name} {version}" for name, version in measured.versions.items())
    return f"{software or 'unknown software'}; {machine_line(measured.machine)}"


def _cut(result: Result, _headline: str) -> float:
    share = result.vectors.truncated / result.counts.documents if result.vectors and result.counts.documents else 0.0
    return share and max(share, 0.01)  # at most 1%, not 0%


def _tied(result: Result, headline: str) -> float:
    width = result.ties[headline].highest - result.ties[headline].lowest if headline in result.ties else 0.0
    return width if width > WIDE_TIE else 0.0


def _said_nothing(result: Result, _headline: str) -> float:
    return bool(result.unmeasured)


# The text of a note, how strongly it applies to a result (0: not at all), and the format of that number.
_KINDS: tuple[tuple[str, Callable[[Result, str], float], str], ...] = (
    ("Not measured and not ranked, because the lists say nothing about the system: {count} ({worst})", _said_nothing, ".0f"),
    ("Upper bounds, chosen on the tested queries and not ranked: {count}", lambda one, _: one.bound, ".0f"),
    (
        "Signs of a result made from the judgements: {count}, e.g. {worst}; see its notes on the page",
        lambda one, _: sum(note.kind == "too good" for note in one.notes),
        ".0f",
    ),
    (
        "Queries without results score 0 in {count}, at most {most} of the queries ({worst})",
        lambda one, _: 0.0 if one.unmeasured else one.counts.missing / one.counts.queries,
        ".1%",
    ),
    (
        "Nothing says what the models were trained on in {count}: they may have seen the test data (?), e.g. {worst}",
        lambda one, _: one.exposure is None or one.exposure.status == UNKNOWN,
        ".0f",
    ),
    ("Texts were cut to the model's maximum length in {count}, at most {most} of the documents ({worst})", _cut, ".0%"),
    ("Ties leave {headline} open in {count}, by at most {most} ({worst})", _tied, ".4f"),
)


def _grouped_notes(results: Sequence[Result], headline: str, notes: Sequence[Note]) -> list[str]:
    """Return at most six lines about *results*: one per kind of note, with the worst case.

    *notes* are all notes of the panels. Data issues are only counted, and at most one note on the power of tests is shown.
    """
    lines = []
    for text, extent, form in _KINDS:
        extents = {f"{one.system} on {one.dataset}": extent(one, headline) for one in results if extent(one, headline)}
        if extents:
            worst = max(extents, key=lambda name: extents[name])
            count, most = f"{len(extents)} of {len(results)} results", format(extents[worst], form).removeprefix("0")
            lines.append(text.format(headline=headline, count=count, most=most, worst=worst))
    lines += _code_notes(results)
    if issues := sum(note.kind == "data issue" for note in notes):
        lines.append(f"Known issues of the data: {issues}; see: lexbench show dataset NAME")
    lines += [note.partition(". ")[0] for note in [*judged_levels(results, headline), *judged_gaps(results)][:1]]
    tests = [next((note.text for note in notes if note.kind == kind), "") for kind in ("test", "power")]
    last = [text for text in tests if text]
    return [*lines[: _NOTES - len(last)], *last]


def _without_ids(ours: Results) -> Iterator[str]:
    """Yield a line on the results of a suite that keep no document ids, variants included."""
    bare = [f"{one.system} on {one.dataset}" for one in ours if not one.top]
    if bare:
        some = f"{len(bare)} of {len(list(ours))} results ({listed(bare, 1)})"
        yield f"No document ids, so lexbench verify --rescore cannot score them again: {some}"


def _code_notes(results: Sequence[Result]) -> Iterator[str]:
    """Yield a line on systems whose code is not part of a release, and one on systems with results of several codes."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for result in results:
        found.setdefault(result.system, set()).add(tuple(sorted(codes(result.recipe))))
    several = [name for name, versions in found.items() if len(versions) > 1]
    if several:
        yield f"Results of several versions of one code, which are several systems: {listed(several, _FEW)}; run them again"
    single = {name: next(iter(versions)) for name, versions in found.items() if len(versions) == 1}
    own = [f"{name} ({', '.join(dict.fromkeys(version))})" for name, version in single.items() if version]
    if own:
        yield f"Code of the user, by its digest: {listed(own, _FEW)}"


# ---- the commands that repeat a board: exactly its datasets, systems, measures and timing -----------------------------------


def command(suite: Suite, ours: Results) -> str:
    """Return the commands that make *ours* again: one for each set of datasets and options."""
    groups: dict[tuple[str, ...], list[Result]] = {}
    file = suite.id if suite.id in suite_names() else f"./{suite.id}.toml"  # of the user's own
    for system in ours.systems:
        row = ours.row(system)
        present = [row[dataset] for dataset in suite.datasets if dataset in row]
        alone = suite.id == DATASETS  # datasets that were run without a suite need one command each
        for results in [[result] for result in present] if alone else [present]:
            names = [result.dataset for result in results]
            what = _dataset(results[0]) if alone else f"suite {_quoted(file)} {' '.join(f'-d {name}' for name in names)}"
            groups.setdefault((what, *_options(suite, results)), []).append(results[0])
    return "\n".join(
        " \\\n  ".join([f'lexbench run {what} --results "$here"', *_systems(group), *options])
        for (what, *options), group in groups.items()
    )


def _dataset(result: Result) -> str:
    """Return a dataset as `lexbench run` takes it: an id, or a folder of the user's own, which has version 0, and its split."""
    folder, _, split = result.dataset.rpartition("/")
    own = folder and result.contract.endswith("@0")
    return f"dataset {_quoted(f'./{folder}')} --split {_quoted(split)}" if own else f"dataset {_quoted(result.dataset)}"


def script(commands: Sequence[str]) -> str:
    """Return a shell script that runs *commands* and then writes the pages, all in its own folder."""
    head = (
        "#!/bin/sh\n# Repeats the measurements of this leaderboard.\n"
        "# Paths of models and of your own data are relative to the current folder.\n"
        'set -eu\nhere=$(dirname "$0")\n'
    )
    return "\n".join([head, *commands, 'lexbench leaderboard --results "$here"', ""])


def _systems(group: Sequence[Result]) -> list[str]:
    """Return the options -r and --seeds of systems."""
    named: dict[str, str] = {}
    seeds: dict[str, Mapping[str, str]] = {}
    for result in group:
        if result.seeds:
            seeds[result.system] = result.seeds.systems
            named |= result.seeds.systems
        else:
            named[result.system] = result.expression
    typed = [f"{name} = {notation}" if notation else name for name, notation in named.items()]
    lines = [f"-r {_quoted(shareable(text))}" for text in typed]
    return lines + [f"--seeds {_quoted(name + ' = ' + ', '.join(members))}" for name, members in seeds.items()]


def _options(suite: Suite, results: Sequence[Result]) -> list[str]:
    """Return the options for measures, depth and timing, a line each."""
    lines = [" ".join(f"-m {_quoted(name)}" for name in measures_of(results))]
    if results[0].depth != suite.depth:
        lines.append(f"--depth {results[0].depth}")
    timings = [timing for result in results for timing in result.timings]
    if timings:
        default, ks = TimingSettings(), sorted({timing.k for timing in timings})
        seconds = max(timing.asked_seconds for timing in timings)
        processes, queries = (max(getattr(timing, name) for timing in timings) for name in ("processes", "queries"))
        sampled = any(timing.queries < result.counts.queries for result in results for timing in result.timings)
        words = {  # each with whether it is needed
            "--time": True,
            **{f"--time-k {k}": not {result.depth for result in results}.issuperset(ks) for k in ks},
            f"--time-seconds {seconds:g}": seconds != default.seconds,
            f"--time-processes {processes}": processes != default.processes,
            f"--time-queries {queries}": sampled,
            "--time-single": all(timing.scenario.startswith("single") for timing in timings),
        }
        lines.append(" ".join(word for word, needed in words.items() if needed))
    return lines


def _quoted(text: str) -> str:
    return quote(visible(" ".join(text.split())))
