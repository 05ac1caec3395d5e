"""The tables of a run: scores, sizes of vectors, timings, notes, and the one table of `--brief`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from shlex import quote
from typing import Any

from lexbench.analysis import seen_in_training
from lexbench.analysis.judgements import judged_gaps, judged_levels
from lexbench.contracts import find_contract
from lexbench.display.answer import Answer
from lexbench.display.table import Table, heading, number
from lexbench.report.grid import kind_of, score_value, summary
from lexbench.report.timings import timing_tables
from lexbench.results import (
    DATASETS,
    EXPOSURES,
    Failure,
    Note,
    Result,
    Results,
    SearchWork,
    VectorSizes,
    by_dataset,
    measures_of,
)
from lexbench.runner.list_faults import list_notes
from lexbench.suites import HEADLINE, Suite, suite_of_results

_MOST = 9  # systems in a brief table: with header, notes and title at most 20 lines
WIDE_TIE = 0.001  # a wider tie interval gets a note
# For each precision of scores the other one, and the tools that use it.
_PRECISIONS = {
    "double": ("float32", "trec_eval to v9.0.8 of 2020, pytrec_eval, BEIR and MTEB"),
    "float32": ("double", "trec_eval since 2023 and v10.0"),
}
_SPARSE_HEADER = ("system", "terms", "bytes\n/doc.", "index bytes\n/doc.", "query terms", "postings", "FLOPS")
_SPARSE_LEGEND = (
    "terms and bytes (3 per term) per document; terms and their postings per query; FLOPS: products per query and document"
)
_DENSE_HEADER = ("system", "dimensions", "vectors", "bytes\n/doc.", "index bytes\n/doc.")
_DENSE_LEGEND = "per document: vectors, their bytes as float32, and bytes in the index"


class Summary(Answer):
    """The tables of `lexbench run`: all scores, sizes and timings of results, or the one table of `--brief`."""

    def __init__(self, results: Results, *, brief: bool = False) -> None:
        """Take the results to show."""
        self.results, self.brief = results, brief

    def _suites(self) -> Iterator[tuple[Suite | None, list[Result]]]:
        """Yield each suite with its results; None for results on datasets alone."""
        for name in self.results.suites:
            own = self.results.session.suite
            suite = None if name in ("", DATASETS) else own if own and own.id == name else suite_of_results(name, self.results)
            yield suite, list(self.results.select(suite=name))

    def tables(self) -> list[Table]:
        """Return the tables, suite by suite."""
        if self.brief:
            return brief_tables(list(self.results))
        return [table for suite, results in self._suites() for table in tables(results, suite)]

    def lines(self) -> Sequence[str]:
        """Return a line for each job that failed or was not timed."""
        return self.results.lines()

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per result: its system, dataset and means."""
        return [{"system": one.system, "dataset": one.dataset, **one.means} for one in self.results]

    def document(self) -> dict[str, Any]:
        """Return the results, failures and means over datasets as one JSON document."""

        def failure(one: Failure) -> dict[str, Any]:
            return {"dataset": one.dataset, "system": one.system, "error": one.error}

        return {
            "suite": next((suite.id for suite, _ in self._suites() if suite), None),
            "results": list(self.results),
            "unmeasured": [
                {"dataset": one.dataset, "system": one.system, "error": one.unmeasured}
                for one in self.results
                if one.unmeasured
            ],
            "failures": [{**failure(one), "again": one.again} for one in self.results.failures if not one.scored],
            "untimed": [failure(one) for one in self.results.failures if one.scored],
            "aggregates": [
                {"id": one.id, "system": system, "present": mean.present, "of": len(one.members), "mean": mean.value}
                for suite, results in self._suites()
                for one in (suite.aggregates if suite else ())
                for system in dict.fromkeys(result.system for result in results)
                for mean in [one.over_results([result for result in results if result.system == system])]
            ],
        }


def tables(results: Sequence[Result], suite: Suite | None) -> list[Table]:
    """Return the tables of *results*: one column per measure for one dataset or system, otherwise one per system or dataset."""
    if not results:
        return []
    *scores, last = _score_tables(results, suite)
    more = (
        *list_notes(results),
        *judged_levels(results, suite.headline if suite else HEADLINE),
        *judged_gaps(results),
        *seen_in_training.notes(results),
        *_data_issues(results),
    )
    scores.append(replace(last, notes=(*last.notes, *more)))
    return [*scores, *_vector_tables(results), *timing_tables(results)]


def _score_tables(results: Sequence[Result], suite: Suite | None) -> list[Table]:
    """Return one table with all measures for one dataset or system, otherwise one table per measure."""
    systems = list(dict.fromkeys(result.system for result in results))
    datasets = list(by_dataset(results))
    if len(datasets) == 1:
        return [_by_measure(datasets[0], results, [result.system for result in results], "system", None)]
    if len(systems) == 1:
        return [_by_measure(systems[0], results, [result.dataset for result in results], "dataset", suite)]
    measured = measures_of(results)
    whole = suite is not None and suite.headline in measured and len(results[0].means) == len(suite.measures)
    shown = [suite.headline] if suite and whole else measured  # measures that were asked for with -m are all shown
    by_measure = [_by_system(measure, results, systems, datasets, suite) for measure in shown]
    return [*by_measure[:-1], replace(by_measure[-1], notes=tuple(map(str, notes(results))))]


def _by_system(measure: str, results: Sequence[Result], systems: list[str], datasets: list[str], suite: Suite | None) -> Table:
    """Return the means of one measure. Rows are systems or datasets, whichever are more, because the first column can wrap."""
    cells = {(result.system, result.dataset): score_value(result, measure).text for result in results}
    header = [*datasets]
    columns = [[cells.get((system, dataset), number(None)) for system in systems] for dataset in datasets]
    for aggregate in suite.aggregates if suite else ():
        if aggregate.measure == measure:
            by_system = [[result for result in results if result.system == system] for system in systems]
            header.append(aggregate.id)
            columns.append([str(aggregate.over_results(group)) for group in by_system])
    if len(systems) > len(datasets):
        return Table(measure, ("system", *header), tuple(zip(systems, *columns, strict=True)))
    return Table(measure, ("dataset", *systems), tuple((name, *column) for name, column in zip(header, columns, strict=True)))


def _by_measure(title: str, results: Sequence[Result], labels: Sequence[str], what: str, suite: Suite | None) -> Table:
    """Return one row per result, named by *labels*, with all its measures; then the means over datasets of *suite*."""
    measured = measures_of(results)
    rows = [
        (name, *(score_value(result, measure).text for measure in measured))
        for name, result in zip(labels, results, strict=True)
    ]
    for aggregate in suite.aggregates if suite else ():
        value = str(aggregate.over_results(results))
        rows.append((aggregate.id, *(value if measure == aggregate.measure else "" for measure in measured)))
    return Table(title, (what, *map(heading, measured)), tuple(rows), tuple(map(str, notes(results))))


def notes(results: Sequence[Result]) -> list[Note]:
    """Return notes of results: the expressions of names, dropped documents, wide tie intervals, and their own notes."""
    lines = [Note("result", line) for line in names(results)]
    for result in results:
        name = f"{result.system} on {result.dataset}"
        counts = result.counts
        facts = {
            f"not measured: {result.unmeasured}": result.unmeasured,
            f"{counts.missing} of {counts.queries} queries returned nothing and score 0": (
                counts.missing and not result.unmeasured
            ),
            f"{counts.unjudged} queries of the run have no judgements and do not count": counts.unjudged,
            f"{counts.judged_absent} judged documents are not in the corpus, so no system finds them": counts.judged_absent,
            f"{counts.self_matches} documents with the query's own id were dropped (a dataset rule)": counts.self_matches,
            f"{counts.excluded} documents were dropped for their grade (a dataset rule)": counts.excluded,
        }
        own = [f"{name}: {line}" for line, count in facts.items() if count]
        wide = [
            f"{measure} [{tie.lowest:.4f}, {tie.highest:.4f}]"
            for measure, tie in result.ties.items()
            if tie.highest - tie.lowest > WIDE_TIE
        ]
        if wide:
            own.append(f"{name}: other orders of ties give {', '.join(wide)}")
        if result.other_precision:
            other, tools = _PRECISIONS[result.precision]
            means = ", ".join(f"{measure} {mean:.4f}" for measure, mean in result.other_precision.items())
            own.append(f"{name}: scores are compared as {result.precision}; as {other}, like {tools}: {means}")
        own += [
            f"{name}: budgets are in tokens of {tokenizer} (tokenizer {digest[:8]}), without special tokens"
            for tokenizer, digest in result.tokenizers.items()
        ]
        lines += [Note("result", line) for line in own]
        lines += [Note(note.kind, f"{name}: {note.text}") for note in result.notes]
    return lines


def names(results: Sequence[Result]) -> list[str]:
    """Return a line with the expression of each named system, and with the members of each system of several seeds."""
    lines = []
    for result in results:
        if result.expression:
            lines.append(f"{result.system} = {result.expression}")
        elif result.seeds:
            seeds = result.seeds.systems
            members = "; ".join(f"{name} = {expression}" if expression else name for name, expression in seeds.items())
            lines.append(f"{result.system}: mean ± standard deviation (n - 1) of {len(seeds)} seeds, {members}")
    return list(dict.fromkeys(lines))


def _data_issues(results: Sequence[Result]) -> Iterator[str]:
    """Yield one note with the number of known data issues of each dataset, and where to read about them."""
    contracts = map(find_contract, by_dataset(results))
    known = {contract.id: len(contract.defects) for contract in contracts if contract and contract.defects}
    if len(known) == 1:
        ((dataset, count),) = known.items()
        yield f"{dataset} has {count} known data issue{'s' * (count > 1)}; see: lexbench show dataset {quote(dataset)}"
    elif known:
        counts = ", ".join(f"{dataset} {count}" for dataset, count in known.items())
        yield f"known data issues: {counts}; see: lexbench show dataset NAME"


def brief_tables(results: Sequence[Result]) -> list[Table]:
    """Return one table per dataset: nDCG, MRR, both recalls, queries per second, megabytes of the index.

    Missing measures are left out. Systems beyond the ninth are counted in a note; `--json` has all.
    """
    tables = []
    for dataset, of_dataset in by_dataset(results).items():
        group = {result.system: result for result in of_dataset}
        shown = {name: result for name, result in group.items() if not _is_twin(result)}
        measured = measures_of(shown.values())
        headline = next((name for name in measured if kind_of(name) == "nDCG"), measured[0])
        grid = summary(Results(shown.values()), [dataset], headline)
        kept = [at for at, column in enumerate(grid.columns) if column.keep >= 50]  # noqa: PLR2004 - see `summary`
        rows = tuple((row.name, *(row.values[at].text for at in kept)) for row in grid.rows[:_MOST])
        header = tuple(
            "\n".join(part for part in (grid.columns[at].name.replace(" ", "\n"), grid.columns[at].about) if part)
            for at in kept
        )
        notes = [*grid.notes, *_brief_notes(list(shown.values())[:_MOST])]
        if len(shown) > _MOST:
            notes.append(f"{len(shown) - _MOST} more systems are in --json")
        if len(shown) < len(group):
            notes.append(
                f"{len(group) - len(shown)} more are left out: their top_k changed nothing, no document has more terms"
            )
        tables.append(Table(dataset, ("system", *header), rows, tuple(notes)))
    return tables


def _brief_notes(results: Sequence[Result]) -> Iterator[str]:
    """Yield the short notes of `--brief`: expressions of names, gaps of judgements, systems that saw the data in training."""
    yield from names(results)
    yield from (f"{one.system}: not measured: {one.unmeasured}" for one in results if one.unmeasured)
    yield from list_notes(results)
    yield from judged_levels(results, HEADLINE)
    if any(judged_gaps(results)):
        yield "Judged differs by more than .1: systems with fewer judged documents may be better than their scores"
    seen = [(result.exposure.status, result.system) for result in results if result.exposure]
    groups = {status: ", ".join(system for one, system in seen if one == status) for status in EXPOSURES[1:]}
    if any(groups.values()):
        yield f"seen in training: {'; '.join(f'{status}: {systems}' for status, systems in groups.items() if systems)}"


def _is_twin(result: Result) -> bool:
    """Whether a top_k changed nothing, so that the system equals the one without it."""
    return bool("top_k(" in (result.expression or result.system) and result.vectors and not result.vectors.dropped)


def _vector_tables(results: Sequence[Result]) -> list[Table]:
    """Return tables of sparse and dense vectors per dataset. Except for index bytes they are the same on every machine."""
    kinds = (("sparse", _SPARSE_HEADER, _sparse_row, _SPARSE_LEGEND), ("dense", _DENSE_HEADER, _dense_row, _DENSE_LEGEND))
    shown = []
    for dataset, of_dataset in by_dataset(results).items():
        group = [(result, result.vectors) for result in of_dataset if result.vectors is not None]
        for kind, header, row, legend in kinds:
            of_kind = [(result, vectors) for result, vectors in group if bool(vectors.dimensions) == (kind == "dense")]
            if of_kind:
                rows = tuple(row(*one) for one in of_kind)
                shown.append(Table(f"{kind} vectors, {dataset}", header, rows, (legend, *_vector_notes(of_kind))))
    return shown


def _sparse_row(result: Result, vectors: VectorSizes) -> tuple[str, ...]:
    work = result.work or SearchWork()
    return (
        result.system,
        number(vectors.terms.get("mean"), ".1f"),
        number(vectors.bytes_per_document, ".0f"),
        _index_bytes(result),
        number(work.query_terms.get("mean"), ".1f"),
        number(work.postings.get("mean"), ",.0f"),
        number(work.flops, ".3g"),
    )


def _dense_row(result: Result, vectors: VectorSizes) -> tuple[str, ...]:
    sizes = number(vectors.vectors, ".1f"), number(vectors.bytes_per_document, ",.0f"), _index_bytes(result)
    return result.system, str(vectors.dimensions), *sizes


def _index_bytes(result: Result) -> str:
    """Return the index bytes per document as a cell."""
    return number(result.sizes["index"] / (result.counts.documents or 1) if "index" in result.sizes else None, ",.0f")


def _vector_notes(group: Sequence[tuple[Result, VectorSizes]]) -> list[str]:
    """Return notes about cut texts, empty vectors, clipped weights and transforms without effect, each with its systems."""
    notes: dict[str, list[str]] = {}
    for result, vectors in group:
        documents = result.counts.documents
        facts = {
            f"{vectors.truncated:,} of {documents:,} texts were cut to the encoder's maximum length": vectors.truncated,
            f"{vectors.empty:,} of {documents:,} documents have no terms": vectors.empty,
            "top_k changed nothing, no document has more terms": "top_k(" in result.system and not vectors.dropped,
            f"{vectors.clipped:,} weights were clipped": vectors.clipped,
        }
        for line in (line for line, applies in facts.items() if applies):
            notes.setdefault(line, []).append(result.system)
    return [f"{', '.join(systems)}: {line}" for line, systems in notes.items()]
