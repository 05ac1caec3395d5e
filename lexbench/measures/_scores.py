"""Scoring: one value per query and measure from a run and its judgements; and the influence of ties and unjudged documents.

Two scores tie if they are equal or neighbouring numbers in the precision of the run: float32, or double for run files.
Neighbours differ by rounding only, and a retriever with its own rule for ties (`bm25` follows Anserini) expresses it by
lowering equal scores to the next number.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import LexbenchError
from lexbench.measures import _external
from lexbench.measures._budget import Budget
from lexbench.measures._external import External
from lexbench.measures._functions import Function, function_values
from lexbench.measures._notation import parse, parse_native
from lexbench.measures.judged import Judged
from lexbench.plugins import Measure
from lexbench.results import Incomplete, Tie
from lexbench.trec.judged_run import DocumentTokens, JudgedRun, join, judged_queries
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run, tied, untied

_DEEPEST = 20  # largest cutoff for which unjudged documents are reported; further down, few documents are judged


@dataclass(frozen=True, eq=False)
class Scores:
    """The values of some measures. Means are over the queries of the qrels; a query that the run lacks scores 0."""

    query_ids: tuple[str, ...]  # of the qrels, sorted
    values: Mapping[str, NDArray[np.float64]]  # by the measure's text, (queries,)
    means: dict[str, float]  # by the measure's text
    missing: int  # queries without any document in the run
    unjudged: int  # queries of the run without judgements, which are left out


def score(run: Run, qrels: Qrels, measures: Iterable[str], tokens: DocumentTokens | None = None) -> Scores:
    """Score *run* with *measures*, e.g. `nDCG@10`. The result keeps their order. Budgets of tokens take *tokens*.

    Our measures are computed from one join of run and judgements; ir-measures computes the others from scores without ties.
    Raises LexbenchError if there are no judgements, or if a measure does not return a finite number per query.
    """
    if not len(qrels):
        raise LexbenchError("there are no judgements to score with")
    by_text = {str(measure): measure for measure in map(parse, measures)}
    ours = {text: measure for text, measure in by_text.items() if not isinstance(measure, External)}
    if qrels.continuous:
        _check_thresholds(by_text, qrels)
    depths = [measure.depth for measure in ours.values()]
    # None: a measure looks at whole lists
    depth = None if None in depths else max((depth for depth in depths if depth is not None), default=0)
    judged = join(run, qrels, depth, tokens)
    values = {text: _values(measure, judged) for text, measure in ours.items()}
    means = {text: float(value.mean()) for text, value in values.items()}
    theirs = [measure for measure in by_text.values() if isinstance(measure, External)]
    functions = [measure for measure in theirs if isinstance(measure, Function)]
    found = function_values(functions, run, qrels) if functions else {}
    if external := [measure for measure in theirs if not isinstance(measure, Function)]:
        found |= _external.calc(external, run, qrels)
    for text, scores in found.items():
        values[text], means[text] = scores
    return Scores(
        query_ids=qrels.query_ids,
        values={text: values[text] for text in by_text},
        means={text: means[text] for text in by_text},
        missing=int(np.count_nonzero(judged.retrieved == 0)),
        unjudged=len(set(run.query_ids) - set(qrels.query_ids)),
    )


def _values(measure: Measure, judged: JudgedRun) -> NDArray[np.float64]:
    """Return the value of a measure for each query. Raises LexbenchError unless these are finite numbers (queries,)."""
    made, found = measure.per_query(judged), np.array(None)
    with suppress(TypeError, ValueError):  # e.g. rows of several lengths
        found = np.asarray(made)
    numbers = found.dtype.kind in "biuf" and bool(np.isfinite(found).all())
    if not numbers or found.shape != (len(judged.query_ids),):
        what = f"{found.dtype} {found.shape}" if numbers else "something else"
        raise LexbenchError(f"{measure} must return a finite number for each of {len(judged.query_ids):,} queries, not {what}")
    return found.astype(np.float64, copy=False)


def _check_thresholds(measures: Mapping[str, Any], qrels: Qrels) -> None:
    """Raise LexbenchError, with all of them, for *measures* that cannot use continuous grades."""
    low, high = float(qrels.grades.min()), float(qrels.grades.max())
    measures = {text: measure for text, measure in measures.items() if not isinstance(measure, Function)}
    external = [text for text, measure in measures.items() if isinstance(measure, External)]
    if external:
        raise LexbenchError(f"ir-measures takes whole grades for {', '.join(external)}; these go from {low:g} to {high:g}")
    bare = [text for text, one in measures.items() if not one.continuous and getattr(one, "rel", None) is None]
    if bare:
        name, _, cutoff = bare[0].partition("@")
        typed = f"{name}(rel={max((low + high) / 2, high / 2):.2g})" + (f"@{cutoff}" if cutoff else "")
        raise LexbenchError(
            f"the grades are continuous, from {low:g} to {high:g}, so from which grade is a document relevant for "
            f"{', '.join(bare)}? Type it, e.g. -m '{typed}', or measure nDCG alone: -m nDCG@10"
        )


def tie_report(run: Run, qrels: Qrels, measures: Iterable[str]) -> dict[str, Tie]:
    """Return for each of our measures, by text, the interval of its mean over all orders of documents with tied scores.

    One order of a tied group has higher grades first and unjudged documents last, the other is the reverse. Both bounds are
    attained, and no order leaves the interval, if a measure always gains from a higher grade first, or always loses: all of
    ours gain. Documents that tie with the last one of a list but are not in the run are unknown, so they are not counted.
    Measures of ir-measures, and with a budget of tokens, have no entry.
    """
    orders = _extremes(run, join(run, qrels))
    report = {}
    for measure in map(parse, measures):
        if not isinstance(measure, External | Budget):
            values = np.array([measure.per_query(judged) for judged in orders])
            lowest, highest = float(values.min(axis=0).mean()), float(values.max(axis=0).mean())
            report[str(measure)] = Tie(lowest=lowest, highest=highest, queries=_across(run, qrels, measure.cutoff))
    return report


def _extremes(run: Run, judged: JudgedRun) -> tuple[JudgedRun, JudgedRun]:
    """Return the judged documents at their ranks in the worst order, and in the best."""
    starts = np.flatnonzero(untied(run))  # where a tied group begins; most groups have one document
    stops = np.append(starts[1:], len(run))
    group = np.searchsorted(starts, judged.entry, side="right") - 1
    by_grade = np.lexsort((-judged.grade, group))
    within = np.empty_like(group)  # rank of each judged document in its group, from 0, the best first
    within[by_grade] = np.arange(len(group)) - np.searchsorted(group[by_grade], group[by_grade])
    first = judged.rank - judged.entry + starts[group]
    last = judged.rank - judged.entry + stops[group] - 1
    return judged.reordered(last - within), judged.reordered(first + within)


def _across(run: Run, qrels: Qrels, cutoff: int | None) -> float:
    """Return the share of the queries in which the last document within the cutoff ties with the next one."""
    if cutoff is None:
        return 0.0
    reaches = (np.diff(run.offsets) > cutoff) & (judged_queries(run, qrels) >= 0)
    after = run.offsets[:-1][reaches] + cutoff
    return float(np.count_nonzero(tied(run.scores[after - 1], run.scores[after])) / len(qrels.query_ids))


# ---- unjudged documents ------------------------------------------------------------------------------------------------------


def incomplete_report(run: Run, qrels: Qrels, measures: Iterable[str]) -> dict[str, Incomplete]:
    """Return for each of our measures with a cutoff up to 20, except `Judged`, how much depends on unjudged documents.

    Judgements cover what some systems found, the pool. A system outside the pool finds unjudged documents, which are scored as
    irrelevant. `condensed` is the mean on lists without unjudged documents (Sakai, SIGIR 2007), which often flatters.
    `highest` is the mean if all unjudged documents had the best grade. The truth is between the usual mean and `highest`; of
    nDCG and AP, which more relevant documents can also lower, it may be a little outside.
    """
    native = [(measure, parse_native(measure)) for measure in measures]
    shallow = [
        (text, one)
        for text, one in native
        if one and one.cutoff and one.cutoff <= _DEEPEST and not isinstance(one, Judged) and not getattr(one, "ties", None)
    ]
    if not shallow:
        return {}
    judged = join(run, qrels)
    condensed = judged.reordered(np.arange(len(judged.query)) - np.searchsorted(judged.query, judged.query) + 1)
    filled = {cutoff: _filled(run, qrels, cutoff) for cutoff in {one.cutoff for _, one in shallow if one.cutoff}}
    return {
        text: Incomplete(
            condensed=float(one.per_query(condensed).mean()), highest=float(one.per_query(filled[one.cutoff or 0]).mean())
        )
        for text, one in shallow
    }


def _filled(run: Run, qrels: Qrels, cutoff: int) -> JudgedRun:
    """Return the first *cutoff* documents of each list, with the best grade for unjudged ones."""
    judged = join(run, qrels, cutoff)
    of_entry = np.repeat(judged_queries(run, qrels), np.diff(run.offsets))
    added = (run.ranks <= cutoff) & (of_entry >= 0)
    added[judged.entry] = False
    entries = np.flatnonzero(added)
    best = np.full(len(entries), qrels.grades.max(), qrels.grades.dtype)
    query, rank = np.append(judged.query, of_entry[entries]), np.append(judged.rank, run.ranks[entries])
    order = np.lexsort((rank, query))
    every_query, every_grade = np.append(judged.judged_query, of_entry[entries]), np.append(judged.judged_grade, best)
    by_grade = np.lexsort((-every_grade, every_query))
    return replace(
        judged,
        query=query[order],
        rank=rank[order],
        grade=np.append(judged.grade, best)[order],
        entry=np.append(judged.entry, entries)[order],
        judged_query=every_query[by_grade],
        judged_grade=every_grade[by_grade],
    )
