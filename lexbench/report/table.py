"""The tables of a run: which cells there are, whatever they are shown with."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lexbench import aggregates
from lexbench.results import Result, Work
from lexbench.suites import Suite

DIGITS = 4  # as trec_eval prints
_WARN = 0.001  # a tie interval wider than this is said


@dataclass(frozen=True)
class Table:
    """Cells as text; the first column is text, the others are figures."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = field(default=())


def tables(results: Sequence[Result], suite: Suite | None) -> list[Table]:
    """Return the tables of *results*: measures across where there is one dataset or one system, else systems across."""
    if not results:
        return []
    found = _scores(results, suite)
    sparse = [result for result in results if result.vectors is not None]
    return [*found, *([_vectors(sparse)] if sparse else [])]


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


def _vectors(results: Sequence[Result]) -> Table:
    """Return what sparse vectors weigh and what searching them has to look at: the same on every machine but the index."""
    datasets = {result.dataset for result in results}
    rows = []
    for result in results:
        assert result.vectors is not None
        documents, work = result.counts.documents or 1, result.work or Work()
        rows.append(
            (
                result.system if len(datasets) == 1 else f"{result.system} on {result.dataset}",
                f"{result.vectors.terms['mean']:.1f}",
                f"{result.vectors.bytes_per_document:.0f}",
                f"{result.sizes['index'] / documents:.0f}" if "index" in result.sizes else "—",
                f"{work.query_terms['mean']:.1f}" if work.query_terms else "—",
                f"{work.postings['mean']:,.0f}" if work.postings else "—",
                "—" if work.flops is None else f"{work.flops:.3g}",
            )
        )
    header = ("system", "terms/document", "3 bytes a term", "index bytes/document", "terms/query", "postings/query", "FLOPS")
    return Table("sparse vectors", header, tuple(rows), tuple(_vector_notes(results)))


def _vector_notes(results: Sequence[Result]) -> list[str]:
    lines = []
    for result in results:
        facts, documents = result.vectors, result.counts.documents or 1
        if facts is None:
            continue
        said = [
            f"{number:,} {what}"
            for number, what in (
                (facts.truncated, f"of {documents:,} texts were cut to the encoder's length"),
                (facts.empty, "documents have no term"),
                (facts.clipped, "weights were clipped"),
            )
            if number
        ]
        lines += [f"{result.system} on {result.dataset}: {'; '.join(said)}"] if said else []
    return lines


def _by_measure(title: str, results: Sequence[Result], names: Sequence[str], what: str, suite: Suite | None) -> Table:
    measures = list(dict.fromkeys(measure for result in results for measure in result.means))
    rows = [
        (name, *(_figure(result.means.get(measure)) for measure in measures))
        for name, result in zip(names, results, strict=True)
    ]
    if suite:
        for aggregate in suite.aggregates:
            value = str(aggregates.over_results(aggregate, results))
            rows.append((aggregate.id, *(value if measure == aggregate.measure else "" for measure in measures)))
    return Table(title, (what, *measures), tuple(rows), tuple(notes(results)))


def _by_system(measure: str, results: Sequence[Result], systems: list[str], datasets: list[str], suite: Suite | None) -> Table:
    means = {(result.system, result.dataset): result.means.get(measure) for result in results}
    rows = [(dataset, *(_figure(means.get((system, dataset))) for system in systems)) for dataset in datasets]
    for aggregate in suite.aggregates if suite else ():
        if aggregate.measure == measure:
            of_each = [[result for result in results if result.system == system] for system in systems]
            rows.append((aggregate.id, *(str(aggregates.over_results(aggregate, each)) for each in of_each)))
    return Table(measure, ("dataset", *systems), tuple(rows))


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


def _figure(value: float | None) -> str:
    return "—" if value is None else f"{value:.{DIGITS}f}"
