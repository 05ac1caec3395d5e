"""From a plan to results: each job's stages in order, and what becomes of a job that fails.

A run is read from here: `run` takes the jobs of a plan, `result_of` makes one job's result, and the stages that it needs are
methods of `lexbench.runner.stages.DatasetRunner`, each of which looks in the store first.
"""

import json
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from errno import EDQUOT, ENOSPC
from functools import partial
from itertools import compress, groupby
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from lexbench import results
from lexbench.datasets.corpus import StoredCorpus
from lexbench.datasets.dataset import open_dataset
from lexbench.errors import CommandError, ContractMismatch, LexbenchError, MissingData
from lexbench.executors import executor as named_executor
from lexbench.plugins import Executor, Retriever
from lexbench.progress import Progress, Silent
from lexbench.results import Result, Vectors, Work
from lexbench.retrievers.encoded import Encoded
from lexbench.runner import notes, tuning
from lexbench.runner.exposure import exposure_of
from lexbench.runner.plan import Job, Plan
from lexbench.runner.scoring import excluded, score_ranked, score_run
from lexbench.runner.stages import DatasetRunner
from lexbench.runner.stored_run import read_run
from lexbench.runner.systems import System, weights
from lexbench.runner.timer import TimedRun, Timer
from lexbench.storage.artifacts import ENGINE_DIR, VECTORS_FILE, key_of, own_folders, read_remarks, size
from lexbench.storage.stopwatch import Stopwatch, read_measurement
from lexbench.storage.store import Recipe, Store, keep_traceback
from lexbench.trec.runs import Filtered, Run

T = TypeVar("T")

_SCORER = 1  # goes up when a kernel or the form of a result changes


@dataclass(frozen=True)
class Outcome:
    """How one job ended: a result, or one line that says why there is none."""

    job: Job
    result: Result | None = None
    error: str | None = None
    again: str | None = None  # the command that repeats just this job; None where that would fail in the same way
    untimed: str | None = None  # why there are scores and no timing, where that was asked for


def run(
    plan: Plan,
    store: Store,
    progress: Progress | None = None,
    timer: Timer | None = None,
    executor: Executor | None = None,
) -> Iterator[Outcome]:
    """Run the jobs of *plan* in order, yielding each outcome as it is there. A job that fails does not stop the rest.

    With a *timer* the systems of a dataset are timed by turns after all of them have been scored, and yielded then.
    The *executor* encodes corpora; None: the one that LEXBENCH_ON names, or what suits the encoder.
    """
    store.prepare()
    store.check_disk(plan.bytes_needed - store.bytes_used())
    for _, grouped in groupby(plan.jobs, key=lambda job: job.contract.id):  # jobs come dataset by dataset
        jobs = list(grouped)
        try:
            opened = open_dataset(jobs[0].contract, jobs[0].source)
            runner = DatasetRunner(opened, store, progress or Silent(), executor or named_executor())
        except Exception as error:  # noqa: BLE001 - see _failure
            failure = _failure(error, jobs[0], store)
            yield from (Outcome(job, error=failure.line, again=failure.again) for job in jobs)
            continue
        yield from _timed(jobs, runner, timer) if timer else (_outcome(job, runner) for job in jobs)


def _outcome(job: Job, runner: DatasetRunner, timer: Timer | None = None) -> Outcome:
    """Do one job. What goes wrong in it, a plug-in's own mistake too, must not cost the other jobs their results.

    With a *timer* also time it, at once, if it is forgotten then.
    """
    timer = None if job.system.reusable else timer
    runner.unshared.clear()
    try:
        outcome = Outcome(job, result=result_of(job, runner))
        return next(_in_rounds([outcome], runner, timer)) if timer else outcome
    except Exception as error:  # noqa: BLE001 - see _failure
        failure = _failure(error, job, runner.store)
        return Outcome(job, error=failure.line, again=failure.again)
    finally:
        if not job.system.reusable:
            runner.forget()


def _timed(jobs: Sequence[Job], runner: DatasetRunner, timer: Timer) -> Iterator[Outcome]:
    """Score all *jobs*, then time them by turns; but at once what is forgotten once it has been scored."""
    outcomes = [_outcome(job, runner, timer) for job in jobs]
    waits = [outcome.result is not None and outcome.job.system.reusable for outcome in outcomes]
    timed = _in_rounds(list(compress(outcomes, waits)), runner, timer)
    yield from (next(timed) if wait else outcome for outcome, wait in zip(outcomes, waits, strict=True))


def _in_rounds(outcomes: Sequence[Outcome], runner: DatasetRunner, timer: Timer) -> Iterator[Outcome]:
    """Time what has been scored, all of whose stages are there; what goes wrong in it must not cost the scores.

    Each round has one process of each system, every second one in the opposite order: what slows the machine down for a while
    slows all of them, and the range over a system's processes shows it.
    """
    failed: dict[int, str] = {}
    ready: dict[int, TimedRun] = {}

    def attempt(number: int, act: Callable[[], T]) -> T | None:
        try:
            return act()
        except Exception as error:  # noqa: BLE001 - see _failure
            failed[number] = _failure(error, outcomes[number].job, runner.store).line
            return None

    for number, outcome in enumerate(outcomes):
        if made := attempt(number, partial(_ready, outcome.job, runner, timer)):
            ready[number] = made
    for turn in range(timer.rounds):
        for number in sorted(ready, reverse=turn % 2 == 1):
            if number not in failed:
                attempt(number, partial(timer.measure, ready[number], runner, turn))
    for number, outcome in enumerate(outcomes):
        timings = None if number in failed else attempt(number, partial(timer.timings, ready[number], runner))
        result = outcome.result and msgspec.structs.replace(outcome.result, timings=timings or [])
        yield replace(outcome, result=result, untimed=failed.get(number))


def _ready(job: Job, runner: DatasetRunner, timer: Timer) -> TimedRun:
    """Return what is timed of a job that has been scored; CannotStart where it cannot be."""
    timer.check(job.system)
    system, _ = tuning.with_weights(job.system, runner, job.headline, job.depth)
    index = runner.index(system.retriever, system.label)
    run_dir = runner.run(system, job.depth)
    return TimedRun(job.system, system, index, sorted(own_folders(index)), run_dir, job.depth)


class Failure(NamedTuple):
    """Why a job has no result, and the command that repeats just this job; None where that would fail in the same way."""

    line: str
    again: str | None


def _failure(error: Exception, job: Job, store: Store) -> Failure:
    """Return one line for *error*: what we raise says it all; of anything else the line says where the traceback is."""
    if isinstance(error, MissingData | ContractMismatch | CommandError):  # the same command would fail in the same way
        return Failure(str(error), None)
    if isinstance(error, LexbenchError):
        return Failure(str(error), job.command)
    if isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT):
        return Failure(f"the disk of {store.root} is full; free some, and the same command goes on from here", job.command)
    if isinstance(error, MemoryError):
        return Failure(f"{job.name}: there is not enough memory for it", job.command)
    return Failure(_unexpected(job, store), job.command)


def _unexpected(job: Job, store: Store) -> str:
    """Keep the traceback of the exception in hand; return one line with where it is."""
    text = traceback.format_exc()
    log = keep_traceback(job.name, text, store.root)
    what = " ".join(line.strip() for line in traceback.format_exception_only(sys.exception()))
    return f"{job.name}: {what}" + (f" (all of it: {log})" if log else "")


def result_of(job: Job, runner: DatasetRunner) -> Result:
    """Return the result of one job, making only the stages that are not there yet."""
    if job.system.retriever.finished:
        return _of_run_file(job, job.system.retriever, runner)
    system, chosen = tuning.with_weights(job.system, runner, job.headline, job.depth)
    job = replace(job, system=system)
    run_dir = runner.run(system, job.depth)
    index = runner.index(system.retriever, system.label)
    # The same run with weights that were typed is another result: it has nothing to say of a choice.
    inputs: Recipe = {"run": key_of(run_dir)} | ({"chosen": chosen} if chosen else {})
    with runner.draft("results", system.label, _recipe(job, runner, inputs)) as draft:
        if draft.unfinished:
            watch = Stopwatch()
            with watch.time("score"):
                ranked = read_run(run_dir)
                result = _scored(job, runner, ranked, runner.corpus)
                models = notes.of_models(system, job.contract.id)
                lines = [
                    *chosen,
                    *runner.remarks,
                    *notes.of_judgements(runner),
                    *models,
                    *notes.of_candidates(system, runner, ranked.run),
                ]
            approximate = list(notes.of_approximation(system, runner))  # not while the scoring is timed
            alone = len(approximate) == 1 and isinstance(system.retriever, Encoded)
            found = {str(k): share for k, share in approximate[0].shares.items()} if alone else {}
            result = msgspec.structs.replace(result, notes=[*lines, *map(str, approximate)], found=found)
            _write(result, draft.unfinished, watch)
    return completed(_read(draft.folder, job), run_dir, index, runner.corpus.path)


def _of_run_file(job: Job, retriever: Retriever, runner: DatasetRunner) -> Result:
    """Score a finished run, self-matches dropped and cut to the depth: no corpus is needed."""
    name = job.contract.id
    with runner.draft("results", job.system.label, _recipe(job, runner, {"file": retriever.file_identity(name)})) as draft:
        if draft.unfinished:
            watch = Stopwatch()
            with watch.time("score"):
                result = _scored(job, runner, retriever.read(name), None)
            _write(result, draft.unfinished, watch)
    return _read(draft.folder, job)


def _recipe(job: Job, runner: DatasetRunner, inputs: Recipe) -> Recipe:
    """Return what decides a result."""
    return {
        **inputs,
        "contract": job.contract.stamp,
        "qrels": runner.dataset.qrels_sha256,
        "measures": list(job.measures),
        "depth": job.depth,
        "scorer": _SCORER,
    }


def _scored(job: Job, runner: DatasetRunner, ranked: Filtered | Run, corpus: StoredCorpus | None) -> Result:
    """Score a run under the job's contract; the result holds everything but what its index and machine add.

    A bare `Run` is that of a file: nothing has been dropped from it or cut.
    """
    dataset = runner.dataset
    named = {"system": job.system.label, "dataset": job.contract.id, "contract": job.contract.stamp}
    if isinstance(ranked, Run):
        result = score_ranked(ranked, dataset.qrels, job.measures, named, protocol=job.contract.protocol, depth=job.depth)
        counts = result.counts
    else:
        kept = excluded(ranked.run, dataset.qrels, job.contract.protocol)
        result = score_run(kept.run, dataset.qrels, job.measures, **named, depth=job.depth)
        counts = msgspec.structs.replace(result.counts, self_matches=ranked.dropped, excluded=kept.dropped)
    digests = {"queries": dataset.queries_sha256, "qrels": dataset.qrels_sha256}
    if corpus is not None:
        counts = msgspec.structs.replace(counts, documents=len(corpus), judged_absent=dataset.check_corpus(corpus))
        digests["corpus"] = corpus.fingerprint
    seen = exposure_of(job.system, job.contract)
    made = {"notation": job.system.notation, "recipe": dict(job.system.recipe), "sizes": _model_size(job.system)}
    return msgspec.structs.replace(result, counts=counts, digests=digests, exposure=seen, **made)


def _write(result: Result, path: Path, watch: Stopwatch) -> None:
    results.save(result, path / "result.json")
    watch.write(path)


def _read(folder: Path, job: Job) -> Result:
    """Read a stored result, which may have been made under another label, and before the catalogue knew what it does now."""
    stored, seen = results.load(folder / "result.json"), exposure_of(job.system, job.contract)
    named = {"system": job.system.label, "notation": job.system.notation}
    sizes = stored.sizes | _model_size(job.system)
    return msgspec.structs.replace(stored, **named, measured=read_measurement(folder), exposure=seen, sizes=sizes)


def _model_size(system: System) -> dict[str, int]:
    model = weights(system.retriever)
    return {"model": model} if model else {}


def completed(result: Result, run_dir: Path, index: Path, corpus: Path) -> Result:
    """Return a result with what its run, index and corpus add: sizes, counts, and the times of every stage."""
    stages = [read_measurement(index), read_measurement(run_dir), result.measured]
    seconds = {name: spent for stage in stages for name, spent in stage.seconds.items()}
    vectors, folders = index / VECTORS_FILE, own_folders(index)
    return msgspec.structs.replace(
        result,
        notes=[*result.notes, *read_remarks(index)],
        sizes=result.sizes | {"index": sum(size(folder, ENGINE_DIR) for folder in folders), "corpus": size(corpus)},
        vectors=msgspec.json.decode(vectors.read_bytes(), type=Vectors) if vectors.exists() else None,
        work=_work(run_dir, result.counts.documents or 1),
        measured=msgspec.structs.replace(stages[1], seconds=seconds, resumed=any(stage.resumed for stage in stages)),
    )


def _work(run_dir: Path, documents: int) -> Work | None:
    """Return what searching took, if the run counted it."""
    file = run_dir / "work.json"
    counts = json.loads(file.read_bytes()) if file.exists() else {}  # runs of older versions have none
    return Work(**counts, flops=counts["postings"]["mean"] / documents) if counts else None
