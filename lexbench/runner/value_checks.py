"""Values that no ranking can have: relations between measures, and what the judgements and the kept documents allow.

`impossible_values` needs a result alone. `unattainable_values` also needs the judgements, and scores the documents that a
result keeps (`Result.top`) again. Values are those of lexbench's own measures; values of other measures are not checked.
"""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import permutations
from math import lcm
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import LexbenchError, shortened
from lexbench.measures import incomplete_report, parse_native
from lexbench.plugins import Measure
from lexbench.results import KEPT, Result, kept_ids
from lexbench.runner.scoring import mostly_perfect
from lexbench.trec.ids import text_of
from lexbench.trec.judged_run import join
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run

_CLOSE = 1e-9  # allowed between two computations of one value
_EXACT = 1e-12  # allowed between a fraction and its double
_MOST_RELEVANT = 10_000  # the largest divisor of a recall that is looked for
_COMBINATIONS = 20_000  # of grades at half of the ranks, when the attainable values of nDCG are listed
_BINARY = ("RR", "Success", "R", "RCap", "P", "AP")  # above 0 if and only if a relevant document was found
_GROWING = ("RR", "Success", "R", "AP", "AllRelevant")  # with the cutoff
_BELOW = {"AP": ("R", "RCap"), "R": ("RCap", "Success"), "RCap": ("Success",), "P": ("RCap",), "RR": ("Success",)}

Values = NDArray[np.float64]


class _Scored(NamedTuple):
    """The values per query of one of lexbench's measures."""

    text: str
    kind: str
    cutoff: float  # infinity: all documents
    rel: float  # the lowest relevant grade
    stated: bool  # whether the measure states it
    values: Values  # (queries,)


def _scored(result: Result) -> list[_Scored]:
    """Return the values of measures that lexbench itself computes without the documents, if each query has one."""
    found = []
    for text, values in result.per_query.items():
        measure = own_measure(text)
        if measure is None or getattr(measure, "counted_by", None) or getattr(measure, "ties", None):
            continue
        if len(values) != len(result.query_ids):
            continue
        cutoff = float("inf") if measure.cutoff is None else float(measure.cutoff)
        rel = getattr(measure, "rel", None)
        found.append(_Scored(text, type(measure).__name__, cutoff, rel or 1, rel is not None, np.array(values, np.float64)))
    return found


def native_measure(text: str) -> Measure | None:
    """Return a measure that lexbench or a plug-in computes; None for those of ir-measures and unknown ones."""
    try:
        return parse_native(text)
    except LexbenchError:
        return None


def own_measure(text: str) -> Measure | None:
    """Return a measure that is part of lexbench; None for those of plug-ins and of ir-measures, and for unknown ones."""
    measure = native_measure(text)
    return measure if measure and type(measure).__module__.startswith("lexbench.measures.") else None


# ---- relations that hold for any ranking and any judgements ----------------------------------------------------------------


def impossible_values(result: Result) -> Iterator[str]:
    """Yield what is impossible in the values per query of a result, whatever was ranked and judged.

    A result over several seeds has means of several rankings, so only what means keep is checked.
    """
    scored, seeds = _scored(result), _seeds(result)
    for one in scored:
        yield from _said(result, one.text, one.values, *_not_a_value(one, seeds))
    if seeds == 1:
        yield from _one_count(result, scored)
    for one, other in permutations(scored, 2):
        yield from _related(result, one, other)
    yield from _unjudged_bounds(result)


def _said(result: Result, measure: str, values: Values, wrong: NDArray[np.bool_], why: str) -> Iterator[str]:
    """Yield the first *wrong* query (queries,) of a measure, with its value and the reason."""
    if wrong.any():
        at = int(wrong.argmax())
        yield f"{measure} of query {shortened(result.query_ids[at], 40)} is {values[at]:.6g}, and {why}"


def _seeds(result: Result) -> int:
    """Return of how many rankings the values of a result are means: 1, or the number of seeds."""
    return max(len(result.seeds.systems), 1) if result.seeds else 1


def _not_a_value(one: _Scored, seeds: int) -> tuple[NDArray[np.bool_], str]:
    """Return which values (queries,) a measure alone can never have, as means of so many *seeds*, and why."""
    values, distinct, place = one.values, *np.unique(one.values, return_inverse=True)
    if one.kind == "RR" and seeds == 1:
        deep = (values > 0) & (values < 1 / one.cutoff - _CLOSE)
        return deep | ~_is_reciprocal(values), "a reciprocal rank is 0 or 1/rank, within the cutoff"
    if one.kind in ("Success", "AllRelevant"):
        return ~_whole(values * seeds), f"it can only be 0 or 1{_of_seeds(seeds)}"
    if one.kind == "P":
        why = f"it is a number of documents divided by {one.cutoff:.0f}{_of_seeds(seeds)}"
        return ~_whole(values * one.cutoff * seeds), why
    if seeds > 1:
        return np.zeros(len(values), bool), ""
    if one.kind in ("R", "RCap", "Judged"):
        limit = _MOST_RELEVANT if one.kind == "R" else int(min(one.cutoff, _MOST_RELEVANT))
        fractions = [Fraction(value).limit_denominator(limit) for value in distinct.tolist()]
        off = np.array([abs(float(near) - value) > _EXACT for near, value in zip(fractions, distinct, strict=True)])
        what = "documents by documents" if one.kind == "R" else f"documents by at most {limit}"
        return off[place], f"it is a share of {what}"
    return np.zeros(len(values), bool), ""


def _of_seeds(seeds: int) -> str:
    return f" in each of {seeds} seeds" if seeds > 1 else ""


def _whole(numbers: Values) -> NDArray[np.bool_]:
    return np.abs(numbers - np.round(numbers)) <= _CLOSE * np.maximum(1, np.abs(numbers))


def _one_count(result: Result, scored: Sequence[_Scored]) -> Iterator[str]:
    """Yield a query whose recalls cannot have the same number of relevant documents as divisor."""
    recalls = [one for one in scored if one.kind == "R"]
    for rel in {one.rel for one in recalls}:
        same = [one for one in recalls if one.rel == rel]
        rows = np.unique(np.stack([one.values for one in same], axis=1), axis=0, return_index=True)
        for row, at in zip(*rows, strict=True):
            divisor = lcm(*(Fraction(value).limit_denominator(_MOST_RELEVANT).denominator for value in row.tolist()))
            found = [value * divisor for value in row.tolist()]
            if any(count > one.cutoff + _CLOSE for count, one in zip(found, same, strict=True)):
                one = next(one for count, one in zip(found, same, strict=True) if count > one.cutoff + _CLOSE)
                why = f"with {divisor} or more relevant documents, more than {one.cutoff:.0f} would have been found"
                wrong = np.arange(len(one.values)) == at
                yield from _said(result, one.text, one.values, wrong, why)


def _related(result: Result, one: _Scored, other: _Scored) -> Iterator[str]:
    """Yield a query in which two measures contradict each other. Each pair comes in both orders."""

    def faults(wrong: NDArray[np.bool_], why: str) -> Iterator[str]:
        return _said(result, one.text, one.values, wrong, f"{other.text} {why}")

    larger, same_kind, same_rel = one.values > other.values + _CLOSE, one.kind == other.kind, one.rel == other.rel
    if one.cutoff <= other.cutoff and _implies(one, other):
        yield from faults((one.values > 0) & (other.values <= 0), "is 0, so no relevant document was found")
    if same_kind and same_rel and one.kind in _GROWING and one.cutoff < other.cutoff:
        yield from faults(larger, "of more documents is smaller")
        if one.kind == "RR" and result.seeds is None:
            yield from faults((one.values > 0) & (np.abs(one.values - other.values) > _CLOSE), "has another rank")
    if one.cutoff == other.cutoff and same_rel and other.kind in _BELOW.get(one.kind, ()):
        yield from faults(larger, "of the same documents is smaller")
    if one.cutoff == other.cutoff and same_kind and one.kind in ("RR", "Success", "P") and one.rel > other.rel:
        yield from faults(larger, "with more relevant documents is smaller")
    if result.seeds is None and other.kind == "RR":
        yield from _by_first_rank(one, other, faults)


def _implies(one: _Scored, other: _Scored) -> bool:
    """Return whether a document that counts for *one* also counts for *other*, within the same number of documents.

    Every relevant document counts for nDCG. One that counts for nDCG has a grade of 1 or more, unless grades are continuous,
    which need a stated threshold. Every judged one counts for Judged.
    """
    if one.kind in _BINARY:
        return (other.kind in _BINARY and one.rel >= other.rel) or other.kind in ("nDCG", "Judged")
    return one.kind == "nDCG" and ((other.kind in _BINARY and not other.stated) or other.kind in ("nDCG", "Judged"))


def _by_first_rank(one: _Scored, other: _Scored, faults: Callable[[NDArray[np.bool_], str], Iterator[str]]) -> Iterator[str]:
    """Yield a query whose first relevant document, by the measure RR *other*, is too deep for its value of *one*."""
    if one.cutoff > other.cutoff:
        return
    with np.errstate(divide="ignore"):
        first = np.where(other.values > 0, np.round(1 / np.maximum(other.values, _EXACT)), np.inf)
    if one.kind == "nDCG" and not other.stated and np.isfinite(one.cutoff):
        best = _best_ndcg(int(min(one.cutoff, 1000)))
        reach = np.where(first <= one.cutoff, best[np.minimum(first, len(best) - 1).astype(int)], 0)
        yield from faults(one.values > reach + _CLOSE, "has the first relevant document too deep for it")
    if one.kind in _BINARY and one.rel == other.rel:
        yield from faults((one.values > 0) & (first > one.cutoff), "has the first relevant document below its cutoff")
        yield from faults(
            (one.values <= 0) & np.isfinite(first) & (first <= one.cutoff), "has a relevant document within its cutoff"
        )
    if one.kind == "P" and one.rel == other.rel:
        most = np.maximum(0, one.cutoff - first + 1) / one.cutoff
        yield from faults(one.values > most + _CLOSE, "has the first relevant document too deep for it")


def _best_ndcg(cutoff: int) -> Values:
    """Return the largest nDCG (ranks + 1,) by the rank of the first relevant document: all that follow are of one grade."""
    gains = np.cumsum(1 / np.log2(np.arange(2, 2 * cutoff + 2)))
    best = np.ones(cutoff + 1)
    for first in range(2, cutoff + 1):
        count = np.arange(1, cutoff - first + 2)
        best[first] = np.max((gains[first + count - 2] - gains[first - 2]) / gains[count - 1])
    return best


def _unjudged_bounds(result: Result) -> Iterator[str]:
    """Yield a mean that leaves its bounds: without unjudged documents it cannot fall."""
    for text, bounds in result.incomplete.items():
        mean = result.means.get(text)
        if mean is None or own_measure(text) is None:
            continue
        if bounds.condensed < mean - _CLOSE:
            yield f"{text} is {mean:.6g}, and without unjudged documents {bounds.condensed:.6g}, which cannot be lower"
        if bounds.highest < mean - _CLOSE and not text.startswith(("nDCG", "AP")):  # more relevant documents can lower these
            yield f"{text} is {mean:.6g}, above {bounds.highest:.6g}, its bound if all unjudged documents were relevant"


# ---- what the judgements allow ---------------------------------------------------------------------------------------------


def unattainable_values(result: Result, qrels: Qrels, *, only_relevant: bool = False) -> Iterator[str]:
    """Yield what is impossible in the values per query of a result with the judgements *qrels* of its dataset.

    Values of at most as many documents as the result keeps must be those of the kept documents. Deeper ones must lie between
    what the kept documents alone reach, and what they reach if all other relevant documents follow. If *qrels* have
    *only_relevant* documents, what depends on the others is not checked.
    """
    if tuple(result.query_ids) != qrels.query_ids:
        return
    scored = [one for one in _scored(result) if not (only_relevant and one.kind == "Judged")]
    for one in scored:
        yield from _by_judgements(result, one, scored, qrels)
    ideal = _with_all_relevant(result, qrels) if result.top else None
    if ideal:
        yield from _kept_documents(result, scored, qrels, ideal)
    if not only_relevant:
        yield from _faults_of_unjudged(result, qrels, ideal)
    for text in result.means if result.seeds is None else ():
        if (measure := own_measure(text)) and not hasattr(measure, "counted_by") and text not in result.ties:
            yield f"{text} has no interval for ties"
    # Of measures that were added later, only those of the first run decided on the note.
    graded = {text: np.array(values) for text, values in result.per_query.items() if text.startswith("nDCG")}
    perfect = [mostly_perfect(text, values, qrels) for text, values in graded.items() if len(values) == len(qrels.query_ids)]
    if perfect and all(perfect) and not any(note.kind == "too good" for note in result.notes):
        yield f"{perfect[0]}, and no note says that this is too good"


def _by_judgements(result: Result, one: _Scored, scored: Sequence[_Scored], qrels: Qrels) -> Iterator[str]:
    """Yield a value that the numbers and grades of the judged documents do not allow."""
    relevant, seeds = np.add.reduceat((qrels.grades >= one.rel).astype(np.float64), qrels.offsets[:-1]), _seeds(result)
    if one.kind in ("R", "RCap", "P"):
        divisor = {"R": relevant, "RCap": np.minimum(relevant, one.cutoff), "P": np.full(len(relevant), one.cutoff)}[one.kind]
        found = one.values * divisor
        wrong = (found > np.minimum(relevant, one.cutoff) + _CLOSE) | ((divisor == 0) & (one.values > 0))
        why = f"no number of the relevant documents gives this value{_of_seeds(seeds)}"
        yield from _said(result, one.text, one.values, wrong | ~_whole(found * seeds), why)
    if one.kind in ("RR", "Success", "AP"):
        wrong = (relevant == 0) & (one.values > 0)
        yield from _said(result, one.text, one.values, wrong, "no document is relevant")
    if one.kind == "AP" and seeds == 1:
        wrong = _no_precision(one, scored, relevant) | _not_with_recall(one, scored, relevant)
        yield from _said(result, one.text, one.values, wrong, "no ranks give this value")
    if one.kind == "nDCG" and one.cutoff <= KEPT and seeds == 1 and not (qrels.continuous or result.top):
        wrong = _no_dcg(one, scored, qrels)
        yield from _said(result, one.text, one.values, wrong, "no ranking of the judged documents gives this value")


def _first_ranks(scored: Sequence[_Scored], rel: float | None, cutoff: float) -> tuple[float, Values, float] | None:
    """Return the threshold, the first ranks (queries,) and the cutoff of RR at *rel*, or any; rank 0: none within it."""
    for one in scored:
        if one.kind == "RR" and rel in (None, one.rel) and one.cutoff >= cutoff:
            ranks = np.divide(1, one.values, out=np.zeros_like(one.values), where=one.values > 0)
            return one.rel, np.asarray(np.round(ranks), np.float64), one.cutoff
    return None


def _no_precision(one: _Scored, scored: Sequence[_Scored], relevant: Values) -> NDArray[np.bool_]:
    """Return which values (queries,) of AP are out of reach with the first rank that RR has, and so many *relevant* documents.

    One relevant document has the precision 1/rank; of two, the second has 2/rank.
    """
    wrong: NDArray[np.bool_] = (relevant == 1) & ~_is_reciprocal(one.values)
    if (first := _first_ranks(scored, one.rel, 1)) is None:
        return wrong
    _, ranks, cutoff = first
    known = (relevant > 0) & (ranks > 0) & (ranks <= one.cutoff)
    sums = one.values * relevant
    earliest = np.where(ranks > 0, ranks, cutoff + 1 if np.isfinite(cutoff) else one.cutoff + 1)
    pairs = zip(relevant, earliest, strict=True)
    most = np.array([np.sum(np.arange(1, count + 1) / (rank + np.arange(count))) for count, rank in pairs])
    wrong |= (relevant > 0) & (sums > most + _CLOSE * relevant)
    first_part = np.divide(1, ranks, out=np.zeros_like(ranks), where=ranks > 0)
    wrong |= known & (sums < first_part - _CLOSE * relevant)
    wrong |= known & (relevant == 2) & ~_is_reciprocal((sums - first_part) / 2)  # noqa: PLR2004 - see above
    return wrong


def _not_with_recall(one: _Scored, scored: Sequence[_Scored], relevant: Values) -> NDArray[np.bool_]:
    """Return which values (queries,) of AP are out of reach with the recalls, and so many *relevant* documents.

    If f of n are among the first k, they are at the ranks 1 to f at best and k - f + 1 to k at worst; others follow from k + 1.
    """
    wrong = np.zeros(len(relevant), bool)
    sums = one.values * relevant
    for other in scored:
        if other.kind == "R" and other.rel == one.rel and other.cutoff <= one.cutoff:
            k, pairs = other.cutoff, zip(np.round(other.values * relevant), relevant, strict=True)
            for at, (found, every) in enumerate(pairs):
                first, later = np.arange(1, found + 1), np.arange(found + 1, every + 1)
                least = np.sum(first / (k - found + first)) - _CLOSE
                most = found + np.sum(later / (k + later - found)) + _CLOSE
                wrong[at] |= not least <= sums[at] <= most
    return wrong


def _is_reciprocal(values: Values) -> NDArray[np.bool_]:
    """Return which *values* are 0 or 1/n."""
    wholes = np.divide(1, values, out=np.ones_like(values), where=values > _CLOSE)
    return _whole(wholes) | (values < _CLOSE)


def _no_dcg(one: _Scored, scored: Sequence[_Scored], qrels: Qrels) -> NDArray[np.bool_]:
    """Return which values (queries,) of nDCG no choice of grades at the ranks gives, with the first relevant rank that RR has.

    The sums of the gains at the first and the second half of the ranks are listed, and a value must be a sum of two.
    """
    gains = np.maximum(qrels.grades, 0).astype(np.float64)
    cutoff = int(one.cutoff)
    free = 0.0, np.ones(len(one.values)), one.cutoff  # the first document of grade 0 or better may be at the first rank
    rel, ranks, _ = _first_ranks(scored, None, one.cutoff) or free
    discounts = 1 / np.log2(np.arange(2, cutoff + 2))
    wrong = np.zeros(len(one.values), bool)
    sums: dict[tuple[float, ...], tuple[Values, Values]] = {}
    for at, (start, stop) in enumerate(zip(qrels.offsets[:-1], qrels.offsets[1:], strict=True)):
        judged = np.sort(gains[start:stop])[::-1][:cutoff]
        ideal = float(judged @ discounts[: len(judged)])
        if ideal == 0:
            wrong[at] = one.values[at] > 0
            continue
        grades = sorted({0.0, *gains[start:stop].tolist()})
        half = (cutoff + 1) // 2
        if len(grades) ** half > _COMBINATIONS:
            continue
        key = (*grades, rank := ranks[at] if ranks[at] <= cutoff else 0)
        if key not in sums:
            choices = [_grades_at(place, int(rank), rel, grades) for place in range(1, cutoff + 1)]
            sums[key] = _sums(choices[:half], discounts[:half]), np.sort(_sums(choices[half:], discounts[half:]))
        first, second = sums[key]
        if not len(first) or not len(second):
            wrong[at] = True  # no document has the grade that RR needs
            continue
        rest = one.values[at] * ideal - first
        place = np.searchsorted(second, rest)
        above, below = second[np.minimum(place, len(second) - 1)], second[np.maximum(place - 1, 0)]
        wrong[at] = np.minimum(np.abs(above - rest), np.abs(below - rest)).min() > _CLOSE * max(1.0, ideal)
    return wrong


def _grades_at(place: int, first: int, rel: float, grades: Sequence[float]) -> list[float]:
    """Return the *grades* that the document at the rank *place* may have if that at *first* is the first of grade *rel*."""
    if first and place > first:
        return list(grades)
    return [grade for grade in grades if (grade >= rel) == (place == first)]


def _sums(choices: Sequence[Sequence[float]], discounts: Values) -> Values:
    """Return the sums of all choices of one grade per rank, times the *discounts* of the ranks."""
    sums = np.zeros(1)
    for grades, discount in zip(choices, discounts.tolist(), strict=True):
        sums = (sums[:, None] + np.array(grades) * discount).ravel()
    return sums


# ---- the kept documents, scored again --------------------------------------------------------------------------------------


def kept_run(result: Result) -> Run:
    """Return the documents that a result keeps, as a run. Raises LexbenchError if a list has a document twice."""
    lists = [kept_ids(text) for text in result.top]
    queries = [query for query, ids in zip(result.query_ids, lists, strict=True) for _ in ids]
    scores = [-float(rank) for ids in lists for rank in range(len(ids))]
    return Run.from_entries(queries, [one for ids in lists for one in ids], scores)


def _kept_documents(result: Result, scored: Sequence[_Scored], qrels: Qrels, ideal: Run) -> Iterator[str]:
    """Yield a value that the kept documents, or *ideal* lists that begin with them, contradict."""
    try:
        run = kept_run(result)
    except LexbenchError as error:
        yield f"its kept lists are none: {error}"
        return
    for one in scored:
        measure: Any = own_measure(one.text)
        low = measure.per_query(join(run, qrels, measure.depth))
        if one.cutoff <= KEPT:
            wrong = np.abs(one.values - low) > _CLOSE
            at = int(wrong.argmax())
            yield from _said(result, one.text, one.values, wrong, f"the documents that it keeps have {low[at]:.6g}")
        elif one.kind in (*_GROWING, "RCap", "P"):
            high = measure.per_query(join(ideal, qrels, measure.depth))
            wrong = (one.values < low - _CLOSE) | (one.values > high + _CLOSE)
            at = int(wrong.argmax())
            span = f"the documents that it keeps allow {low[at]:.6g} to {high[at]:.6g}"
            yield from _said(result, one.text, one.values, wrong, span)


def _faults_of_unjudged(result: Result, qrels: Qrels, ideal: Run | None) -> Iterator[str]:
    """Yield a bound for unjudged documents that the kept documents contradict, or that is missing; or their wrong number.

    *ideal* lists begin with the kept documents; None if there are none.
    """
    if result.lists and result.lists.judged != (count := len(np.unique(qrels.doc_ids))):
        yield f"it says that {result.lists.judged:,} documents are judged, and these are {count:,}"
    if ideal is None:
        return
    run = kept_run(result)
    if result.lists and result.lists.found < (kept := int(np.isin(run.table, qrels.doc_ids).sum())):
        yield f"it says that {result.lists.found:,} judged documents are in its lists, and it keeps {kept:,} of them"
    shallow = [text for text in result.means if (one := own_measure(text)) and one.cutoff and one.cutoff <= KEPT]
    best = incomplete_report(ideal, qrels, shallow)
    for text, bounds in incomplete_report(run, qrels, shallow).items():
        if (said := result.incomplete.get(text)) is None:
            yield f"{text} has no bounds for unjudged documents"
            continue
        if abs(said.highest - bounds.highest) > _CLOSE:
            given = f"and the kept documents give {bounds.highest:.6g}"
            yield f"{text} is at most {said.highest:.6g} if unjudged documents count, {given}"
        if not bounds.condensed - _CLOSE <= said.condensed <= best[text].condensed + _CLOSE:
            span = f"{bounds.condensed:.6g} to {best[text].condensed:.6g}"
            yield f"{text} is {said.condensed:.6g} without unjudged documents, and the kept documents allow {span}"


def _with_all_relevant(result: Result, qrels: Qrels) -> Run:
    """Return the kept documents with all other judged ones behind each full list, the best first."""
    queries: list[str] = []
    ids: list[str] = []
    scores: list[float] = []
    for query, text, start, stop in zip(qrels.query_ids, result.top, qrels.offsets[:-1], qrels.offsets[1:], strict=True):
        lists = kept_ids(text)
        if len(lists) == KEPT:
            best = start + np.argsort(-qrels.grades[start:stop], kind="stable")
            lists += [name for name in map(text_of, qrels.doc_ids[best].tolist()) if name not in set(lists)]
        queries += [query] * len(lists)
        ids += lists
        scores += [-float(rank) for rank in range(len(lists))]
    return Run.from_entries(queries, ids, scores)
