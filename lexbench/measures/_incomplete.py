"""What a mean would be if documents that nobody judged were not taken for irrelevant ones.

Judgements are of what some systems found, the pool. A system that was not among them finds documents without judgement, and
is scored as if they were worthless. Two figures beside a mean say how much hangs on that: on condensed lists, from which what
nobody judged is taken out (Sakai, SIGIR 2007), and the most that it could be, if all of it were of the best grade. The truth
is between the mean and the most; a condensed list is no bound, and often flatters.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from lexbench.measures._notation import AnyMeasure, parse_native
from lexbench.measures.judged import Judged
from lexbench.results import Incomplete
from lexbench.trec.judged_run import JudgedRun, join
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run

_DEEPEST = 20  # of a measure: below, hardly anything is judged anywhere, and the most says nothing


def incomplete_report(run: Run, qrels: Qrels, measures: Iterable[str | AnyMeasure]) -> dict[str, Incomplete]:
    """Return both figures for each measure of ours that looks at no more than 20 documents; but not for `Judged` itself."""
    native = [(str(measure), parse_native(str(measure))) for measure in measures]
    shallow = [
        (text, one) for text, one in native if one and one.cutoff and one.cutoff <= _DEEPEST and not isinstance(one, Judged)
    ]
    if not shallow:
        return {}
    condensed = _condensed(join(run, qrels))
    filled = {cutoff: _filled(run, qrels, cutoff) for cutoff in {one.cutoff for _, one in shallow if one.cutoff}}
    return {
        text: Incomplete(
            condensed=float(one.per_query(condensed).mean()), highest=float(one.per_query(filled[one.cutoff or 0]).mean())
        )
        for text, one in shallow
    }


def _condensed(judged: JudgedRun) -> JudgedRun:
    """Return the judged documents at the ranks that they have among themselves."""
    places = np.arange(len(judged.query))
    return judged.reordered(places - np.searchsorted(judged.query, judged.query) + 1)


def _filled(run: Run, qrels: Qrels, cutoff: int) -> JudgedRun:
    """Return the first *cutoff* documents of each list, those without judgement as if they were of the best grade."""
    judged = join(run, qrels, cutoff)
    index = {query_id: number for number, query_id in enumerate(qrels.query_ids)}
    queries = np.array([index.get(query_id, -1) for query_id in run.query_ids], dtype=np.int64)
    of_entry = np.repeat(queries, np.diff(run.offsets))
    added = (run.ranks <= cutoff) & (of_entry >= 0)
    added[judged.entry] = False
    entries = np.flatnonzero(added)
    best = np.full(len(entries), qrels.grades.max(), np.int32)
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
