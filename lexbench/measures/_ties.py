"""What ties of score could do to a measure: its mean with every tied group in its worst and in its best order.

Two scores tie if they are equal or neighbouring float32 numbers. Neighbours differ by rounding alone, and a retriever that
breaks its ties by a rule of its own (`bm25` does, as Anserini) can tell us only by lowering equal scores to the next number.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.measures._judged_run import JudgedRun, join
from lexbench.measures._notation import AnyMeasure, External, parse
from lexbench.results import Tie
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run


def tie_report(run: Run, qrels: Qrels, measures: Iterable[str | AnyMeasure]) -> dict[str, Tie]:
    """Return for each measure of ours, by its text, the interval of its mean over all orders of documents with equal scores.

    The bounds are reached: best has the higher grades of a tied group first and unjudged documents last, worst is the reverse,
    and no measure of ours gains by an exchange that puts a lower grade first. Documents that tie with the last of a list and
    are not in the run are unknown and not counted. Measures that ir-measures computes have no entry.
    """
    wanted = [parse(one) if isinstance(one, str) else one for one in measures]
    judged = join(run, qrels)
    worst, best = _extremes(run, judged)
    return {
        str(measure): Tie(
            lowest=float(measure.per_query(worst).mean()),
            highest=float(measure.per_query(best).mean()),
            queries=_across(run, qrels, measure.cutoff),
        )
        for measure in wanted
        if not isinstance(measure, External)
    }


class _Extremes(NamedTuple):
    worst: JudgedRun
    best: JudgedRun


def _extremes(run: Run, judged: JudgedRun) -> _Extremes:
    """Return the judged documents at the ranks that they have in the worst and in the best order."""
    starts = np.flatnonzero(_differs(run))  # where a tied group begins; most are of one document
    stops = np.append(starts[1:], len(run))
    group = np.searchsorted(starts, judged.entry, side="right") - 1
    by_grade = np.lexsort((-judged.grade, group))
    place = np.empty_like(group)  # of each judged document among those of its group, the best first
    place[by_grade] = np.arange(len(group)) - np.searchsorted(group[by_grade], group[by_grade])
    first = judged.rank - judged.entry + starts[group]
    last = judged.rank - judged.entry + stops[group] - 1
    return _Extremes(judged.reordered(last - place), judged.reordered(first + place))


def _differs(run: Run) -> NDArray[np.bool_]:
    """Return which entries do not tie with the one before them in their list (entries,)."""
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


def _tie(scores: NDArray[np.float32], following: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which of *scores* (n,) are equal to the ones *following* them in their lists, or one float32 number above."""
    return following >= np.nextafter(scores, np.float32(-np.inf))
