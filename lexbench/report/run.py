"""The tables of a run: scores, sizes of vectors, and the one table of `--brief`. `tables` also includes the timings."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from lexbench import measures
from lexbench.analysis import aggregates, seen_in_training
from lexbench.analysis.judgements import judged_gaps
from lexbench.contracts import find_contract
from lexbench.report.timings import timing_tables
from lexbench.results import Result, Seeds, Vectors, Work
from lexbench.suites import Suite
from lexbench.table import Table, heading, number, with_deviation

_WARN = 0.001  # a wider tie interval gets a note
# For each precision of scores the other one, and the tools that use it.
_PRECISIONS = {
    "double": ("float32", "trec_eval to v9.0.8 of 2020, pytrec_eval, BEIR and MTEB"),
    "float32": ("double", "trec_eval since 2023 and v10.0"),
}
_MOST = 9  # systems in a brief table: with header, notes and title at most 20 lines
_CALLED = {"R": "official recall", "Success": "DPR recall", "RR": "MRR"}  # names of measures in papers
_SPARSE_HEADER = ("system", "terms", "bytes\n/doc.", "index bytes\n/doc.", "query terms", "postings", "FLOPS")
_SPARSE_LEGEND = (
    "terms and bytes (3 per term) per document; terms and their postings per query; FLOPS: products per query and document"
)
_DENSE_HEADER = ("system", "dimensions", "vectors", "bytes\n/doc.", "index bytes\n/doc.")
_DENSE_LEGEND = "per document: vectors, their bytes as float32, and bytes in the index"


def tables(results: Sequence[Result], suite: Suite | None) -> list[Table]:
    """Return the tables of *results*: one column per measure for one dataset or system, otherwise one per system or dataset."""
    if not results:
        return []
    *scores, last = _score_tables(results, suite)
    more = (*judged_gaps(results), *seen_in_training.notes(results), *_data_issues(results))
    scores.append(replace(last, notes=(*last.notes, *more)))
    return [*scores, *_vector_tables(results), *timing_tables(results)]


def _score_tables(results: Sequence[Result], suite: Suite | None) -> list[Table]:
    """Return one table with all measures for one dataset or system, otherwise one table per measure."""
    systems = list(dict.fromkeys(result.system for result in results))
    datasets = list(dict.fromkeys(result.dataset for result in results))
    if len(datasets) == 1:
        return [_by_measure(datasets[0], results, [result.system for result in results], "system", None)]
    if len(systems) == 1:
        return [_by_measure(systems[0], results, [result.dataset for result in results], "dataset", suite)]
    measured = list(dict.fromkeys(measure for result in results for measure in result.means))
    whole = suite is not None and suite.headline in measured and len(results[0].means) == len(suite.measures)
    shown = [suite.headline] if suite and whole else measured  # measures that were asked for with -m are all shown
    by_measure = [_by_system(measure, results, systems, datasets, suite) for measure in shown]
    return [*by_measure[:-1], replace(by_measure[-1], notes=tuple(notes(results)))]


def _by_system(measure: str, results: Sequence[Result], systems: list[str], datasets: list[str], suite: Suite | None) -> Table:
    """Return the means of one measure. Rows are systems or datasets, whichever are more, because the first column can wrap."""
    cells = {(result.system, result.dataset): score(result, measure) for result in results}
    header = [*datasets]
    columns = [[cells.get((system, dataset), number(None)) for system in systems] for dataset in datasets]
    for aggregate in suite.aggregates if suite else ():
        if aggregate.measure == measure:
            by_system = [[result for result in results if result.system == system] for system in systems]
            header.append(aggregate.id)
            columns.append([str(aggregates.over_results(aggregate, group)) for group in by_system])
    if len(systems) > len(datasets):
        return Table(measure, ("system", *header), tuple(zip(systems, *columns, strict=True)))
    return Table(measure, ("dataset", *systems), tuple((name, *column) for name, column in zip(header, columns, strict=True)))


def _by_measure(title: str, results: Sequence[Result], labels: Sequence[str], what: str, suite: Suite | None) -> Table:
    """Return one row per result, named by *labels*, with all its measures; then the means over datasets of *suite*."""
    measured = list(dict.fromkeys(measure for result in results for measure in result.means))
    rows = [(name, *(score(result, measure) for measure in measured)) for name, result in zip(labels, results, strict=True)]
    for aggregate in suite.aggregates if suite else ():
        value = str(aggregates.over_results(aggregate, results))
        rows.append((aggregate.id, *(value if measure == aggregate.measure else "" for measure in measured)))
    return Table(title, (what, *map(heading, measured)), tuple(rows), tuple(notes(results)))


def notes(results: Sequence[Result]) -> list[str]:
    """Return the notes of results: what names stand for, dropped documents, wide tie intervals, and the results' own notes."""
    lines = names(results)
    for result in results:
        name = f"{result.system} on {result.dataset}"
        counts = result.counts
        if counts.missing:
            lines.append(f"{name}: {counts.missing} of {counts.queries} queries returned nothing and score 0")
        if counts.unjudged:
            lines.append(f"{name}: {counts.unjudged} queries of the run have no judgements and do not count")
        if counts.judged_absent:
            lines.append(f"{name}: {counts.judged_absent} judged documents are not in the corpus, so no system finds them")
        if counts.self_matches:
            lines.append(
                f"{name}: {counts.self_matches} documents with the query's own id were dropped (a rule of the dataset)"
            )
        if counts.excluded:
            lines.append(f"{name}: {counts.excluded} documents were dropped for their grade (a rule of the dataset)")
        wide = [
            f"{measure} [{tie.lowest:.4f}, {tie.highest:.4f}]"
            for measure, tie in result.ties.items()
            if tie.highest - tie.lowest > _WARN
        ]
        if wide:
            lines.append(f"{name}: other orders of ties give {', '.join(wide)}")
        lines += [f"{name}: {note}" for note in (*_precision_notes(result), *result.notes)]
    return lines


def score(result: Result, measure: str) -> str:
    """Return the mean of *measure* as a cell, with the standard deviation over seeds if there is one."""
    deviation = result.seeds.deviation(measure) if result.seeds and measure in result.means else None
    return with_deviation(result.means.get(measure), deviation)


def names(results: Sequence[Result]) -> list[str]:
    """Return what each named system, or system of several seeds, stands for."""
    lines = [
        f"{result.system} = {result.notation}" if result.notation else _seeds_note(result.system, result.seeds)
        for result in results
        if result.notation or result.seeds
    ]
    return list(dict.fromkeys(lines))


def _seeds_note(system: str, seeds: Seeds | None) -> str:
    assert seeds is not None
    members = "; ".join(f"{name} = {expression}" if expression else name for name, expression in seeds.systems.items())
    return f"{system}: mean ± standard deviation (n - 1) of {len(seeds.systems)} seeds, {members}"


def _data_issues(results: Sequence[Result]) -> Iterator[str]:
    """Yield one note with the number of known data issues of each dataset, and where to read about them."""
    contracts = [find_contract(dataset) for dataset in dict.fromkeys(result.dataset for result in results)]
    known = {contract.id: len(contract.defects) for contract in contracts if contract and contract.defects}
    if len(known) == 1:
        ((dataset, count),) = known.items()
        yield f"{dataset} has {count} known data issue{'s' * (count > 1)}; see: lexbench show dataset {dataset}"
    elif known:
        counts = ", ".join(f"{dataset} {count}" for dataset, count in known.items())
        yield f"known data issues: {counts}; see: lexbench show dataset NAME"


def _precision_notes(result: Result) -> list[str]:
    """Return what scores in the other precision would give, if that differs."""
    if not result.other_precision:
        return []
    other, tools = _PRECISIONS[result.precision]
    means = ", ".join(f"{measure} {mean:.4f}" for measure, mean in result.other_precision.items())
    return [f"scores are compared as {result.precision}; as {other}, like {tools}: {means}"]


def brief_tables(results: Sequence[Result]) -> list[Table]:
    """Return one table per dataset: nDCG, MRR, both recalls at one cutoff, queries per second, megabytes of the index.

    Missing measures are left out. Systems beyond the ninth are counted in a note; `--json` has all.
    """
    by_dataset: dict[str, list[Result]] = {}
    for result in results:
        by_dataset.setdefault(result.dataset, []).append(result)
    return [_brief_table(group) for group in by_dataset.values()]


def _brief_table(results: Sequence[Result]) -> Table:
    """Return the table of one dataset."""
    shown = [result for result in results if not _is_twin(result)]
    chosen = _brief_measures(shown)
    timings = [
        next((one for one in result.timings if one.scenario.startswith("single-stream") and one.qps), None) for result in shown
    ]
    header = ["system", *(f"{heading(measure)}\n{_CALLED.get(_kind(measure), '')}".rstrip() for measure in chosen)]
    rows = [
        (
            result.system,
            *(score(result, measure) for measure in chosen),
            number(timing.qps["e2e"] if timing else None, ",.0f"),
            number(result.sizes["index"] / 1e6 if "index" in result.sizes else None, ",.1f"),
        )
        for result, timing in zip(shown, timings, strict=True)
    ]
    lines = [f"QPS: queries per second, one at a time, with encoding; k={timing.k}" for timing in timings if timing][:1]
    lines += names(shown)
    if len(rows) > _MOST:
        lines.append(f"{len(rows) - _MOST} more systems are in --json")
    if len(shown) < len(results):
        lines.append(f"{len(results) - len(shown)} more are left out: their top_k changed nothing, no document has more terms")
    if any(judged_gaps(results)):
        lines.append("Judged differs by more than .1: systems with fewer judged documents may be better than their scores")
    seen = Counter(result.exposure.status for result in shown if result.exposure)
    if set(seen) - {"zero-shot"}:
        lines.append(f"seen in training: {', '.join(f'{status} {count}' for status, count in seen.items())}")
    return Table(results[0].dataset, (*header, "QPS", "index\nMB"), tuple(rows[:_MOST]), tuple(lines))


def _brief_measures(results: Sequence[Result]) -> list[str]:
    """Return the measures of a brief table: the first nDCG and RR, and both recalls at their largest common cutoff."""
    measured = list(dict.fromkeys(name for result in results for name in result.means))
    first = [next((name for name in measured if _kind(name) == kind), None) for kind in ("nDCG", "RR")]
    cutoffs = {kind: {measures.cutoff(name): name for name in measured if _kind(name) == kind} for kind in ("R", "Success")}
    shared = [cutoff for cutoff in cutoffs["R"] if cutoff in cutoffs["Success"] and cutoff is not None]
    recalls = [cutoffs[kind][max(shared)] for kind in ("R", "Success")] if shared else list(cutoffs["R"].values())[:1]
    return [name for name in (*first, *recalls) if name]


def _kind(measure: str) -> str:
    return measure.partition("(")[0].partition("@")[0]


def _is_twin(result: Result) -> bool:
    """Whether a top_k changed nothing, so that the system equals the one without it."""
    return bool("top_k(" in (result.notation or result.system) and result.vectors and not result.vectors.dropped)


def _vector_tables(results: Sequence[Result]) -> list[Table]:
    """Return tables of sparse and dense vectors per dataset. Except for index bytes they are the same on every machine."""
    shown = []
    for dataset in dict.fromkeys(result.dataset for result in results):
        group = [(result, result.vectors) for result in results if result.dataset == dataset and result.vectors is not None]
        sparse = [(result, vectors) for result, vectors in group if not vectors.dimensions]
        dense = [(result, vectors) for result, vectors in group if vectors.dimensions]
        if sparse:
            rows = tuple(_sparse_row(result, vectors) for result, vectors in sparse)
            shown.append(Table(f"sparse vectors, {dataset}", _SPARSE_HEADER, rows, (_SPARSE_LEGEND, *_vector_notes(sparse))))
        if dense:
            rows = tuple(_dense_row(result, vectors) for result, vectors in dense)
            shown.append(Table(f"dense vectors, {dataset}", _DENSE_HEADER, rows, (_DENSE_LEGEND, *_vector_notes(dense))))
    return shown


def _sparse_row(result: Result, vectors: Vectors) -> tuple[str, ...]:
    work = result.work or Work()
    return (
        result.system,
        number(vectors.terms.get("mean"), ".1f"),
        number(vectors.bytes_per_document, ".0f"),
        _index_bytes(result),
        number(work.query_terms.get("mean"), ".1f"),
        number(work.postings.get("mean"), ",.0f"),
        number(work.flops, ".3g"),
    )


def _dense_row(result: Result, vectors: Vectors) -> tuple[str, ...]:
    sizes = number(vectors.vectors, ".1f"), number(vectors.bytes_per_document, ",.0f"), _index_bytes(result)
    return result.system, str(vectors.dimensions), *sizes


def _index_bytes(result: Result) -> str:
    """Return the index bytes per document as a cell."""
    return number(result.sizes["index"] / (result.counts.documents or 1) if "index" in result.sizes else None, ",.0f")


def _vector_notes(group: Sequence[tuple[Result, Vectors]]) -> list[str]:
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
        for line in (line for line, holds in facts.items() if holds):
            notes.setdefault(line, []).append(result.system)
    return [f"{', '.join(systems)}: {line}" for line, systems in notes.items()]
