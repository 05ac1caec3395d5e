"""Other definitions of a measure: the rules by which people score one run differently, and which of them give a printed value.

`lexbench verify` looks for the cause of a mean that is off, `lexbench compare --claim` for the definition behind a claim.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import LexbenchError
from lexbench.measures import External
from lexbench.measures import parse as parse_measure
from lexbench.measures import score as score_run
from lexbench.trec.ids import encode, lookup
from lexbench.trec.judged_run import join
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run, kept, without_self_matches

_GRADES = (1, 2, 3)  # relevance thresholds in use
_RECALLS = ("R", "RCap", "Success")
_CUTOFFS = (1, 3, 5, 10, 15, 20, 30, 50, 100, 200, 500, 1000)
_LEVEL = "with {} instead of {} as the lowest relevant grade"
_LARGE = 1_000_000  # entries of a run for which pairs of changes would take minutes

Queries = NDArray[np.bool_]  # (judged queries,) those that count


class RuleChange(NamedTuple):
    """One rule that differs. What is None stays."""

    kind: str  # of two changes of one kind only one can hold
    text: str  # follows "would be .1234 "
    run: Callable[[Run, Qrels], Run] | None = None
    qrels: Callable[[Qrels, Run], Qrels] | None = None
    measure: str | None = None
    queries: Callable[[Run, Qrels], Queries] | None = None
    others: int = 0  # queries without judgements that also count, with 0


class Definition(NamedTuple):
    """The mean under some changed rules."""

    changes: tuple[RuleChange, ...]
    mean: float
    values: NDArray[np.float64]  # (judged queries that count,)

    @property
    def text(self) -> str:
        """The changes in words; "" if nothing was changed."""
        return " and ".join(change.text for change in self.changes)


def definition(
    run: Run, qrels: Qrels, measure: str, changes: Sequence[RuleChange] = (), known: dict[str, Run] | None = None
) -> Definition:
    """Return the mean of *measure* under *changes*. Raises LexbenchError if it cannot be computed under them.

    *known* keeps what one change makes of *run* for further calls.
    """
    ranked, judged, measured = run, qrels, measure
    known = {} if known is None else known
    for change in changes:
        if change.run and ranked is run:
            if change.text not in known:
                known[change.text] = change.run(run, qrels)
            ranked = known[change.text]
        elif change.run:
            ranked = change.run(ranked, qrels)
        judged = change.qrels(judged, ranked) if change.qrels else judged
        measured = change.measure or measured
    name = str(parse_measure(measured))
    scores = score_run(ranked, judged, [name])
    values = scores.values[name]
    masks = [change.queries(run, qrels) for change in changes if change.queries]
    others = sum(change.others for change in changes)
    if not masks and not others:
        return Definition(tuple(changes), scores.means[name], values)
    values = values[np.logical_and.reduce([np.ones(len(values), bool), *masks])]
    values = np.append(values, np.zeros(others))
    return Definition(tuple(changes), float(values.mean()) if len(values) else 0.0, values)


def singles(run: Run, qrels: Qrels, measure: str, changes: Sequence[RuleChange]) -> Iterator[Definition]:
    """Yield the definition under each of *changes* that can be computed."""
    yield from _computed(run, qrels, measure, [(change,) for change in changes])


def pairs(run: Run, qrels: Qrels, measure: str, changes: Sequence[RuleChange]) -> Iterator[Definition]:
    """Yield the definitions under two of *changes* of different kinds; none for a run of millions of entries."""
    if len(run) <= _LARGE:
        several = [(a, b) for a, b in combinations(changes, 2) if a.kind != b.kind and not (a.measure and b.measure)]
        yield from _computed(run, qrels, measure, several)


def _computed(run: Run, qrels: Qrels, measure: str, groups: Sequence[tuple[RuleChange, ...]]) -> Iterator[Definition]:
    known: dict[str, Run] = {}
    for changes in groups:
        try:
            yield definition(run, qrels, measure, changes, known)
        except LexbenchError:  # e.g. grades that the measure cannot take
            continue


# ---- the changes -----------------------------------------------------------------------------------------------------------


def changes_of(
    run: Run, qrels: Qrels, measure: str, *, by_rank: Run | None = None, topics: int = 0, cutoffs: bool = True
) -> list[RuleChange]:
    """Return the rules by which people score *run* by *measure* differently, without those that change nothing here.

    *by_rank* is the run in the order of the ranks in its file, *topics* is the number of all queries, 0 if it is unknown. With
    *cutoffs*, other cutoffs are among the rules.
    """
    found = [*_of_measure(measure, qrels, cutoffs=cutoffs), *_of_gain(measure, qrels), *_of_lists(run, by_rank)]
    return [*found, *_of_queries(run, qrels, measure, topics)]


def _of_measure(measure: str, qrels: Qrels, *, cutoffs: bool) -> Iterator[RuleChange]:
    """Yield other levels of relevance, other measures that have the same name in papers, and other cutoffs."""
    parsed = parse_measure(measure)
    if isinstance(parsed, External):
        yield from _of_external(parsed, qrels)
        return
    name, cutoff = type(parsed).__name__, parsed.cutoff
    at = f"@{cutoff}" if cutoff else ""
    if hasattr(parsed, "rel"):
        now = parsed.rel or 1
        for grade in _levels(qrels, now):
            other = str(replace(parsed, rel=grade))  # type: ignore[type-var] # a dataclass
            yield RuleChange("level", _LEVEL.format(grade, now), measure=other)
        for other in _RECALLS if name in _RECALLS else ():
            if other != name:
                yield RuleChange("measure", f"as {other}{at}", measure=f"{other}(rel={now}){at}")
    for other_cutoff in _CUTOFFS if cutoffs else ():
        if other_cutoff != cutoff:
            try:
                yield RuleChange("cutoff", f"at a cutoff of {other_cutoff}", measure=str(replace(parsed, cutoff=other_cutoff)))  # type: ignore[type-var]
            except LexbenchError:
                return
    if cutoffs and cutoff and name in ("nDCG", "AP", "RR"):
        yield RuleChange("cutoff", "without a cutoff", measure=str(replace(parsed, cutoff=None)))  # type: ignore[type-var]


def _of_external(measure: External, qrels: Qrels) -> Iterator[RuleChange]:
    """Yield other levels of relevance of a measure of ir-measures."""
    settings = dict(measure.settings)
    now = int(settings.pop("rel", "1"))
    for grade in _levels(qrels, now):
        other = replace(measure, settings=tuple(sorted({**settings, "rel": str(grade)}.items())))
        yield RuleChange("level", _LEVEL.format(grade, now), measure=str(other))


def _levels(qrels: Qrels, now: float) -> list[int]:
    return [] if qrels.continuous else [grade for grade in _GRADES if grade != now and grade <= qrels.grades.max(initial=0)]


def _of_gain(measure: str, qrels: Qrels) -> Iterator[RuleChange]:
    """Yield other gains and ideal rankings of nDCG."""
    if not measure.startswith("nDCG"):
        return

    def binary(grade: int, qrels: Qrels, _run: Run) -> Qrels:
        return replace(qrels, grades=(qrels.grades >= grade).astype(np.int32))

    def exponential(qrels: Qrels, _run: Run) -> Qrels:
        return replace(qrels, grades=2 ** np.maximum(qrels.grades, 0) - 1)

    if qrels.grades.max(initial=0) > 1:
        yield RuleChange("gain", "with a gain of 2^grade - 1", qrels=exponential)
        for grade in _GRADES:
            if grade <= qrels.grades.max():
                yield RuleChange("gain", f"with a gain of 1 from grade {grade}", qrels=partial(binary, grade))
    yield RuleChange("ideal", "with an ideal ranking of the returned documents only", qrels=_returned)


def _returned(qrels: Qrels, run: Run) -> Qrels:
    """Return the judgements with grade 0 for documents that *run* did not return."""
    judged = join(run, qrels)
    found = set(zip(judged.query.tolist(), run.table[run.docs[judged.entry]].tolist(), strict=True))
    queries = np.repeat(np.arange(len(qrels.query_ids)), np.diff(qrels.offsets)).tolist()
    keep = np.array([pair in found for pair in zip(queries, qrels.doc_ids.tolist(), strict=True)], bool)
    return replace(qrels, grades=np.where(keep, qrels.grades, 0).astype(qrels.grades.dtype))


def _of_lists(run: Run, by_rank: Run | None) -> Iterator[RuleChange]:
    """Yield other orders of lists, and lists without some documents."""
    dropped = without_self_matches(run)
    if dropped.dropped:
        yield RuleChange("self", "with the query's own document dropped", run=lambda run, _: without_self_matches(run).run)
    if (extended := _with_self_matches(run)) is not None:
        yield RuleChange("self", "with the query's own document kept at the first rank", run=lambda _run, _: extended)
    if by_rank is not None and not np.array_equal(by_rank.docs, run.docs):
        yield RuleChange("order", "with the ranks in the file in place of the scores", run=lambda _run, _: by_rank)
    try:
        rounded = run.as_float32()
    except LexbenchError:
        rounded = run
    if not np.array_equal(rounded.docs, run.docs):
        yield RuleChange("order", "with scores compared as float32", run=lambda _run, _: rounded)
    if (run.scores[1:] == run.scores[:-1])[_within(run)].any():
        yield RuleChange(
            "order", "with equal scores by ascending document id", run=partial(_tied_by, key=lambda run, _: -run.docs)
        )
        yield RuleChange(
            "order",
            "with the best document first among equal scores",
            run=partial(_tied_by, key=lambda *given: -_grades(*given)),
        )
        yield RuleChange("order", "with the worst document first among equal scores", run=partial(_tied_by, key=_grades))
    yield RuleChange(
        "order",
        "with the lowest score first",
        run=lambda run, _: _tied_by(replace(run, scores=-run.scores), _, lambda run, _: run.docs),
    )
    yield RuleChange("unjudged", "with unjudged documents left out of the lists", run=_condensed)


def _within(run: Run) -> NDArray[np.bool_]:
    """Return a mask (entries - 1,) of entries whose next entry is in the same list."""
    lists = np.repeat(np.arange(len(run.query_ids)), np.diff(run.offsets))
    return np.asarray(lists[1:] == lists[:-1])


def _tied_by(run: Run, qrels: Qrels, key: Callable[[Run, Qrels], NDArray[np.number]]) -> Run:
    """Return *run* with lists by score, and equal scores by *key*, ascending."""
    lists = np.repeat(np.arange(len(run.query_ids)), np.diff(run.offsets))
    order = np.lexsort((key(run, qrels), -run.scores, lists))
    return replace(run, docs=run.docs[order], scores=run.scores[order])


def _grades(run: Run, qrels: Qrels) -> NDArray[np.number]:
    """Return the grade of each entry, 0 for unjudged documents (entries,)."""
    judged = join(run, qrels)
    grades = np.zeros(len(run))
    grades[judged.entry] = judged.grade
    return grades


def _condensed(run: Run, qrels: Qrels) -> Run:
    keep = np.zeros(len(run), bool)
    keep[join(run, qrels).entry] = True
    return kept(run, keep)


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


def _of_queries(run: Run, qrels: Qrels, measure: str, topics: int) -> Iterator[RuleChange]:
    """Yield other sets of queries over which the mean is taken."""
    level = getattr(parse_measure(measure), "rel", None) or 1
    if not _answered(run, qrels).all():
        yield RuleChange("queries", "over the queries only that the run answers", queries=_answered)
    for grade in sorted({1, level}):
        if not (relevant := np.maximum.reduceat(qrels.grades, qrels.offsets[:-1]) >= grade).all():
            what = "a relevant document" if grade == 1 else f"a document of grade {grade:g}"
            yield RuleChange("queries", f"over the queries only that have {what}", queries=lambda *_, mask=relevant: mask)
    if topics > len(qrels.query_ids):
        more = topics - len(qrels.query_ids)
        yield RuleChange("queries", f"over all {topics} queries, {more} of them without judgements", others=more)


def _answered(run: Run, qrels: Qrels) -> Queries:
    return np.asarray(join(run, qrels).retrieved > 0)
