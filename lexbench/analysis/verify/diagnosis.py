"""Why a score is off: its run is scored again under rules that others have used by mistake, to see which one fits.

Ties, the precision of scores and queries without results are not here: every result says itself what they change.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from lexbench import measures
from lexbench.analysis.stored_results import StoredResult, run_behind, stored_results
from lexbench.analysis.verify.published import PublishedScore
from lexbench.analysis.verify.verdicts import Cause, Check
from lexbench.contracts import contract_of
from lexbench.datasets.dataset import open_dataset
from lexbench.errors import CannotStart
from lexbench.storage.store import Store
from lexbench.trec.ids import encode, lookup
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run, without_self_matches

_GRADES = (1, 2, 3)  # relevance thresholds in use
_RECALLS = ("R", "RCap", "Success")


def diagnose(check: Check, store: Store) -> list[Cause] | str:
    """Return the rules that explain a check that is off; or as text, why that is unknown."""
    run = run_behind(StoredResult(check.result, None), partial(stored_results, store))
    if run is None:
        return f"the cause is unknown, because its run is not in the store {store.root}"
    try:
        return causes(run, open_dataset(contract_of(check.result.dataset)).qrels, check.published[0])
    except CannotStart as error:
        return f"the cause is unknown: {error}"


def causes(run: Run, qrels: Qrels, score: PublishedScore) -> list[Cause]:
    """Return the rules under which *run* has the published *score* within its tolerance."""
    candidates = [Cause(what, mean) for what, mean in _variants(run, qrels, score.measure)]
    return [cause for cause in candidates if abs(cause.mean - score.value) <= score.tolerance(len(qrels.query_ids))]


def _variants(run: Run, qrels: Qrels, measure: str) -> Iterator[tuple[str, float]]:
    """Yield each other rule, in words that follow "would be .1234", and the mean under it."""
    dropped = without_self_matches(run)
    if dropped.dropped:
        yield "with the query's own document dropped", _mean(dropped.run, qrels, measure)
    if (extended := _with_self_matches(run)) is not None:
        yield "with the query's own document kept at the first rank", _mean(extended, qrels, measure)
    for other, what in _other_measures(measure):
        yield what, _mean(run, qrels, other)
    if measure.startswith("nDCG"):
        yield "with a gain of 2^grade - 1", _mean(run, replace(qrels, grades=2 ** np.maximum(qrels.grades, 0) - 1), measure)


def _mean(run: Run, qrels: Qrels, measure: str) -> float:
    return measures.score(run, qrels, [measure]).means[str(measures.parse(measure))]


def _other_measures(measure: str) -> Iterator[tuple[str, str]]:
    """Yield the measures that *measure* is mistaken for, and the difference in words."""
    parsed = measures.parse(measure)
    name = type(parsed).__name__
    cutoff = getattr(parsed, "cutoff", None)
    at = f"@{cutoff}" if cutoff else ""
    if hasattr(parsed, "rel"):
        now = parsed.rel or 1
        for grade in _GRADES:
            if grade != now:
                yield f"{name}(rel={grade}){at}", f"with {grade} instead of {now} as the lowest relevant grade"
        for other in _RECALLS if name in _RECALLS else ():
            if other != name:
                yield f"{other}(rel={now}){at}", f"as {other}{at}"


def _with_self_matches(run: Run) -> Run | None:
    """Return *run* with each query's own document at the first rank if the list lacks it; None if no query is a document."""
    own = lookup(run.table, encode(run.query_ids))  # the code of each query's own document, or -1
    lists = np.repeat(np.arange(len(own)), np.diff(run.offsets))
    present = np.bincount(lists[run.docs == own[lists]], minlength=len(own)) > 0
    added = np.flatnonzero((own >= 0) & ~present & (np.diff(run.offsets) > 0))
    if not len(added):
        return None
    firsts = run.offsets[added]
    scores = np.nextafter(run.scores[firsts], run.scores.dtype.type(np.inf))  # just above the best score of the list
    return replace(
        run,
        offsets=run.offsets + np.searchsorted(added, np.arange(len(run.offsets))),
        docs=np.insert(run.docs, firsts, own[added].astype(np.int32)),
        scores=np.insert(run.scores, firsts, scores),
    )
