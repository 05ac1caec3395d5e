"""Scoring: a run, the judgements and measures in, one value a query and measure out; and what ties of score could change.

Two scores tie if they are equal or neighbouring numbers of the precision in which the run keeps them: float32, or double for
run files. Neighbours differ by rounding alone, and a retriever that breaks its ties by a rule of its own (`bm25` does, as
Anserini) can tell us only by lowering equal scores to the next number.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import LexbenchError
from lexbench.measures import _external
from lexbench.measures._external import External
from lexbench.measures._notation import AnyMeasure, parse
from lexbench.plugins import Measure
from lexbench.results import Tie
from lexbench.trec.judged_run import JudgedRun, join
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run


@dataclass(frozen=True, eq=False)
class Scores:
    """The values of some measures. Means are over the queries of the qrels; one that the run does not have scores 0."""

    query_ids: tuple[str, ...]  # of the qrels, sorted
    values: Mapping[str, NDArray[np.float64]]  # by the measure's text, (queries,)
    means: dict[str, float]  # by the measure's text
    missing: int  # queries without a single document in the run
    unjudged: int  # queries of the run that have no judgement and are left out
    judged: int  # judged documents found, as deep as our measures look


def score(run: Run, qrels: Qrels, measures: Iterable[str | AnyMeasure]) -> Scores:
    """Score *run* with *measures*, given as text (`nDCG@10`) or as values; the result keeps their order.

    Ours are computed from one join of run and judgements. The others go to ir-measures, on scores without ties.
    LexbenchError where there are no judgements.
    """
    if not len(qrels):
        raise LexbenchError("there are no judgements to score with")
    by_text = {str(measure): measure for measure in _parsed(measures)}
    ours = {text: measure for text, measure in by_text.items() if not isinstance(measure, External)}
    judged = join(run, qrels, _depth(ours.values()))
    values = {text: measure.per_query(judged) for text, measure in ours.items()}
    means = {text: float(value.mean()) for text, value in values.items()}
    if external := [measure for measure in by_text.values() if isinstance(measure, External)]:
        for text, scores in _external.calc(external, run, qrels).items():
            values[text], means[text] = scores
    return Scores(
        query_ids=qrels.query_ids,
        values={text: values[text] for text in by_text},
        means={text: means[text] for text in by_text},
        missing=int(np.count_nonzero(judged.retrieved == 0)),
        unjudged=len(set(run.query_ids) - set(qrels.query_ids)),
        judged=len(judged.rank),
    )


def _parsed(measures: Iterable[str | AnyMeasure]) -> list[AnyMeasure]:
    return [parse(measure) if isinstance(measure, str) else measure for measure in measures]


def _depth(measures: Iterable[Measure]) -> int | None:
    """Return the largest cutoff of *measures*; None where one looks at whole lists."""
    cutoffs = [measure.cutoff for measure in measures]
    return None if None in cutoffs else max((cutoff for cutoff in cutoffs if cutoff is not None), default=0)


def tie_report(run: Run, qrels: Qrels, measures: Iterable[str | AnyMeasure]) -> dict[str, Tie]:
    """Return for each measure of ours, by its text, the interval of its mean over all orders of documents whose scores tie.

    The bounds are reached: best has the higher grades of a tied group first and unjudged documents last, worst is the reverse,
    and no measure of ours gains by an exchange that puts a lower grade first. Documents that tie with the last of a list and
    are not in the run are unknown and not counted. Measures that ir-measures computes have no entry.
    """
    parsed = _parsed(measures)
    judged = join(run, qrels)
    worst, best = _extremes(run, judged)
    return {
        str(measure): Tie(
            lowest=float(measure.per_query(worst).mean()),
            highest=float(measure.per_query(best).mean()),
            queries=_across(run, qrels, measure.cutoff),
        )
        for measure in parsed
        if not isinstance(measure, External)
    }


class _Extremes(NamedTuple):
    """The judged documents in the worst and in the best order."""

    worst: JudgedRun
    best: JudgedRun


def _extremes(run: Run, judged: JudgedRun) -> _Extremes:
    """Return the judged documents at the ranks that they have in the worst and in the best order."""
    starts = np.flatnonzero(untied(run))  # where a tied group begins; most are of one document
    stops = np.append(starts[1:], len(run))
    group = np.searchsorted(starts, judged.entry, side="right") - 1
    by_grade = np.lexsort((-judged.grade, group))
    within = np.empty_like(group)  # the rank of each judged document among those of its group, from 0, the best first
    within[by_grade] = np.arange(len(group)) - np.searchsorted(group[by_grade], group[by_grade])
    first = judged.rank - judged.entry + starts[group]
    last = judged.rank - judged.entry + stops[group] - 1
    return _Extremes(judged.reordered(last - within), judged.reordered(first + within))


def untied(run: Run) -> NDArray[np.bool_]:
    """Return which entries (entries,) do not tie with the entry before them in their list.

    Scores tie that are equal, or as near as two numbers can be: exports lower tied scores by so much.
    """
    differs = np.ones(len(run), dtype=bool)
    differs[1:] = ~_tie(run.scores[:-1], run.scores[1:])
    differs[run.offsets[:-1][np.diff(run.offsets) > 0]] = True
    return differs


def _across(run: Run, qrels: Qrels, cutoff: int | None) -> float:
    """Return the share of the qrels' queries in which the last document within the cutoff ties with the next."""
    if cutoff is None:
        return 0.0
    judged = set(qrels.query_ids)
    reaches = (np.diff(run.offsets) > cutoff) & np.array([query_id in judged for query_id in run.query_ids], dtype=bool)
    after = run.offsets[:-1][reaches] + cutoff
    return float(np.count_nonzero(_tie(run.scores[after - 1], run.scores[after])) / len(qrels.query_ids))


def _tie(scores: NDArray[np.floating], following: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Return which of *scores* (n,) are equal to the ones *following* them in their lists, or one number above."""
    return np.asarray(following >= np.nextafter(scores, scores.dtype.type(-np.inf)))
