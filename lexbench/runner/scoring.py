"""Scoring a run under a contract: from ranked lists to a result. `lexbench run`, `score` and `pool` use it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench.contracts import JUDGED, MEASURES, Contract, Protocol
from lexbench.datasets.dataset import check, judgement_facts, open_dataset
from lexbench.datasets.digests import qrels_sha256
from lexbench.datasets.location import find_dataset
from lexbench.datasets.sources.files import Files
from lexbench.errors import CommandError, LexbenchError
from lexbench.measures import DocumentTokens, incomplete_report, tie_report, with_threshold
from lexbench.measures import cutoff as cutoff_of
from lexbench.measures import parse as parse_measure
from lexbench.measures import score as score_run
from lexbench.plugins import Source
from lexbench.results import KEPT, Counts, Note, NoteKind, Result, kept_text
from lexbench.runner.given import given_qrels
from lexbench.runner.list_faults import list_facts
from lexbench.trec.ids import bytes_of, encode, factorize, lookup, text_of
from lexbench.trec.judged_run import join, without_grade
from lexbench.trec.qrels import Qrels, judge_notes, read_qrels
from lexbench.trec.runs import Filtered, Precision, Run, without_self_matches

_PLAIN = Protocol()
_FEW_GRADES = 6  # a note lists them; of more, it has the ends


class JudgementRules(NamedTuple):
    """Judgements, their rules, and notes about them."""

    qrels: Qrels
    contract: Contract | None  # None for a qrels file alone
    dataset: str  # their name
    notes: tuple[Note, ...] = ()
    source: Source | None = None  # of the dataset, if it is no id

    @property
    def default_measures(self) -> tuple[str, ...]:
        """The measures if none are named."""
        return self.contract.default_measures if self.contract else (*MEASURES, JUDGED)

    @property
    def protocol(self) -> Protocol:
        """The rules for documents that are left out of lists."""
        return self.contract.protocol if self.contract else _PLAIN


def judgements(dataset: Any, qrels: Any) -> JudgementRules:
    """Return the judgements of a *dataset*, which may be a folder or in memory, with its contract, or the judgements *qrels*.

    These are a file, or judgements in memory (see `given_qrels`). If both are given, they are used under the dataset's
    contract. They must match that contract; the dataset need not be here. Raises CommandError if neither is given,
    ContractMismatch for judgements of another dataset.
    """
    if dataset is None:
        if qrels is None:
            raise CommandError("a run is scored by a dataset or by a qrels file")
        name = Path(qrels).name if isinstance(qrels, str | Path) else "qrels"
        return JudgementRules(_qrels_of(qrels), None, name, _judges_of(qrels))
    contract, source = find_dataset(dataset)
    if qrels is None:
        return JudgementRules(open_dataset(contract, source).qrels, contract, contract.id, source=source)
    judged = _qrels_of(qrels)
    check(contract, judgement_facts(tuple(judged.judgements())))
    return JudgementRules(judged, contract, contract.id, _judges_of(qrels))


def _qrels_of(qrels: Any) -> Qrels:
    return read_qrels(Path(qrels)) if isinstance(qrels, str | Path) else given_qrels(qrels)


def _judges_of(qrels: Any) -> tuple[Note, ...]:
    return noted("judge", judge_notes(Path(qrels))) if isinstance(qrels, str | Path) else ()


def score_lists(
    run: Run,
    system: str,
    named: Sequence[str],
    judged: JudgementRules,
    precision: Precision = "double",
    tokens: DocumentTokens | None = None,
) -> Result:
    """Return the result of *run*, the uncut lists of *system*, by the judgements and rules of *judged*.

    Scores are compared in that *precision*; the result also has the means that differ in the other precision. Measures with a
    budget take *tokens*.
    """
    stamps = {"system": system, "dataset": judged.dataset, "contract": judged.contract.stamp if judged.contract else "none"}
    wanted = [with_threshold(measure, judged.contract) if judged.contract else measure for measure in named]
    result = score_ranked(run, judged.qrels, wanted, stamps, protocol=judged.protocol, precision=precision, tokens=tokens)
    notes = [*judged.notes, *result.notes, *unknown_documents(run, judged.source)]
    return msgspec.structs.replace(result, notes=notes, digests={"qrels": qrels_sha256(judged.qrels.judgements())})


def score_ranked(  # noqa: PLR0913 - what decides a result
    run: Run,
    qrels: Qrels,
    named: Sequence[str],
    stamps: Mapping[str, str],
    *,
    protocol: Protocol = _PLAIN,
    depth: int | None = None,
    precision: Precision = "double",
    tokens: DocumentTokens | None = None,
) -> Result:
    """Return the result of *run*: means over all queries of *qrels*, values per query, counts, and the effect of ties.

    Documents that *protocol* leaves out are removed, then lists are cut to *depth*. If the order of scores as float32 gives
    other means than as double, which a run file has, the result has both. Raises LexbenchError if no query of the run is
    judged, or if *precision* is float32 and a score is too large for it.
    """
    # The lists under the rules of the dataset: without documents that it leaves out, and cut to the depth.
    _check_queries(run, qrels, stamps["system"])
    others = without_self_matches(run) if protocol.self_match == "drop" else Filtered(run, 0)
    kept = excluded(others.run, qrels, protocol)
    chosen = kept.run if precision == "double" else kept.run.as_float32()
    deepest = int(np.diff(chosen.offsets).max(initial=0))
    limit = deepest if depth is None else depth
    lists = chosen.cut(limit)
    # Their scores, and the counts that a reader needs beside them.
    scores = score_run(lists, qrels, named, tokens)
    judged = score_run(lists, qrels, [JUDGED]).means[JUDGED]
    counts = Counts(queries=len(scores.query_ids), missing=scores.missing, unjudged=scores.unjudged, judged=judged)
    return Result(
        system=stamps["system"],
        dataset=stamps["dataset"],
        contract=stamps["contract"],
        depth=limit,
        means=scores.means,
        query_ids=list(scores.query_ids),
        per_query={name: values.tolist() for name, values in scores.values.items()},
        top=first_documents(lists, scores.query_ids),
        counts=msgspec.structs.replace(counts, self_matches=others.dropped, excluded=kept.dropped),
        lists=list_facts(lists, qrels),
        ties=tie_report(lists, qrels, named),
        incomplete=incomplete_report(lists, qrels, named),
        precision=lists.precision,
        other_precision=_other_precision(kept.run, lists.precision, scores.means, qrels, limit, tokens),
        notes=[
            *noted("run", run.notes),
            *without_relevant(qrels),
            *unstated_thresholds(qrels, named, stamps["contract"]),
            *_unjudged(run, qrels),
            *_other_forms(run, qrels),
            *_short_lists(named, min(deepest, limit)),
            *too_good(lists, qrels, scores.values),
        ],
    )


def first_documents(lists: Run, query_ids: Sequence[str]) -> list[str]:
    """Return the first documents of each query, as results keep them; "" for a query without any."""
    spans = dict(lists.spans())
    parts = (spans.get(query, slice(0, 0)) for query in query_ids)
    return [kept_text(lists.doc_ids(slice(part.start, min(part.stop, part.start + KEPT)))) for part in parts]


def fitting_defaults(measures: Sequence[str], qrels: Qrels) -> tuple[str, ...]:
    """Return those of default *measures* that need no threshold if grades are continuous; else all."""
    return tuple(name for name in measures if not qrels.continuous or getattr(parse_measure(name), "continuous", False))


def excluded(run: Run, qrels: Qrels, protocol: Protocol) -> Filtered:
    """Return *run* without the documents whose grade *protocol* excludes."""
    return Filtered(run, 0) if protocol.drop_grade is None else without_grade(run, qrels, protocol.drop_grade)


def _other_precision(
    run: Run, precision: Precision, means: dict[str, float], qrels: Qrels, depth: int, tokens: DocumentTokens | None
) -> dict[str, float]:
    """Return those of the *means* by *precision* that the order of scores in the other precision would change."""
    try:
        rounded = run.as_float32()
    except LexbenchError:  # a score is too large for float32: there is no such order
        return {}
    if np.array_equal(run.docs, rounded.docs):
        return {}
    other = score_run((rounded if precision == "double" else run).cut(depth), qrels, list(means), tokens).means
    return {name: mean for name, mean in other.items() if mean != means[name]}


def _check_queries(run: Run, qrels: Qrels, system: str) -> None:
    """Raise LexbenchError if no query of a run is judged: all its scores would be 0."""
    if not run.query_ids:
        raise LexbenchError(f"{system} is empty: no query has a document; a line of a run is: query Q0 document rank score tag")
    if not set(run.query_ids) & set(qrels.query_ids):
        ours, theirs = run.query_ids[0], qrels.query_ids[0]
        raise LexbenchError(
            f"{system} is of another dataset: no query of it is judged; its ids look like {ours!r}, those of the judgements "
            f"like {theirs!r}"
        )


def _unjudged(run: Run, qrels: Qrels) -> list[Note]:
    """Return a note if no document of a run is judged for any query: its ids are probably those of another dataset."""
    if not len(run) or np.isin(run.table, qrels.doc_ids).any():
        return []
    ours, theirs = text_of(run.table[run.docs[0]]), text_of(qrels.doc_ids[0])
    line = f"none of its documents is judged; their ids look like {ours!r}, those of the judgements like {theirs!r}"
    return [Note("documents", line)]


def _other_forms(run: Run, qrels: Qrels) -> Iterator[Note]:
    """Yield a note if a run has judged queries or documents in another form, e.g. 007 for 7: they count as not returned.

    `_unjudged` is about runs of which no document is judged.
    """
    queries, documents = factorize(encode(run.query_ids))[0], run.table
    for what, ours, theirs in (("queries", queries, encode(qrels.query_ids)), ("documents", documents, qrels.doc_ids)):
        judged = np.unique(theirs)
        missing = lookup(ours, judged) < 0
        absent = [] if missing.all() else judged[missing][:_SOME].tolist()
        forms = [(text_of(name), form) for name in absent for form in _forms(text_of(name))]
        others = encode(form for _, form in forms)
        found = np.flatnonzero((lookup(ours, others) >= 0) & ~np.isin(others, judged)) if forms else ()
        for at in found[:1]:
            name, form = forms[int(at)]
            line = f"{what} of the run have ids like {form!r}, and the judgements {name!r}: write them in the same way"
            yield Note("documents", line)


def _forms(name: str) -> Iterator[str]:
    """Yield the forms that tools give to an id of digits, e.g. 007 for 7, 7.0, 1e+05 (R) or 1.23457E+15 (Excel)."""
    digits = name.removesuffix(".0")
    if digits.isascii() and digits.isdecimal() and len(digits) < _WIDEST:
        short, number = str(int(digits)), float(digits)
        exact = (form for form in (repr(number), f"{number:.0e}") if float(form) == number)
        widths = (short.zfill(width) for width in range(len(short), _PADDED))
        yield from sorted({digits, *exact, *widths, f"{number:.5E}"} - {name})


def unknown_documents(run: Run, source: Source | None) -> list[Note]:
    """Return a note if *run* has documents that *source*, a user's folder, lacks. Other sources are not read."""
    if not isinstance(source, Files):
        return []
    found = set(run.table[np.unique(run.docs)].tolist())
    unknown = found - {bytes_of(document.doc_id) for document in source.documents()}
    if not unknown:
        return []
    line = f"{len(unknown):,} of its {len(found):,} documents are not in the corpus, e.g. {text_of(min(unknown))!r}"
    return [Note("documents", line)]


def without_relevant(qrels: Qrels) -> list[Note]:
    """Return a note if judged queries have no document of a grade above 0: every system scores 0 on them."""
    best = np.maximum.reduceat(qrels.grades, qrels.offsets[:-1])
    none = int(np.count_nonzero(best <= 0))
    line = f"{none} of {len(best)} judged queries have no relevant document: on them every system scores 0"
    return [Note("judgements", line)] if none else []


def unstated_thresholds(qrels: Qrels, named: Sequence[str], stamp: str) -> list[Note]:
    """Return a note if several grades are relevant in some of the measures *named*, and no published contract says from which.

    *stamp* is that of the contract, "none" if there is none.
    """
    grades = np.unique(qrels.grades).tolist()
    if qrels.continuous and not any(hasattr(parse_measure(name), "rel") for name in named):
        ends = f"from {grades[0]:g} to {grades[-1]:g}"
        return [Note("judgements", f"the grades are continuous, {ends}; other measures take one, e.g. -m 'RR(rel=0.5)@10'")]
    bare = [name for name in named if getattr(parse_measure(name), "rel", 1) is None]
    if not (stamp == "none" or stamp.endswith("@0")) or qrels.continuous or grades[-1] <= 1 or not bare:
        return []
    name, _, cutoff = bare[0].partition("@")
    several = ", ".join(map(str, grades)) if len(grades) <= _FEW_GRADES else f"{grades[0]} to {grades[-1]}"
    typed = f"{name}(rel=2)" + f"@{cutoff}" * bool(cutoff)
    line = f"the grades are {several}, and {', '.join(bare)} count{'s' * (len(bare) == 1)} a document as relevant from grade 1"
    return [Note("judgements", f"{line}; to count from 2, type e.g. -m '{typed}'")]


def _short_lists(named: Sequence[str], deepest: int) -> list[Note]:
    """Return a note if some of the measures *named* look deeper than the longest list of a run file."""
    cutoffs = {name: cutoff_of(name) or 0 for name in named}
    deeper = [name for name, cutoff in cutoffs.items() if cutoff > deepest]
    line = f"the longest list has {deepest} document{'s' * (deepest != 1)}, and {', '.join(deeper)} would look at more"
    return [Note("short lists", line)] if deeper else []


_SOME = 1000  # absent ids of which other forms are sought
_WIDEST, _PADDED = 25, 10  # digits of an id, and of one with leading zeros
_ENOUGH = 20  # queries, from which on a coincidence is unlikely
_PERFECT = 0.95  # share of the queries


def too_good(lists: Run, qrels: Qrels, values: Mapping[str, NDArray[np.float64]]) -> Iterator[Note]:
    """Yield a note for each sign that *lists* were made from the judgements; *values* are those of queries, by measure."""
    judged = join(lists, qrels)
    relevant = judged.relevant(1)
    if len(qrels.query_ids) < _ENOUGH:
        return
    graded = next((name for name in values if name.startswith("nDCG")), "")
    if graded and (line := mostly_perfect(graded, values[graded], qrels)):
        yield Note("too good", line)
    returned = int(judged.retrieved.sum())
    incomplete = np.diff(qrels.offsets).min() < len(np.unique(lists.docs))
    if returned and len(judged.entry) == returned and incomplete:
        yield Note("too good", f"all {returned:,} documents in its lists are judged for their query")
    if returned and np.array_equal(judged.retrieved, relevant) and len(np.unique(relevant)) > 1:
        yield Note("too good", "each of its lists is as long as the query has relevant documents")


def mostly_perfect(measure: str, values: NDArray[np.float64], qrels: Qrels) -> str:
    """Return a line if the *values* (queries,) of a measure are 1 for nearly all queries, and these are enough; else ""."""
    answerable = np.maximum.reduceat(qrels.grades, qrels.offsets[:-1]) > 0
    perfect = int(np.count_nonzero(values[answerable] >= 1))
    if len(values) < _ENOUGH or not perfect or perfect < _PERFECT * np.count_nonzero(answerable):
        return ""
    return f"{measure} is 1 for {perfect} of {np.count_nonzero(answerable)} queries that have a relevant document"


def noted(kind: NoteKind, lines: Iterable[str]) -> tuple[Note, ...]:
    """Return *lines* as notes of one *kind*."""
    return tuple(Note(kind, line) for line in lines)
