"""Carrying out a plan: each job makes an index, a run and a result, or reuses them from the store. Jobs can be timed.

`run` yields an outcome per job; a job that fails does not stop the rest. `encode` makes only the vectors that a plan needs.
"""

import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from errno import EDQUOT, ENOSPC
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, TypeAlias

from msgspec import structs

from lexbench.artifacts.graph import Graph
from lexbench.artifacts.removal import prepare
from lexbench.artifacts.searches import Search, searched
from lexbench.artifacts.vectors import CorpusVectors, encode_part
from lexbench.datasets.corpus import StoredCorpus
from lexbench.datasets.dataset import open_dataset
from lexbench.display.progress import Progress
from lexbench.errors import CommandError, ContractMismatch, LexbenchError, MissingData, listed
from lexbench.executors import executor as named_executor
from lexbench.outside.foreign import process_kept
from lexbench.plugins import Executor
from lexbench.results import Entry, Failure, Note, QueryTexts, Result, Results, ResultSession
from lexbench.retrievers.encoded import Encoded
from lexbench.retrievers.run_file import RunFile
from lexbench.runner import tuning
from lexbench.runner.plan import Job, Plan
from lexbench.runner.query_texts import texts_of_data
from lexbench.runner.scored import ScoredFile, ScoredRun, completed
from lexbench.runner.scoring import fitting_defaults
from lexbench.runner.search import Data, SystemRun, data_of
from lexbench.runner.systems import encoded_leaves
from lexbench.storage.code import replaced
from lexbench.storage.store import RememberedPlace, Store, keep_traceback
from lexbench.trec.runs import Run

_NAMED = 3  # functions in a note


@dataclass(frozen=True)
class Outcome:
    """How one job ended: a result, or one line that says why there is none."""

    job: Job
    result: Result | None = None
    error: str | None = None
    again: str | None = None  # the command that repeats only this job; None if it would fail in the same way
    untimed: str | None = None  # why timing failed, if the job was to be timed
    run: SystemRun | None = None  # of the system with its weights chosen; None of a run file
    kept: Path | Run | None = None  # the run in the store; the run itself if no other process can know the system
    corpus: StoredCorpus | None = None  # that was searched


# Times systems that have been scored, and yields their outcomes with timings: `lexbench.timing.timer.Timer`.
Timer: TypeAlias = Callable[[Sequence[Outcome], Graph], Iterator[Outcome]]


# ---- the jobs of a plan ----------------------------------------------------------------------------------------------------


def run(
    plan: Plan, store: Store, progress: Progress | None = None, timer: Timer | None = None, executor: Executor | None = None
) -> Iterator[Outcome]:
    """Run the jobs of *plan* in order and yield each outcome as soon as it is ready. A job that fails does not stop the rest.

    With a *timer*, the systems of a dataset are timed by turns after all of them have been scored, and yielded then.
    The *executor* encodes corpora; None: the one that LEXBENCH_ON names, or the one that suits the encoder.
    """
    prepare(store)
    shown, executor, foreign = progress or Progress(), executor or named_executor(), listed(replaced(), _NAMED)
    if foreign:
        foreign = f"this process has replaced {foreign}, which no digest of code shows"
        shown.note(f"{foreign}; the store keeps nothing of it")
    for name in dict.fromkeys(job.system.name for job in plan.jobs if job.system.expression and not job.system.reusable):
        shown.note(f'{name} may change unseen, so the store keeps nothing of it; name a revision, e.g. revision="1"')
    opened: dict[str, Data] = {}
    store.check_disk(sum(step.bytes for step in plan.steps(store, opened)))
    for _, grouped in groupby(plan.jobs, key=lambda job: job.contract.id):  # jobs come dataset by dataset
        jobs = list(grouped)
        try:
            data = opened.get(jobs[0].contract.id) or data_of(open_dataset(jobs[0].contract, jobs[0].source))
        except Exception as error:  # noqa: BLE001 - see failure
            failed = failure(error, jobs[0], store)
            yield from (replace(failed, job=job) for job in jobs)
            continue
        if plan.defaults:
            jobs = [replace(job, measures=fitting_defaults(job.measures, data.dataset.qrels)) for job in jobs]
        with Graph(store, shown, executor, replaced=foreign) as graph:
            outcomes = (_outcome(job, data, graph) for job in jobs)
            yield from _timed(list(outcomes), timer, graph) if timer else outcomes


def _outcome(job: Job, data: Data, graph: Graph) -> Outcome:
    """Do one job. An error in it, also a plug-in's own, must not cost the other jobs their results."""
    try:
        with process_kept():
            outcome = _scored_outcome(job, data, graph)
        if job.system.alias_of:
            graph.store.remember_name(job.system.name, job.system.alias_of)
        if outcome.result and job.source and job.contract.source.loader == "files":
            facts = job.contract.source
            place = RememberedPlace(Path(job.source.place("judgements")), facts.split, facts.columns)
            graph.store.remember_place(outcome.result.digests, place)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - see failure; a plug-in must not end the program
        return failure(error, job, graph.store)
    if graph.replaced and (result := outcome.result):
        return replace(outcome, result=structs.replace(result, notes=[*result.notes, Note("run", graph.replaced)]))
    return outcome


def _scored_outcome(job: Job, data: Data, graph: Graph) -> Outcome:
    """Return the outcome of a job that has a result, making only the artifacts that are not there yet."""
    if isinstance(job.system.retriever, RunFile):
        return Outcome(job, graph.open(ScoredFile(data, job.system, job.measures, job.depth, job.source)))
    system, chosen = tuning.with_weights(job.system, graph, data, job.headline, job.depth)
    scored = ScoredRun(data, system, job.measures, job.depth, tuple(chosen))
    made = graph.parts(scored)["run"]
    assert isinstance(made, SystemRun)
    # First what is searched: it may have been removed, or damaged, since the run was made.
    read = graph.place(graph.parts(made)["system"]).artifacts()
    result = completed(graph.open(scored), graph.stored(made), read.values(), graph.stored(data.corpus))
    kept = graph.stored(made).folder if graph.is_lasting(made) else graph.open(made).run
    return Outcome(job, result, run=made, kept=kept, corpus=StoredCorpus(graph.stored(data.corpus).folder))


def _timed(outcomes: Sequence[Outcome], timer: Timer, graph: Graph) -> Iterator[Outcome]:
    """Time, by turns, the systems of *outcomes* that have been scored."""
    timed = timer([outcome for outcome in outcomes if outcome.result], graph)
    for outcome in outcomes:
        with process_kept():
            one = next(timed) if outcome.result else outcome
        yield one


def results_of(plan: Plan, outcomes: Iterable[Outcome], store: Store) -> Results:
    """Return the results of *outcomes*, with the failed jobs."""
    entries, failures = [], []
    of_dataset: dict[str, Callable[[], QueryTexts | None]] = {}
    for outcome in outcomes:
        job = outcome.job
        if outcome.result:
            if outcome.corpus or job.contract.id not in of_dataset:
                of_dataset[job.contract.id] = texts_of_data(job.contract, job.source, outcome.corpus)
            texts = of_dataset[job.contract.id]
            entries.append(Entry(outcome.result, plan.suite.id if plan.suite else "", outcome.kept, texts=texts))
        if line := outcome.error or outcome.untimed:
            names = {"system": job.system.name, "dataset": job.contract.id}
            failures.append(Failure(**names, error=line, again=outcome.again, scored=not outcome.error))
    data = {job.contract.id: (job.contract, job.source) for job in plan.jobs if job.source}
    return Results(entries, failures=failures, session=ResultSession(store, plan.suite, data))


# ---- failures --------------------------------------------------------------------------------------------------------------


def failure(error: BaseException, job: Job, store: Store) -> Outcome:
    """Return the outcome of a job that raised *error*. The traceback of an unexpected error is saved in a file."""
    again = job.command
    if isinstance(error, LexbenchError):
        line = str(error)
        if isinstance(error, MissingData | ContractMismatch | CommandError):  # the same command would fail in the same way
            again = None
    elif isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT):
        line = f"the disk of {store.root} is full; free some space, and the same command continues"
    elif isinstance(error, OSError) and store.root in Path(str(error.filename)).parents:  # e.g. a folder of another user
        line = f"the store cannot be used: {error.filename}: {error.strerror}; set LEXBENCH_STORE to another folder"
    elif isinstance(error, MemoryError):
        line = f"{job.name}: there is not enough memory for it"
    else:
        log = keep_traceback(job.name, traceback.format_exc(), store.root)
        what = " ".join(part.strip() for part in traceback.format_exception_only(error))
        line = f"{job.name}: {what}" + (f" (all of it: {log})" if log else "")
    return Outcome(job, error=line, again=again)


# ---- vectors alone ---------------------------------------------------------------------------------------------------------


class EncodedCorpus(NamedTuple):
    """One corpus as one encoder has encoded it."""

    corpus: str
    encoder: str  # its class
    left: int  # shards that other parts have yet to make
    folder: Path | None  # of the vectors, if none is left


def numbered_part(typed: str) -> tuple[int, int]:
    """Return the number of the part "I/N" (from 0) and how many parts there are. Raises CommandError for another text."""
    if not re.fullmatch(r"\d+/\d+", typed):
        raise CommandError(f"--part {typed}: write e.g. 0/16")
    number, parts = map(int, typed.split("/"))
    if number >= parts:
        raise CommandError(f"--part {typed} is part {number} of {parts}, but parts count from 0: write e.g. 0/{parts or 16}")
    return number, parts


def encode(
    plan: Plan, store: Store, part: tuple[int, int], progress: Progress, executor: Executor | None = None
) -> Iterator[EncodedCorpus]:
    """Encode *part* (number from 0, number of parts) of each corpus of *plan* with each encoder of its systems.

    Several processes may do so at once, in one store, on any machines; the one that makes the last shard finishes the artifact.
    Raises CommandError for a system without an encoder, or with one whose vectors are not kept.
    """
    prepare(store)
    done: set[str] = set()
    for _, grouped in groupby(plan.jobs, key=lambda job: job.contract.id):
        jobs = list(grouped)
        data: Data | None = None
        with Graph(store, progress, executor or named_executor()) as graph:
            for job in jobs:
                if next(encoded_leaves(job.system.retriever), None) is None:
                    raise CommandError(f"{job.system.name} has no encoder; name a system that has one, e.g. lexmae_nano@impact")
                if not job.system.reusable:
                    raise CommandError(f"{job.system.name} has no identity(), so its vectors are not kept; type: lexbench run")
                data = data or data_of(open_dataset(job.contract, job.source))
                for one in searched(Search(data.corpus, job.system.retriever)):
                    if not isinstance(one.retriever, Encoded):
                        continue
                    node = CorpusVectors(one.corpus, one.retriever.encoder)
                    if (key := graph.key(node)) in done:
                        continue
                    done.add(key)
                    left = encode_part(graph, node, *part)
                    folder = None if left else graph.stored(node).folder
                    yield EncodedCorpus(one.corpus.label(), type(one.retriever.encoder).__name__, left, folder)
