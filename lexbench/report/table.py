"""The tables of a run: which cells there are, whatever they are shown with."""

from collections.abc import Sequence
from dataclasses import replace

from lexbench.analysis import aggregates
from lexbench.report.cells import Table, figure, heading
from lexbench.report.timings import timing_tables
from lexbench.report.vectors import vector_tables
from lexbench.results import Result
from lexbench.suites import Suite

_WARN = 0.001  # a tie interval wider than this is said


def tables(results: Sequence[Result], suite: Suite | None) -> list[Table]:
    """Return the tables of *results*: measures across where there is one dataset or one system, else systems across."""
    if not results:
        return []
    return [*_scores(results, suite), *vector_tables(results), *timing_tables(results)]


def _scores(results: Sequence[Result], suite: Suite | None) -> list[Table]:
    systems = list(dict.fromkeys(result.system for result in results))
    datasets = list(dict.fromkeys(result.dataset for result in results))
    if len(datasets) == 1:
        return [_by_measure(f"{datasets[0]}", results, [result.system for result in results], "system", None)]
    if len(systems) == 1:
        return [_by_measure(f"{systems[0]}", results, [result.dataset for result in results], "dataset", suite)]
    named = list(dict.fromkeys(measure for result in results for measure in result.means))
    whole = suite is not None and suite.headline in named and len(results[0].means) == len(suite.measures)
    measures = [suite.headline] if suite and whole else named  # measures that were asked for by name are all shown
    shown = [_by_system(measure, results, systems, datasets, suite) for measure in measures]
    return [*shown[:-1], replace(shown[-1], notes=tuple(notes(results)))]


def _by_system(measure: str, results: Sequence[Result], systems: list[str], datasets: list[str], suite: Suite | None) -> Table:
    """Return the means of one measure with a row for each of what there is more of: long names fold in the first column."""
    means = {(result.system, result.dataset): result.means.get(measure) for result in results}
    header = [*datasets]
    columns = [[figure(means.get((system, dataset))) for system in systems] for dataset in datasets]
    for aggregate in suite.aggregates if suite else ():
        if aggregate.measure == measure:
            of_each = [[result for result in results if result.system == system] for system in systems]
            header.append(aggregate.id)
            columns.append([str(aggregates.over_results(aggregate, each)) for each in of_each])
    if len(systems) > len(datasets):
        return Table(measure, ("system", *header), tuple(zip(systems, *columns, strict=True)))
    return Table(measure, ("dataset", *systems), tuple((name, *column) for name, column in zip(header, columns, strict=True)))


def _by_measure(title: str, results: Sequence[Result], names: Sequence[str], what: str, suite: Suite | None) -> Table:
    measures = list(dict.fromkeys(measure for result in results for measure in result.means))
    rows = [
        (name, *(figure(result.means.get(measure)) for measure in measures))
        for name, result in zip(names, results, strict=True)
    ]
    if suite:
        for aggregate in suite.aggregates:
            value = str(aggregates.over_results(aggregate, results))
            rows.append((aggregate.id, *(value if measure == aggregate.measure else "" for measure in measures)))
    return Table(title, (what, *map(heading, measures)), tuple(rows), tuple(notes(results)))


def notes(results: Sequence[Result]) -> list[str]:
    """Return what a reader must know: queries without hits, self-matches, wide tie intervals, and the results' own notes."""
    lines = []
    for result in results:
        place = f"{result.system} on {result.dataset}"
        counts = result.counts
        if counts.missing:
            lines.append(f"{place}: {counts.missing} of {counts.queries} queries returned nothing and score 0")
        if counts.self_matches:
            lines.append(f"{place}: {counts.self_matches} documents with the query's own id were dropped (the contract's rule)")
        wide = [
            f"{name} [{tie.lowest:.4f}, {tie.highest:.4f}]"
            for name, tie in result.ties.items()
            if tie.highest - tie.lowest > _WARN
        ]
        if wide:
            lines.append(f"{place}: tied scores leave open {', '.join(wide)}")
        lines += [f"{place}: {note}" for note in result.notes]
    return lines
