"""Run the systems of gates, compare scores, sizes and speeds with baselines and limits, and decide: pass, fail, cannot tell.

A gate fails if the mean fell by more than the margin and the fall is significant in a one-sided paired randomisation test. If
the mean fell by more than the margin, but not significantly, the gate cannot tell. Otherwise it passes.

The level of the test is (1 - confidence) / (commits x gates). By the union bound, a history of so many commits without a real
change fails with probability 1 - confidence at most, whether or not the commits are independent.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench.analysis.compare.query_changes import QueryChange, Ranks, moved_documents
from lexbench.analysis.gate.files import COMMITS, CONFIDENCE, MARGIN, Baseline, Gate
from lexbench.analysis.significance import bootstrap, noninferiority, randomisation
from lexbench.analysis.stored_results import run_of
from lexbench.artifacts.describe import is_lasting
from lexbench.datasets.dataset import open_dataset
from lexbench.datasets.location import typed_place
from lexbench.display.progress import Progress
from lexbench.errors import CannotStart, CommandError, LexbenchError, shortened
from lexbench.measures import cutoff as cutoff_of
from lexbench.measures.judged import Judged
from lexbench.notation import PYTHON_OBJECT
from lexbench.results import SINGLE, QueryTexts, Result, Timing, beyond_rounding, load
from lexbench.runner import jobs
from lexbench.runner.plan import Job, plan_of
from lexbench.runner.query_texts import query_texts, relevant_documents, relevant_ranks
from lexbench.runner.recipe_checks import repeats
from lexbench.runner.systems import imported, named_systems
from lexbench.runner.value_checks import own_measure
from lexbench.storage import environment
from lexbench.storage.artifact_folder import digest
from lexbench.storage.stopwatch import read_measurement
from lexbench.storage.store import Store
from lexbench.timing.protocol import TimingSettings
from lexbench.timing.timer import Timer
from lexbench.trec.judged_run import join
from lexbench.trec.runs import Run

_WORST = 5  # queries in a report
_RANKED = 20  # documents per query whose ranks the baseline keeps
_REFERENCE = "reference"  # its name where it has the name of the system
_DIGITS = 6  # of a value in the baseline
_SHOWN = 40  # characters of a value
_ACCEPT = "accept the present scores: lexbench gate update"
_DATA = ("dataset", "contract", "measure", "depth", "corpus", "queries", "qrels")  # if one differs, scores are not comparable
_FACTS = ("dataset", "contract", "measure", "depth", "system", "system_sha256", "lexbench", "index_bytes")

Verdict = Literal["pass", "fail", "cannot tell"]


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of a system and of its baseline, and the verdict."""

    verdict: Verdict
    queries: int
    before: float  # mean of the baseline
    after: float
    interval: tuple[float, float]  # 95 % of the difference, bootstrap-t over queries
    margin: float
    p: float  # one-sided: that the system is not worse; 1 if no query differs
    level: float  # p must be at most this to fail
    shown: bool  # whether the loss is shown to be below the margin, with the confidence of the gate
    needed: int | None = None  # if the gate cannot tell: how many queries would find such a fall with power .8
    better: int  # queries
    worse: int

    @property
    def difference(self) -> float:
        """The change of the mean; negative is worse."""
        return self.after - self.before


def worst(verdicts: list[Verdict]) -> Verdict:
    """Return the verdict over several: fail before cannot tell before pass."""
    order: tuple[Verdict, ...] = ("fail", "cannot tell", "pass")
    return next((verdict for verdict in order if verdict in verdicts), "pass")


def judge(
    before: NDArray[np.float64], after: NDArray[np.float64], margin: float = MARGIN, *, confidence: float = CONFIDENCE,
    tests: int = COMMITS,
) -> Quality:  # fmt: skip
    """Compare the values (queries,) *after* of a system with the values *before* of its baseline. All are from 0 to 1.

    *tests* is the number of tests that share the chance of a false alarm: commits x gates.
    """
    differences = after - before
    level = (1 - confidence) / tests
    fell = bool(-differences.mean() > margin)
    p, shown = 1.0, True
    if differences.any():
        resamples = randomisation.resamples_for(tests, 1 - confidence)
        two_sided = randomisation.p_value(differences, resamples=resamples)
        p = two_sided / 2 if differences.mean() < 0 else 1 - two_sided / 2  # the test is symmetric
        shown = noninferiority.noninferiority(np.clip(differences, -1, 1), margin, level=1 - confidence).holds
    verdict: Verdict = "pass" if not fell else "fail" if p <= level else "cannot tell"
    needed = None
    if verdict == "cannot tell" and len(differences) > 1:
        needed = randomisation.queries_needed(differences, float(-differences.mean()), level=2 * level)
    return Quality(
        verdict=verdict,
        queries=len(before),
        before=float(before.mean()),
        after=float(after.mean()),
        interval=bootstrap.difference_interval(differences),
        margin=margin,
        p=p,
        level=level,
        shown=shown,
        needed=needed,
        better=int((differences > 0).sum()),
        worse=int((differences < 0).sum()),
    )


class Measured(NamedTuple):
    """The result and the timings of a gate's system in this run."""

    job: Job
    result: Result
    timings: Sequence[Timing | None]  # of the system and its reference, one query at a time; empty without speed limits
    texts: QueryTexts  # of the dataset
    ranks: Ranks  # of relevant documents

    def baseline(self) -> Baseline:
        """Return this measurement as a baseline. Raises CommandError for a measure with values outside 0 to 1."""
        measure = self.job.measures[0]  # with the relevance threshold of the dataset
        values = [round(value, _DIGITS) for value in self.result.per_query[measure]]
        if not all(0 <= value <= 1 for value in values):
            raise CommandError(f"a gate takes a measure with values from 0 to 1, and {measure} has others")
        recipe = self.job.system.recipe
        lasting = is_lasting(recipe)
        return Baseline(
            dataset=self.result.dataset,
            contract=self.result.contract,
            system=self.job.system.expression or self.job.system.name,
            system_sha256=digest(recipe) if lasting else "",
            measure=measure,
            depth=self.result.depth,
            digests=self.result.digests,
            lexbench=environment.versions().get("lexbench", ""),
            index_bytes=self.result.sizes.get("index"),
            values=dict(zip(self.result.query_ids, values, strict=True)),
            ranks={query: dict(of_query) for query, of_query in self.ranks.items() if of_query},
        )


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit of size or speed, and the measured value."""

    what: str  # "index bytes", "queries per second", "latency"
    verdict: Verdict
    value: float
    limit: float
    line: str


class GateRun(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one gate after it ran."""

    gate: str
    dataset: str
    system: str
    measure: str
    verdict: Verdict
    quality: Quality
    limits: list[Limit]
    worst_queries: list[QueryChange]
    notes: list[str]


def measure(
    gate: Gate, folder: Path, store: Store, progress: Progress | None = None, *, system: Any = None, data: Any = None,
    timed: bool = True,
) -> Measured:  # fmt: skip
    """Run the system of *gate*, or the object *system*, on its dataset or on *data* in memory.

    If *timed*, it is also timed in turn with its reference, if any. A dataset name that is a path below *folder* is read from
    there. Raises LexbenchError if the run or a timing fails, or if the scores say nothing about a system.
    """
    if not timed:
        gate = msgspec.structs.replace(gate, reference="", min_qps_ratio=None, max_latency_ratio=None)
    place = folder / gate.dataset
    systems = _systems(gate, folder, system)
    typed = data or (str(place) if typed_place(str(place)) else gate.dataset)
    plan = plan_of(typed, systems, (), [gate.measure], gate.depth, columns=gate.columns)
    if len(found := {job.contract.id for job in plan.jobs}) > 1:
        raise CommandError(f"{gate.dataset} has {len(found)} datasets; make a gate for each, e.g. -d {min(found)}")
    timer = Timer(TimingSettings(offline=False, again=True)) if gate.reference else None
    outcomes = list(jobs.run(plan, store, progress, timer))
    for outcome in outcomes:
        if outcome.error or outcome.untimed:
            raise LexbenchError(f"gate {gate.name!r}: {outcome.error or f'its speed was not measured: {outcome.untimed}'}")
    results = [outcome.result for outcome in outcomes if outcome.result]
    for result in results:
        if result.unmeasured:
            raise LexbenchError(f"gate {gate.name!r}: {result.system} was not measured: {result.unmeasured}")
    timings = [next((one for one in result.timings if one.scenario == SINGLE), None) for result in results]
    job, kept = plan.jobs[0], outcomes[0].kept
    opened = open_dataset(job.contract, job.source)
    given: Any = job.system.retriever  # without a run of its own it is a run file
    ranked = run_of(kept) if kept else given.read(job.contract.id)
    texts = query_texts(opened, outcomes[0].corpus)
    return Measured(job, results[0], timings if gate.reference else [], texts, relevant_ranks(ranked, opened.qrels, _RANKED))


def _systems(gate: Gate, folder: Path, given: Any) -> Mapping[str, Any]:
    """Return the system and its reference, if any, by name. If *given* is not None, it is the system that is tested.

    Raises CommandError if one is a list of systems.
    """
    named: dict[str, Any] = {}
    for text in (gate.system, gate.reference) if gate.reference else (gate.system,):
        if text == gate.system and given is not None:
            name, item = text, given
        elif PYTHON_OBJECT.fullmatch(text):
            name, item = text, imported(text, folder)
        else:
            several = named_systems(text)
            if len(several) > 1:
                raise CommandError(f"gate {gate.name!r}: {text} is {len(several)} systems; write a gate for each")
            name, item = several[0][0] or several[0][1], several[0][1]
        named[_REFERENCE if name in named else name] = item
    return named


def check(
    gate: Gate, measured: Measured, baseline: Baseline | None, store: Store, *, tests: int = COMMITS,
    confidence: float = CONFIDENCE,
) -> GateRun:  # fmt: skip
    """Compare a measurement with the baseline and the limits of its gate.

    Raises CannotStart if there is no baseline, if it is 0 for all queries, if it is of other queries, data or another measure,
    or if its values are not those of its ranks, or not those that its system has now, or has in the *store*.
    """
    if baseline is None:
        raise CannotStart(f"gate {gate.name!r} has no baseline; {_ACCEPT}")
    if not any(baseline.values.values()):
        raise CannotStart(
            f"gate {gate.name!r}: its baseline is 0 for all queries, so no fall can be found; accept the scores of a system "
            "that works: lexbench gate update"
        )
    now = measured.baseline()
    changed = changes(baseline, now)
    if other := next((f"{name} ({changed[name]})" for name in _DATA if name in changed), ""):
        raise CannotStart(f"gate {gate.name!r}: {other} changed since the baseline; {_ACCEPT}")
    if strays := baseline.values.keys() ^ now.values.keys():
        raise CannotStart(f"gate {gate.name!r}: query {min(strays)!r} is not in both its baseline and its dataset; {_ACCEPT}")
    if edited := next(chain(_contradictions(baseline, measured), _other_values(baseline, measured, store)), ""):
        raise CannotStart(f"gate {gate.name!r}: {edited}; {_ACCEPT}")
    ids = list(baseline.values)
    before, after = (np.array([one.values[query] for query in ids]) for one in (baseline, now))
    quality = judge(before, after, gate.margin, confidence=confidence, tests=tests)
    limits = list(_limits(gate, measured))
    losses = after - before
    lost = [ids[at] for at in np.argsort(losses, kind="stable")[:_WORST] if losses[at] < 0]
    notes = [f"{name}: {change}" for name, change in changed.items()]
    if quality.verdict == "pass" and not quality.shown:
        notes.append(f"these {quality.queries} queries do not show that the loss is below {gate.margin:g}")
    return GateRun(
        gate=gate.name,
        dataset=now.dataset,
        system=now.system,
        measure=now.measure,
        verdict=worst([quality.verdict, *(limit.verdict for limit in limits)]),
        quality=quality,
        limits=limits,
        notes=notes,
        worst_queries=[_lost(measured, baseline, now, query) for query in lost],
    )


def _contradictions(baseline: Baseline, measured: Measured) -> Iterator[str]:
    """Yield a line for each query whose value in a baseline does not follow from its ranks of relevant documents."""
    one, protocol = own_measure(baseline.measure), measured.job.contract.protocol
    of_others = isinstance(one, Judged) or hasattr(one, "counted_by") or getattr(one, "ties", None)
    kept = (protocol.self_match, protocol.drop_grade) == ("keep", None)  # ranks are counted before documents are left out
    if not one or of_others or not one.cutoff or one.cutoff > _RANKED or not kept:
        return
    depth = min(_RANKED, baseline.depth)
    found = {query: {rank: name for name, rank in baseline.ranks.get(query, {}).items()} for query in baseline.values}
    places = [(query, ranked.get(at, f"\n{at}"), -at) for query, ranked in found.items() for at in range(1, depth + 1)]
    queries, documents, scores = zip(*places, strict=True)
    run = Run.from_entries(queries, documents, scores)
    qrels = relevant_documents(measured.texts, baseline.values)
    for query, value in zip(qrels.query_ids, one.per_query(join(run, qrels, one.depth)).tolist(), strict=True):
        if abs(value - baseline.values[query]) > 10**-_DIGITS:
            yield f"its baseline has {baseline.values[query]:g} for query {query!r}, and the ranks beside it give {value:.6g}"


def _other_values(baseline: Baseline, measured: Measured, store: Store) -> Iterator[str]:
    """Yield a line if the system of a baseline gave other values, now or when the *store* kept them, by the same lexbench."""
    stored = (folder / "result.json" for folder in store.folders("results", baseline.dataset))
    for path in (None, *stored):
        with suppress(LexbenchError, OSError):  # it is damaged, or older than its contract
            found = measured.result if path is None else load(path, Result)
            made = measured.result.measured if path is None else read_measurement(path.parent)
            facts = digest(found.recipe), found.digests, found.contract, found.depth, made.versions.get("lexbench")
            known = baseline.system_sha256, baseline.digests, baseline.contract, baseline.depth, baseline.lexbench
            values = dict(zip(found.query_ids, found.per_query.get(baseline.measure, []), strict=False))
            if facts != known or values.keys() != baseline.values.keys() or not repeats(found.recipe):
                continue
            ours = [values[query] for query in baseline.values]
            if beyond_rounding(found.recipe, ours, list(baseline.values.values()), 10**-_DIGITS):
                query = max(values, key=lambda one: abs(values[one] - baseline.values[one]))
                where = "the same system has" if path is None else f"the same system had, in {path.parent},"
                yield f"its baseline has {baseline.values[query]:g} for query {query!r}, and {where} {values[query]:.6g}"


def _lost(measured: Measured, baseline: Baseline, now: Baseline, query: str) -> QueryChange:
    """Return a query that lost, with the documents that fell."""
    texts, ranks = measured.texts, (baseline.ranks.get(query, {}), now.ranks.get(query, {}))
    grades = texts.relevant.get(query, {})
    moved = moved_documents(grades, *ranks, cutoff_of(now.measure), texts.documents, -1) if baseline.ranks else []
    return QueryChange(
        dataset=now.dataset,
        system=now.system,
        query=query,
        text=texts.texts[query],
        baseline_value=baseline.values[query],
        value=now.values[query],
        moved=moved,
    )


def changes(before: Baseline, now: Baseline) -> dict[str, str]:
    """Return the known facts that differ, except scores, e.g. {"measure": "nDCG@10 → P@10"}."""
    old, new = ({**{name: getattr(one, name) for name in _FACTS}, **one.digests} for one in (before, now))
    return {
        name: f"{shortened(str(value), _SHOWN)} → {shortened(str(new[name]), _SHOWN)}"
        for name, value in old.items()
        if value and new.get(name) and value != new[name] and (name != "system_sha256" or before.system == now.system)
    }


def _limits(gate: Gate, measured: Measured) -> Iterator[Limit]:
    """Yield the limits of size and speed. Raises LexbenchError if a size or speed is unknown."""
    if gate.max_index_bytes is not None:
        size = measured.result.sizes.get("index")
        if size is None:
            raise LexbenchError(f"gate {gate.name!r}: the index of {gate.system} has no known size; drop max_index_bytes")
        line = f"{size:,}, limit {gate.max_index_bytes:,}"
        verdict: Verdict = "pass" if size <= gate.max_index_bytes else "fail"
        yield Limit(what="index bytes", verdict=verdict, value=size, limit=gate.max_index_bytes, line=line)
    if not gate.reference:
        return
    own, other = measured.timings
    if own is None or other is None:
        raise LexbenchError(f"gate {gate.name!r}: {gate.system} or {gate.reference} has no timing of one query at a time")
    # How far processes of one system differ is how far a ratio may be off by chance.
    ranges = (one.qps_range.get("e2e", (one.qps["e2e"], one.qps["e2e"])) for one in (own, other))
    spread = float(np.prod([high / low for low, high in ranges]))
    flags = "".join(f"; {one.unranked}" for one in (own, other) if one.unranked)
    speed = own.qps["e2e"] / other.qps["e2e"]
    latency = own.stages["e2e"].p50 / other.stages["e2e"].p50
    for what, limit, ratio, excess in (
        ("queries per second", gate.min_qps_ratio, speed, (gate.min_qps_ratio or 0) / speed),
        ("latency", gate.max_latency_ratio, latency, latency / (gate.max_latency_ratio or 1)),
    ):
        if limit is not None:
            verdict = "pass" if excess <= 1 else "fail" if excess > spread else "cannot tell"
            line = f"{ratio:.2f} x {gate.reference}, limit {limit:g}; processes differ by {spread:.2f}{flags}"
            yield Limit(what=what, verdict=verdict, value=ratio, limit=limit, line=line)
