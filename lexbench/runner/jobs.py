"""Carrying out a plan: each job makes an index, a run and a result, or reuses them from the store. Jobs can be timed.

`run` yields an outcome per job; a job that fails does not stop the rest. `encode` makes only the vectors that a plan needs.
"""

import json
import re
import shutil
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from errno import EDQUOT, ENOSPC
from itertools import compress, groupby
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from lexbench.datasets.corpus import StoredCorpus
from lexbench.datasets.dataset import open_dataset
from lexbench.errors import CommandError, ContractMismatch, LexbenchError, MissingData
from lexbench.executors import executor as named_executor
from lexbench.foreign import ForeignRetriever
from lexbench.measures import parse as parse_measure
from lexbench.measures import score as score_run
from lexbench.measures import with_threshold
from lexbench.plugins import Executor
from lexbench.progress import Progress
from lexbench.results import Entry, Failure, Note, Result, Results, Session, Vectors, Work, save
from lexbench.retrievers.encoded import Encoded
from lexbench.runner import tuning
from lexbench.runner.artifacts import placed
from lexbench.runner.data_notes import data_notes
from lexbench.runner.exposure import exposure_of
from lexbench.runner.plan import Job, Plan
from lexbench.runner.scoring import noted, score_ranked, unknown_documents, without_relevant
from lexbench.runner.search import DatasetRunner, MadeRun, read_run
from lexbench.runner.soundness import read_stored
from lexbench.runner.systems import System, describe, encoded_leaves, model_name, trained_members, weight_bytes
from lexbench.storage.artifact_folder import VECTORS_FILE, KeyFacts, index_size, key_of, own_folders, read_notes, size
from lexbench.storage.code import code_facts
from lexbench.storage.stopwatch import Stopwatch, read_measurement
from lexbench.storage.store import Store, keep_traceback
from lexbench.trec.qrels import judge_notes
from lexbench.trec.runs import Filtered, Run
from lexbench.types import Kind

_SCORER = 2  # raise it when a measure's code or the form of a result changes


@dataclass(frozen=True)
class Outcome:
    """How one job ended: a result, or one line that says why there is none."""

    job: Job
    result: Result | None = None
    error: str | None = None
    again: str | None = None  # the command that repeats only this job; None if it would fail in the same way
    untimed: str | None = None  # why timing failed, if the job was to be timed
    system: System | None = None  # what a timer measures: the system with its weights chosen
    made: MadeRun | None = None  # its untimed run, and its index
    run: Run | None = None  # the run itself, of a system whose artifacts are forgotten once it has been scored


# Times systems that have been scored, and yields their outcomes with timings: `lexbench.timing.timer.Timer`.
Timer: TypeAlias = Callable[[Sequence[Outcome], DatasetRunner], Iterator[Outcome]]


# ---- the jobs of a plan ----------------------------------------------------------------------------------------------------


def run(
    plan: Plan, store: Store, progress: Progress | None = None, timer: Timer | None = None, executor: Executor | None = None
) -> Iterator[Outcome]:
    """Run the jobs of *plan* in order and yield each outcome as soon as it is ready. A job that fails does not stop the rest.

    With a *timer*, the systems of a dataset are timed by turns after all of them have been scored, and yielded then.
    The *executor* encodes corpora; None: the one that LEXBENCH_ON names, or the one that suits the encoder.
    """
    store.prepare()
    store.check_disk(plan.bytes_needed - store.bytes_used())
    for _, grouped in groupby(plan.jobs, key=lambda job: job.contract.id):  # jobs come dataset by dataset
        jobs = list(grouped)
        try:
            opened = open_dataset(jobs[0].contract, jobs[0].source)
            runner = DatasetRunner(opened, store, progress or Progress(), executor or named_executor())
        except Exception as error:  # noqa: BLE001 - see failure
            failed = failure(error, jobs[0], store)
            yield from (replace(failed, job=job) for job in jobs)
            continue
        yield from _timed(jobs, runner, timer) if timer else (_outcome(job, runner) for job in jobs)


def _outcome(job: Job, runner: DatasetRunner, timer: Timer | None = None) -> Outcome:
    """Do one job. An error in it, also a plug-in's own, must not cost the other jobs their results.

    A job whose artifacts are forgotten once it has been scored is timed at once by *timer*.
    """
    timer = None if job.system.reusable else timer
    runner.workspace.unshared.clear()
    try:
        outcome = _scored_outcome(job, runner)
        if job.system.alias_of:
            runner.store.remember_name(job.system.name, job.system.alias_of)
        if outcome.result and job.source and job.contract.source.loader == "files":
            runner.store.remember_place(outcome.result.digests, job.source.place("judgements"))
        if outcome.made and not job.system.reusable:
            outcome = replace(outcome, run=read_run(outcome.made.folder).run)
        return next(timer([outcome], runner)) if timer else outcome
    except Exception as error:  # noqa: BLE001 - see failure
        return failure(error, job, runner.store)
    finally:
        if not job.system.reusable:
            for folder in runner.workspace.unshared:  # no later command can know that it is the same system
                shutil.rmtree(folder, ignore_errors=True)


def _timed(jobs: Sequence[Job], runner: DatasetRunner, timer: Timer) -> Iterator[Outcome]:
    """Score all *jobs*. Then time, by turns, the systems that `_outcome` has not timed already."""
    outcomes = [_outcome(job, runner, timer) for job in jobs]
    waits = [outcome.result is not None and outcome.job.system.reusable for outcome in outcomes]
    timed = timer(list(compress(outcomes, waits)), runner)
    yield from (next(timed) if wait else outcome for outcome, wait in zip(outcomes, waits, strict=True))


def results_of(plan: Plan, outcomes: Iterable[Outcome], store: Store) -> Results:
    """Return the results of *outcomes*, with the failed jobs."""
    entries, failures = [], []
    for outcome in outcomes:
        job = outcome.job
        if outcome.result:
            kept = outcome.made.folder if outcome.made and job.system.reusable else outcome.run
            entries.append(Entry(outcome.result, plan.suite.id if plan.suite else "", kept))
        if line := outcome.error or outcome.untimed:
            names = {"system": job.system.name, "dataset": job.contract.id}
            failures.append(Failure(**names, error=line, again=outcome.again, scored=not outcome.error))
    data = {job.contract.id: (job.contract, job.source) for job in plan.jobs if job.source}
    return Results(entries, failures=failures, session=Session(store, plan.suite, data))


# ---- failures --------------------------------------------------------------------------------------------------------------


def failure(error: Exception, job: Job, store: Store) -> Outcome:
    """Return the outcome of a job that raised *error*. The traceback of an unexpected error is saved in a file."""
    again = job.command
    if isinstance(error, LexbenchError):
        line = str(error)
        if isinstance(error, MissingData | ContractMismatch | CommandError):  # the same command would fail in the same way
            again = None
    elif isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT):
        line = f"the disk of {store.root} is full; free some space, and the same command continues"
    elif isinstance(error, MemoryError):
        line = f"{job.name}: there is not enough memory for it"
    else:
        log = keep_traceback(job.name, traceback.format_exc(), store.root)
        what = " ".join(part.strip() for part in traceback.format_exception_only(error))
        line = f"{job.name}: {what}" + (f" (all of it: {log})" if log else "")
    return Outcome(job, error=line, again=again)


# ---- the result of a job ---------------------------------------------------------------------------------------------------


def _scored_outcome(job: Job, runner: DatasetRunner) -> Outcome:
    """Return the outcome of a job that has a result, making only the artifacts that are not there yet."""
    if job.system.retriever.finished:
        return Outcome(job, _result_of_run_file(job, runner))
    system, chosen = tuning.with_weights(job.system, runner, job.headline, job.depth)
    made = runner.run(system, job.depth)
    result = _result(replace(job, system=system), runner, made, chosen)
    return Outcome(job, result, system=system, made=made)


def _result(job: Job, runner: DatasetRunner, made: MadeRun, chosen: Sequence[Note]) -> Result:
    """Return the result of a run; *chosen* are notes on weights that were chosen for it."""
    system = job.system

    def score(watch: Stopwatch) -> Result:
        with watch.time("score"):
            ranked = read_run(made.folder)
            result = _scored(job, runner, ranked, runner.corpus)
            lines = [
                *chosen,
                *noted("documents", runner.notes),
                *judgement_notes(runner),
                *noted("documents", data_notes(system, runner)),
                *model_notes(system, job.contract.id),
                *candidate_notes(system, runner, ranked.run),
                *short_list_notes(system, runner, ranked.run, job.depth),
            ]
        recalls = list(approximations(system, runner))  # not while scoring is timed
        alone = isinstance(system.retriever, Encoded)
        found = {str(k): share for _, recall in recalls for k, share in recall.items()} if alone else {}
        bound = any(note.kind == "bound" for note in chosen)
        return msgspec.structs.replace(result, bound=bound, notes=[*lines, *(note for note, _ in recalls)], found=found)

    # The same run with weights that were typed is another result: it has no note about a choice.
    inputs: KeyFacts = {"run": key_of(made.folder)} | ({"chosen": [note.text for note in chosen]} if chosen else {})
    return completed(_stored_result(job, runner, inputs, score), made.folder, made.index, runner.corpus.path)


def _result_of_run_file(job: Job, runner: DatasetRunner) -> Result:
    """Return the result of a run from a file. Self-matches are dropped, lists are cut to the depth."""
    retriever, name = job.system.retriever, job.contract.id
    inputs: KeyFacts = {"file": retriever.file_identity(name)} | ({"documents": job.source.identity()} if job.source else {})

    def score(watch: Stopwatch) -> Result:
        with watch.time("score"):
            run = retriever.read(name)
            result = _scored(job, runner, Filtered(run, 0), None)
            return msgspec.structs.replace(result, notes=[*result.notes, *unknown_documents(run, job.source)])

    return _stored_result(job, runner, inputs, score)


def _stored_result(job: Job, runner: DatasetRunner, inputs: KeyFacts, score: Callable[[Stopwatch], Result]) -> Result:
    """Return the result of a job from the store; if it is not there, *score* makes it. *inputs* identify what is scored."""
    facts = {
        **inputs,
        "contract": job.contract.stamp,
        "qrels": runner.dataset.digests["qrels"],
        "measures": list(job.measures),
        "depth": job.depth,
        "scorer": _SCORER,
        **code_facts("lexbench.runner.scoring", *(type(parse_measure(name)) for name in job.measures)),
    }
    with runner.workspace.draft("results", f"{job.contract.id} {job.system.name}", facts) as draft:
        if draft.unfinished:
            watch = Stopwatch()
            save(score(watch), draft.unfinished / "result.json")
            watch.write(draft.unfinished)
    return _read(draft.folder, job)


def _scored(job: Job, runner: DatasetRunner, ranked: Filtered, corpus: StoredCorpus | None) -> Result:
    """Score a run under the job's contract; the result lacks only what its index and machine add."""
    dataset = runner.dataset
    named = {"system": job.system.name, "dataset": job.contract.id, "contract": job.contract.stamp}
    result = score_ranked(ranked.run, dataset.qrels, job.measures, named, protocol=job.contract.protocol, depth=job.depth)
    counts = msgspec.structs.replace(result.counts, self_matches=result.counts.self_matches + ranked.dropped)
    digests = dataset.digests
    if corpus is not None:
        counts = msgspec.structs.replace(counts, documents=len(corpus), judged_absent=dataset.check_corpus(corpus))
        digests["corpus"] = corpus.fingerprint
    seen = exposure_of(job.system, job.contract)
    made = {"expression": job.system.alias_of, "recipe": dict(job.system.recipe), "sizes": _model_size(job.system)}
    return msgspec.structs.replace(result, counts=counts, digests=digests, exposure=seen, **made)


def _read(folder: Path, job: Job) -> Result:
    """Read a stored result, which may have been made under another name, or with an older catalogue."""
    stored, seen = read_stored(folder / "result.json"), exposure_of(job.system, job.contract)
    named = {"system": job.system.name, "expression": job.system.alias_of}
    sizes = stored.sizes | _model_size(job.system)
    return msgspec.structs.replace(stored, **named, measured=read_measurement(folder), exposure=seen, sizes=sizes)


def _model_size(system: System) -> dict[str, int]:
    model = weight_bytes(system.retriever)
    return {"model": model} if model else {}


def completed(result: Result, run_dir: Path, index: Path, corpus: Path) -> Result:
    """Return a result with what its run, index and corpus add: sizes, counts, and the times of every artifact."""
    steps = [read_measurement(index), read_measurement(run_dir), result.measured]
    seconds = {name: spent for step in steps for name, spent in step.seconds.items()}
    vectors = index / VECTORS_FILE
    built = sum(map(index_size, own_folders(index)))  # 0 if the index is elsewhere
    work = json.loads((run_dir / "work.json").read_bytes())  # empty if the retriever counts nothing
    return msgspec.structs.replace(
        result,
        notes=[*result.notes, *noted("index", read_notes(index))],
        sizes=result.sizes | ({"index": built} if built else {}) | {"corpus": size(corpus)},
        vectors=msgspec.json.decode(vectors.read_bytes(), type=Vectors) if vectors.exists() else None,
        work=Work(**work, flops=work["postings"]["mean"] / (result.counts.documents or 1)) if work else None,
        measured=msgspec.structs.replace(steps[1], seconds=seconds, resumed=any(step.resumed for step in steps)),
    )


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
    number, of = map(int, typed.split("/"))
    if number >= of:
        raise CommandError(f"--part {typed} is part {number} of {of}, but parts count from 0: write e.g. 0/{of or 16}")
    return number, of


def encode(
    plan: Plan, store: Store, part: tuple[int, int], progress: Progress, executor: Executor | None = None
) -> Iterator[EncodedCorpus]:
    """Encode *part* (number from 0, number of parts) of each corpus of *plan* with each encoder of its systems.

    Several processes may do so at once, in one store, on any machines; the one that makes the last shard finishes the artifact.
    Raises CommandError for a system without an encoder, or with one whose vectors are not kept.
    """
    store.prepare()
    done: set[tuple[str, str]] = set()
    runner: DatasetRunner | None = None
    for job in plan.jobs:
        if next(encoded_leaves(job.system.retriever), None) is None:
            raise CommandError(f"{job.system.name} has no encoder; name a system that has one, e.g. lexmae_nano@impact")
        if not job.system.reusable:
            raise CommandError(f"{job.system.name} has no identity(), so its vectors are not kept; type: lexbench run")
        if runner is None or runner.dataset.contract.id != job.contract.id:
            runner = DatasetRunner(open_dataset(job.contract, job.source), store, progress, executor or named_executor())
        for leaf, artifacts in placed(job.system.retriever, runner.artifacts):
            if not isinstance(leaf, Encoded):
                continue
            key = artifacts.corpus.fingerprint, str(describe(leaf.encoder, index=True))
            if key in done:
                continue
            done.add(key)
            left = artifacts.encode_part(leaf.encoder, *part)
            folder = None if left else artifacts.encodings(leaf.encoder).path
            yield EncodedCorpus(artifacts.name, type(leaf.encoder).__name__, left, folder)


# ---- notes of a result: facts that readers need to understand its scores ----------------------------------------------------


_QUERIES = 200  # evenly spaced, searched exactly: the recall is then known to about .01
_DEPTHS = (10, 100)


def model_notes(system: System, dataset: str) -> list[Note]:
    """Return the notes of encoders and rerankers, and warnings about encoders that were trained on the tested queries."""
    lines = [Note("model", line) for member in trained_members(system.retriever) for line in member.notes()]
    lines += [
        Note(
            "seen in training",
            f"{model_name(leaf.encoder)} was trained on the very queries that are scored, so it may do worse on others",
        )
        for leaf in encoded_leaves(system.retriever)
        if dataset in leaf.encoder.trained_on()
    ]
    return list(dict.fromkeys(lines))


def judgement_notes(runner: DatasetRunner) -> list[Note]:
    """Return notes about the judgements: queries without relevant documents or text, and the LLM judge, if there was one."""
    place, textless = runner.dataset.source.place("judgements"), runner.dataset.topics.textless
    path = Path(place) if place else None
    lines = [*noted("judgements", runner.dataset.source.judgement_notes()), *without_relevant(runner.dataset.qrels)]
    if textless:
        line = f"{len(textless)} of {len(runner.dataset.queries)} judged queries have no text, e.g. {textless[0]!r}"
        lines.append(Note("judgements", line))
    may_have_judges = path and not {".tsv", ".txt"}.isdisjoint(path.suffixes)
    return [*lines, *(noted("judge", judge_notes(path)) if path and may_have_judges else ())]


def candidate_notes(system: System, runner: DatasetRunner, run: Run) -> list[Note]:
    """Return the recall of the candidates of a pipeline or a reranked retriever; *run* has exactly the candidates.

    Continuous grades have no threshold that a recall could use.
    """
    if not system.retriever.candidates or runner.dataset.qrels.continuous:
        return []
    recall = with_threshold(f"R@{system.retriever.candidates}", runner.dataset.contract)
    mean = score_run(run, runner.dataset.qrels, [recall]).means[recall]
    return [Note("candidates", f"the candidates that its first retriever found have {recall} {mean:.4f}")]


def short_list_notes(system: System, runner: DatasetRunner, run: Run, depth: int) -> list[Note]:
    """Return a note if a search system outside lexbench returned fewer documents than requested."""
    wanted = min(depth, len(runner.corpus) - runner.drops_self_matches)
    short = int((np.diff(run.offsets) < wanted).sum()) if isinstance(system.retriever, ForeignRetriever) else 0
    line = f"it returned fewer than {wanted:,} documents for {short:,} of {len(run.query_ids):,} queries"
    return [Note("short lists", line)] if short else []


def approximations(system: System, runner: DatasetRunner) -> Iterator[tuple[Note, dict[int, float]]]:
    """Yield a note and the recall of exact, by k, of each member that searches dense or sparse vectors approximately.

    A sample of the queries is encoded and searched again, and multiplied with all stored vectors, a shard in memory at a time.
    """
    from lexbench.engines.kernels.dense import overlap

    seen = set()
    for leaf, artifacts in placed(system.retriever, runner.artifacts):
        if not isinstance(leaf, Encoded) or leaf.engine.exact or leaf.engine.kind is Kind.MULTI:
            continue
        if (searched := (str(leaf), artifacts.name)) in seen:
            continue
        seen.add(searched)
        queries = runner.dataset.queries[:: max(1, len(runner.dataset.queries) // _QUERIES)][:_QUERIES]
        searcher = leaf.open(artifacts.index(leaf))
        vectors = searcher.encode_queries(queries)
        hits = searcher.search(vectors, min(max(_DEPTHS), len(artifacts.corpus)))
        shards = (leaf.as_documents(shard) for shard in artifacts.encodings(leaf.encoder).shards())
        recall = overlap(shards, vectors, hits, _DEPTHS)
        found = " and ".join(f"{share:.3f} of the best {k}" for k, share in recall.items())
        line = f"{type(leaf.engine).__name__.lower()} finds {found} of exact search, on {len(queries)} of the queries"
        yield Note("approximate search", line), recall
