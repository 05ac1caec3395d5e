"""The measurements of `lexbench probe`: recall of exact, short answers, and latency, by setting and filter."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.analysis.significance.bootstrap import interval
from lexbench.errors import CommandError, LexbenchError, echoed
from lexbench.outside.filters import open_condition, parsed_value
from lexbench.outside.running import SIMILARITIES
from lexbench.plugins import RunningIndex
from lexbench.probing.answer import FilterShare, Probe, ProbedPoint, Value
from lexbench.probing.exact import Exact, exact_answers, recall, rows_of
from lexbench.probing.exact import sample as sampled
from lexbench.probing.targets import file_blocks, opened, read_matrix
from lexbench.results import Latency
from lexbench.timing.stored_timings import latency

_THREADS = 64  # queries in flight at a time
_ROUNDS = 2  # the settings take turns
_WARM_UP = 20  # queries
_SHARE = 0.25  # of what the slowest setting answers one by one, if no load is given
_WORTH = 0.001  # of recall, to be named
_SAME = 0.5  # share of the queries with one and the same answer, from which the server is suspect
_SEED = 42


def probe(  # noqa: PLR0913 - the options of the command, by name
    target: str, *, knob: str | Sequence[str] = (), k: int = 10, sample: int = 200, queries: str | Path | None = None,
    vectors: str | Path | None = None, ids: str | Path | None = None, similarity: str | None = None,
    filter: str | Sequence[str] = (),  # noqa: A002 - the option's name
    selectivity: Sequence[float] = (), passing: Sequence[str | Path] = (), load: float = 0.0, seconds: float = 10.0,
    goal: float = 0.95, progress: Callable[[str], None] = lambda _: None,
) -> Probe:  # fmt: skip
    """Compare the answers of a running index with exact search over the same vectors, for each setting and filter.

    *target* is an address or a command. *knob* has texts like "ef_search=40,200", one per setting; all combinations are
    measured. *queries* and *vectors* are files; by default queries are a *sample* of the documents, and the server gives the
    vectors. *filter* has filters in the language of the server. If one has {} as a value, it is filled in so that about the
    shares *selectivity* of the documents pass; a share of 1 is a search without a filter. *passing* has a file of ids for each
    filter if the server does not list them. *load* is in queries per second, 0 for a quarter of what the slowest setting
    answers one by one; it lasts *seconds* per setting and filter. *goal* is the wanted recall. Raises LexbenchError.
    """
    # Refuse options that make no sense before the index is opened.
    if similarity and similarity not in SIMILARITIES:
        raise CommandError(f"similarity {echoed(similarity)}: there is {', '.join(SIMILARITIES)}")
    if k < 1 or sample < 1 or load < 0 or seconds < 0 or not 0 <= goal <= 1:
        raise CommandError("k and sample are numbers from 1 up, load and seconds from 0 up, and goal is from 0 to 1")
    given = read_matrix(Path(queries)) if queries else None
    with closing(opened(target)) as index:
        # What is varied, and the vectors that are searched exactly.
        settings = _settings([knob] if isinstance(knob, str) else knob, index)
        blocks = file_blocks(Path(vectors), Path(ids) if ids else None) if vectors else index.vectors
        filters = _filters([filter] if isinstance(filter, str) else filter, selectivity, passing, index)
        own, notes = None, []
        # Without queries, some of the documents are queries.
        if given is None:
            own, given = sampled(blocks(), sample)
            notes.append(
                "queries are vectors of documents, without themselves; real ones may be harder: give some with --queries"
            )
        given, kind = given[:sample], similarity or index.similarity or "dot"
        # The right answers, and then those of the index for each filter and setting.
        progress("searching exactly")
        answers, documents = exact_answers(blocks(), given, k, kind, own=own, filters=[allowed for _, allowed in filters])
        shares = [_share(text, allowed, documents) for text, allowed in filters]
        ask = _Ask(index, list(rows_of(given)), k, own)
        cases = [_Case(one, share, exact) for (share, exact), one in product(zip(shares, answers, strict=True), settings)]
        progress(f"measuring {len(ask.queries):,} queries, {len(cases)} settings and filters; then {seconds:g} s of load each")
        measured = _measure(ask, cases, load, seconds)
        points = [_point(ask, case, found) for case, found in zip(cases, measured.found, strict=True)]
        notes += [*measured.notes, *index.notes()]
        # What the reader should doubt: settings without an effect, short lists, equal answers.
        unread, unknown = _dead(settings, cases, measured.found)
        warnings = [*_short(points, ask, index), *_same(cases, measured.found)]
        warnings += [f"{name} changes no answer: is its name right, and does the server read it?" for name in unread]
        notes += [
            f"{name} changes no answer: every value finds everything, so nobody knows whether the server reads it"
            for name in unknown
        ]
    return Probe(
        target=target,
        k=k,
        queries=len(ask.queries),
        documents=documents,
        similarity=kind,
        ties=sum(one.ties for one in answers[0]),
        offered=measured.rate,
        points=points,
        warnings=warnings,
        advice=advise(points, k, goal, measured.rate),
        notes=notes,
    )


# ---- settings and filters --------------------------------------------------------------------------------------------------


def _settings(texts: Sequence[str], index: RunningIndex) -> list[dict[str, Value]]:
    """Return all combinations of the values of the settings in *texts*; without any, the values of the index's usual one."""
    if not texts:
        return [{index.knob: value} for value in index.values] if index.knob else [{}]
    named: dict[str, list[Value]] = {}
    for text in texts:
        name, sign, listed = text.partition("=")
        values = [parsed_value(value.strip()) for value in listed.split(",") if value.strip()]
        if not sign or not name.strip() or not values or name.strip() in named:
            raise CommandError(f"--knob {text}: write each setting once, with its values, e.g. --knob hnsw_ef=16,64,256")
        numbers = all(type(value) in (int, float) for value in values)
        named[name.strip()] = sorted(set(values), key=float) if numbers else list(dict.fromkeys(values))
    return [dict(zip(named, chosen, strict=True)) for chosen in product(*named.values())]


def _filters(
    texts: Sequence[str], selectivity: Sequence[float], passing: Sequence[str | Path], index: RunningIndex
) -> list[tuple[str, Collection[str] | None]]:
    """Return each filter, filled in, with the ids that pass it; "" and None for no filter."""
    if not texts:
        if selectivity or passing:
            raise CommandError("--selectivity and --passing need a filter, e.g. --filter 'tenant = {}'")
        return [("", None)]
    if passing and len(passing) != len(texts):
        raise CommandError(f"there are {len(texts)} filters and {len(passing)} files of ids; give one --passing per --filter")
    if selectivity:
        if len(texts) != 1 or passing:
            raise CommandError("--selectivity takes one --filter with {} in it, and no --passing")
        texts = _filled(texts[0], selectivity, index)
    if wrong := next((text for text in texts if "{}" in text), None):
        raise CommandError(
            f"filter {echoed(wrong)}: say which shares of the documents should pass, e.g. --selectivity 1,0.1,0.01"
        )
    files = [set(Path(path).read_text(encoding="utf-8").split()) for path in passing]
    return [(text, None if not text else files[at] if files else index.passing(text)) for at, text in enumerate(texts)]


def _filled(text: str, selectivity: Sequence[float], index: RunningIndex) -> list[str]:
    """Return the filter with the values that let about these shares of the documents pass; "" for a share of 1."""
    field, operator, _ = open_condition(text)
    if any(not 0 < share <= 1 for share in selectivity):
        raise CommandError("--selectivity has shares of the documents, above 0 and up to 1, e.g. 1,0.1,0.01")
    counts = {value: count for value, count in index.counts(field).items() if value is not None}
    if not counts:
        raise CommandError(f"no document has a value of {field!r}")
    total = sum(counts.values())
    try:
        order = sorted(counts)
    except TypeError:
        raise CommandError(f"the values of {field!r} are of several types; write the filters yourself") from None
    passed = {value: counts[value] / total for value in order}
    if operator != "=":
        below = np.concatenate([[0], np.cumsum([counts[value] for value in order])]) / total
        strict = {"<": below[:-1], "<=": below[1:], ">": 1 - below[1:], ">=": 1 - below[:-1]}[operator]
        passed = dict(zip(order, strict.tolist(), strict=True))
    found = []
    for share in selectivity:
        value = min(order, key=lambda one: abs(passed[one] - share))
        found.append("" if share == 1 else text.replace("{}", str(value)))
    return list(dict.fromkeys(found))


def _share(text: str, ids: Collection[str] | None, documents: int) -> FilterShare:
    """Return the share of the documents that pass a filter."""
    count = documents if ids is None else len(ids)
    return FilterShare(text=text, documents=count, share=count / max(documents, 1))


# ---- measuring -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Ask:
    """How queries are asked."""

    index: RunningIndex
    queries: list[Any]
    k: int
    own: Sequence[str] | None

    def __call__(self, row: int, case: "_Case") -> list[str]:
        """Return the best k ids for a query, without the document that it is."""
        found = self.index.search(self.queries[row], self.k + (self.own is not None), case.settings, case.filter.text)
        return [one for one in found if self.own is None or one != self.own[row]][: self.k]


class _Case(NamedTuple):
    """A setting and a filter, with the exact answers."""

    settings: dict[str, Value]
    filter: FilterShare
    exact: list[Exact]


class _Found(NamedTuple):
    """What a case gave."""

    lists: list[list[str]]  # the answer to each query
    alone: float
    load: Latency | None
    achieved: float


class _Measured(NamedTuple):
    """What all cases gave."""

    found: list[_Found]
    rate: float
    notes: list[str]


def _measure(ask: _Ask, cases: Sequence[_Case], load: float, seconds: float) -> _Measured:
    """Ask each query of each case alone, then offer all cases the same load."""
    count = len(ask.queries)
    for row, case in product(range(min(count, _WARM_UP)), cases):  # connections, and caches of the server
        ask(row, case)
    times = np.zeros((len(cases), count))
    lists: list[list[list[str]]] = [[] for _ in cases]
    for row, (at, case) in product(range(count), enumerate(cases)):  # the cases take turns
        begin = time.perf_counter()
        found = ask(row, case)
        times[at, row] = time.perf_counter() - begin
        lists[at].append(found)
    _check_ids(cases, lists)
    alone = np.median(times, axis=1)
    if not seconds:
        return _Measured([_Found(one, float(taken), None, 0.0) for one, taken in zip(lists, alone, strict=True)], 0.0, [])
    rate, threads = load or _SHARE / float(alone.max()), _THREADS if ask.index.parallel else 1
    loads: list[list[tuple[NDArray[np.int64], float]]] = [[] for _ in cases]
    for _, (at, case) in product(range(_ROUNDS), enumerate(cases)):
        loads[at].append(offered(lambda number, case=case: ask(number % count, case), rate, seconds / _ROUNDS, threads))  # type: ignore[misc]
    idle = latency(offered(lambda _: None, rate, min(seconds, 1.0), threads)[0][np.newaxis])
    notes = [f"this machine alone adds {idle.p50 * 1000:.2f} ms (p50, the same load without a search)"]
    measured = [
        _Found(
            one,
            float(taken),
            latency(np.concatenate([times for times, _ in parts])[np.newaxis]),
            float(np.mean([speed for _, speed in parts])),
        )
        for one, taken, parts in zip(lists, alone, loads, strict=True)
    ]
    return _Measured(measured, rate, notes)


def _check_ids(cases: Sequence[_Case], lists: Sequence[Sequence[Sequence[str]]]) -> None:
    """Raise CommandError if no answer of any case has a right document, although there are answers."""
    pairs = [
        (exact, found)
        for case, answers in zip(cases, lists, strict=True)
        for exact, found in zip(case.exact, answers, strict=True)
    ]
    if any(exact.scores.keys() & set(found) for exact, found in pairs):
        return
    said = next((one for _, found in pairs for one in found), None)
    known = next((one for exact, _ in pairs for one in exact.scores), "none")
    if said is None:
        raise LexbenchError(
            "every answer is empty: nothing was measured; does the index have documents, and does the filter pass any?"
        )
    raise CommandError(f"no answer has a right document: the server names them like {said!r}, the vectors like {known!r}")


def offered(ask: Callable[[int], object], rate: float, seconds: float, threads: int) -> tuple[NDArray[np.int64], float]:
    """Return the latency of each query (nanoseconds) at *rate* queries per second for some *seconds*, and the achieved rate.

    Queries are due at random times (a Poisson process), however slow the answers are, and a latency counts from then on.
    """
    gaps = np.random.default_rng(_SEED).exponential(1 / rate, max(int(rate * seconds), 1))
    due = np.cumsum(gaps)
    begin = time.perf_counter()

    def one(number: int) -> float:
        ask(number)
        return time.perf_counter() - begin

    with ThreadPoolExecutor(threads) as pool:
        waiting = []
        for number, at in enumerate(due):
            time.sleep(max(0.0, at - (time.perf_counter() - begin)))
            waiting.append(pool.submit(one, number))
        ends = np.array([answer.result() for answer in waiting])
    return ((ends - due) * 1e9).astype(np.int64), rate * float(due[-1] / ends.max())


def _point(ask: _Ask, case: _Case, found: _Found) -> ProbedPoint:
    """Return the figures of one case."""
    recalls = np.array([recall(exact, one) for exact, one in zip(case.exact, found.lists, strict=True)])
    return ProbedPoint(
        settings=case.settings,
        filter=case.filter,
        recall=float(recalls.mean()),
        recall_range=interval(recalls),
        short=sum(len(set(one)) < exact.k for exact, one in zip(case.exact, found.lists, strict=True)),
        length=float(np.median([len(one) for one in found.lists])),
        alone=found.alone,
        load=found.load,
        achieved=found.achieved,
        plan=ask.index.plan(ask.queries[0], ask.k, case.settings, case.filter.text),
    )


# ---- warnings and advice ---------------------------------------------------------------------------------------------------


def _short(points: Sequence[ProbedPoint], ask: _Ask, index: RunningIndex) -> list[str]:
    """Return a warning about the setting with the most short answers under each filter."""
    found = []
    for share in dict.fromkeys(point.filter.text for point in points):
        worst = max((point for point in points if point.filter.text == share), key=lambda point: point.short)
        if worst.short:
            where = (
                f"filter {worst.filter.text!r}, which {worst.filter.share:.2%} of the documents pass" if share else "no filter"
            )
            text = f"{worst.short:,} of {len(ask.queries):,} answers are shorter than they should be"
            found.append(f"{text} (median {worst.length:g} of {ask.k}): {where}{f', {worst.name}' if worst.name else ''}")
    if found and index.short_advice:
        found.append(index.short_advice)
    return found


def _same(cases: Sequence[_Case], found: Sequence[_Found]) -> list[str]:
    """Return a warning if many queries have one and the same answer, although they should not."""
    for case, one in zip(cases, found, strict=True):
        ((answer, count),) = Counter(tuple(answer) for answer in one.lists).most_common(1)
        right = Counter(
            tuple(sorted(exact.scores, key=exact.scores.__getitem__)[-exact.k :]) for exact in case.exact
        ).most_common(1)
        if len(one.lists) > 1 and answer and count > max(_SAME * len(one.lists), right[0][1]):
            return [f"{count:,} of {len(one.lists):,} queries get one and the same answer: does the server read the query?"]
    return []


def _dead(
    settings: Sequence[Mapping[str, Value]], cases: Sequence[_Case], found: Sequence[_Found]
) -> tuple[list[str], list[str]]:
    """Return the settings whose values change no answer; those under which all answers are complete anyway come separately."""
    unread: list[str] = []
    unknown: list[str] = []
    for name in settings[0]:
        groups: dict[Any, list[tuple[Any, bool]]] = {}
        for case, one in zip(cases, found, strict=True):
            others = (case.filter.text, *(value for key, value in case.settings.items() if key != name))
            complete = all(recall(exact, answer) == 1 for exact, answer in zip(case.exact, one.lists, strict=True))
            groups.setdefault(others, []).append((one.lists, complete))
        compared = [group for group in groups.values() if len(group) > 1]
        if compared and all(lists == group[0][0] for group in compared for lists, _ in group):
            (unknown if all(complete for group in compared for _, complete in group) else unread).append(name)
    return unread, unknown


def advise(points: Sequence[ProbedPoint], k: int, goal: float, rate: float) -> str:
    """Return a recommendation: the first setting that reaches the recall *goal* under every filter, or what is missing.

    Of one numeric setting the smallest value comes first, because times may differ by noise alone; of others the fastest.
    """
    by_setting: dict[str, list[ProbedPoint]] = {}
    for point in points:
        by_setting.setdefault(point.name, []).append(point)
    simple = all(len(point.settings) <= 1 and not isinstance(next(iter(point.settings.values()), 0), str) for point in points)
    groups = list(by_setting.values())
    if simple:  # a larger value takes longer
        kept_up = [at for at, group in enumerate(groups) if not any(point.overloaded(rate) for point in group)]
        steady = groups[: max(kept_up, default=-1) + 1]
    else:
        steady = [group for group in groups if not any(point.overloaded(rate) for point in group)]
        steady.sort(key=lambda group: sum(point.alone for point in group))
    if not steady:
        return f"No setting keeps up with {rate:,.0f} queries/s: offer less with --load, or add replicas."
    weakest = [min(group, key=lambda point: point.recall) for group in steady]
    best = max(weakest, key=lambda point: (point.recall, -point.alone))
    chosen = next((point for point in weakest if point.recall >= goal), None)
    under = f" under the filter {best.filter.text!r}" if best.filter.text else ""
    if chosen is None:
        what = f"{'No setting finds' if best.settings else 'The index does not find'} {goal:.0%} of the exact top {k}"
        text = f"{what}: the best finds {best.recall:.1%}{under}{f' ({best.name})' if best.name else ''}"
        if best.short:
            return f"{text}. Its answers are too short, so larger values alone may not help."
        return f"{text}. Try larger values, or build the index with more neighbours."
    what = f"Set {chosen.name}: it finds" if chosen.settings else "Keep the index: it finds"
    least = "at least " if len(by_setting[chosen.name]) > 1 else ""
    text = f"{what} {least}{chosen.recall:.1%} of the exact top {k} in {chosen.alone * 1000:.2f} ms"
    if best.recall - chosen.recall >= _WORTH:
        text += f"; {best.name} finds {best.recall:.1%} in {best.alone * 1000:.2f} ms"
    sure = chosen.recall_range[0] >= goal
    return f"{text}." if sure else f"{text}. Its interval reaches below {goal:.0%}: to be sure, type a larger --sample."
