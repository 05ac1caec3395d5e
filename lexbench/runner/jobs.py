"""From a plan to results: which stage follows which, and what becomes of a job that fails."""

import json
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from errno import ENOSPC
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lexbench import measures, results
from lexbench.datasets.corpus import StoredCorpus
from lexbench.datasets.dataset import Dataset, open_dataset
from lexbench.errors import ContractMismatch, LexbenchError, MissingData
from lexbench.progress import Progress, Silent
from lexbench.results import Result, Vectors, Work
from lexbench.retrievers._combination import referred
from lexbench.retrievers.encoded import ENGINE, VECTORS
from lexbench.retrievers.pipeline import Pipeline
from lexbench.retrievers.rerank import Rerank
from lexbench.retrievers.run_file import RunFile
from lexbench.runner import approximation, tuning
from lexbench.runner.plan import Job, Plan
from lexbench.runner.scoring import score_run
from lexbench.runner.stages import Workbench
from lexbench.runner.stored_run import read_run
from lexbench.runner.systems import leaves
from lexbench.storage import atomic
from lexbench.storage.stopwatch import Stopwatch, read_measurement
from lexbench.storage.store import Recipe, Store, digest, read_remarks, readable, recipe_of, size
from lexbench.timing.kept import of_run
from lexbench.timing.measure import Timed, check, timings
from lexbench.timing.protocol import Settings
from lexbench.trec.runs import Filtered, without_self_matches


@dataclass(frozen=True)
class Outcome:
    """How one job ended: a result, or one line that says why there is none."""

    job: Job
    result: Result | None = None
    error: str | None = None
    again: str | None = None  # the command that repeats just this job; None where that would fail in the same way
    untimed: str | None = None  # why there are scores and no timing, where that was asked for


def run(plan: Plan, kept: Store, progress: Progress | None = None, timing: Settings | None = None) -> Iterator[Outcome]:
    """Run the jobs of *plan* in order, yielding each outcome as it is there. A job that fails does not stop the rest.

    With *timing* each system is timed on each dataset after it has been scored.
    """
    kept.prepare()
    kept.check_disk(plan.bytes_needed - kept.bytes_used())
    bench: Workbench | None = None
    current, failure = "", Failure("", None)
    for job in plan.jobs:
        if job.contract.id != current:  # jobs come dataset by dataset; each is opened once
            current, bench = job.contract.id, None
            try:
                bench = Workbench(open_dataset(job.contract, job.source), kept, progress or Silent())
            except Exception as error:  # noqa: BLE001 - see _failure
                failure = _failure(error, job, kept)
        if bench is None:
            yield Outcome(job, error=failure.line, again=failure.again)
        else:
            yield _attempt(job, bench, timing)


def _attempt(job: Job, bench: Workbench, timing: Settings | None = None) -> Outcome:
    """Do one job. What goes wrong in it, a plug-in's own mistake too, must not cost the other jobs their results."""
    bench.made.clear()
    try:
        made = result_of(job, bench)
        return _timed(job, bench, made, timing) if timing else Outcome(job, result=made)
    except Exception as error:  # noqa: BLE001 - see _failure
        failure = _failure(error, job, bench.kept)
        return Outcome(job, error=failure.line, again=failure.again)
    finally:
        if not job.system.reusable:
            bench.forget()


def _timed(job: Job, bench: Workbench, made: Result, timing: Settings) -> Outcome:
    """Time what has been scored; what goes wrong in it must not cost the scores."""
    try:
        check(job.system)
        return Outcome(job, result=msgspec.structs.replace(made, timings=list(timings(_subject(job, bench), bench, timing))))
    except Exception as error:  # noqa: BLE001 - see _failure
        return Outcome(job, result=made, untimed=_failure(error, job, bench.kept).line)


def _subject(job: Job, bench: Workbench) -> Timed:
    """Return what is timed of a job that has a result: its stages are there and are only found."""
    system, _ = tuning.resolved(job.system, bench, job.headline, job.depth)
    index = bench.index(system.retriever, system.label)
    return Timed(job.system, system, index, sorted(_parts_of(index)), bench.run(system, job.depth), job.depth)


class Failure(NamedTuple):
    """Why a job has no result, and the command that repeats just this job; None where that would fail in the same way."""

    line: str
    again: str | None


def _failure(error: Exception, job: Job, kept: Store) -> Failure:
    """Return one line for *error*: what we raise says it all; of anything else the line says where the traceback is."""
    if isinstance(error, MissingData | ContractMismatch):
        return Failure(str(error), None)
    if isinstance(error, LexbenchError):
        return Failure(str(error), job.command)
    if isinstance(error, OSError) and error.errno == ENOSPC:
        return Failure(f"the disk of {kept.root} is full; free some, and the same command goes on from here", job.command)
    return Failure(_unexpected(job, kept), job.command)


def _unexpected(job: Job, kept: Store) -> str:
    """Keep the traceback of the exception in hand; return one line with where it is."""
    text = traceback.format_exc()
    log = kept.root / "logs" / f"{readable(job.name)}-{digest(text)}.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(log, text)
    return f"{job.name}: {text.strip().splitlines()[-1]} (all of it: {log})"


def result_of(job: Job, bench: Workbench) -> Result:
    """Return the result of one job, making only the stages that are not there yet."""
    if isinstance(job.system.retriever, RunFile):
        return _of_run_file(job, job.system.retriever, bench)
    system, chosen = tuning.resolved(job.system, bench, job.headline, job.depth)
    job = replace(job, system=system)
    folder = bench.run(job.system, job.depth)
    index = bench.index(job.system.retriever, job.system.label)
    # The same run with weights that were typed is another result: it has nothing to say of a choice.
    inputs: Recipe = {"run": _key(folder)} | ({"chosen": chosen} if chosen else {})
    made = _scored(job, bench, inputs, lambda: read_run(folder), bench.corpus)
    return _completed(made, folder, index, bench.corpus.path)


def _completed(made: Result, run: Path, index: Path, corpus: Path) -> Result:
    """Return a result with what its run, index and corpus add: sizes, counts, and the times of every stage."""
    stages = [read_measurement(index), read_measurement(run), made.measured]
    seconds = {name: spent for stage in stages for name, spent in stage.seconds.items()}
    vectors = index / VECTORS
    return msgspec.structs.replace(
        made,
        notes=[*made.notes, *read_remarks(sorted(_parts_of(index)))],
        sizes={"index": sum(size(part, ENGINE) for part in _parts_of(index)), "corpus": size(corpus)},
        vectors=msgspec.json.decode(vectors.read_bytes(), type=Vectors) if vectors.exists() else None,
        work=_work(run, made.counts.documents or 1),
        measured=msgspec.structs.replace(stages[1], seconds=seconds, resumed=any(stage.resumed for stage in stages)),
    )


def _parts_of(index: Path) -> set[Path]:
    """Return the folders that an index consists of: itself, or each of those that it refers to, once."""
    own = [folder for folder in referred(index) if folder.parent.name != "corpora"]  # whose size is told apart
    return set().union(*map(_parts_of, own)) if own else {index}


def _work(run: Path, documents: int) -> Work | None:
    """Return what searching took, if the run counted it."""
    counted = run / "work.json"
    found = json.loads(counted.read_bytes()) if counted.exists() else {}  # runs of older versions have none
    return Work(**found, flops=found["postings"]["mean"] / documents) if found else None


def _of_run_file(job: Job, retriever: RunFile, bench: Workbench) -> Result:
    """Score a finished run, self-matches dropped and cut to the depth: no corpus is needed."""
    name = job.contract.id
    drop = job.contract.protocol.self_match == "drop"

    def read() -> Filtered:
        run = retriever.read(name)
        return without_self_matches(run, job.depth) if drop else Filtered(run.cut(job.depth), 0)

    return _scored(job, bench, {"file": retriever.file_identity(name)}, read, None)


def _scored(job: Job, bench: Workbench, inputs: Recipe, read: Callable[[], Filtered], corpus: StoredCorpus | None) -> Result:
    """Score a run under the job's contract; the result holds everything but what its index and machine add."""
    dataset = bench.dataset
    recipe: Recipe = {
        **inputs,
        "contract": job.contract.stamp,
        "qrels": dataset.qrels_sha256,
        "measures": list(job.measures),
        "depth": job.depth,
        "scorer": 1,  # goes up when a kernel or the form of a result changes
    }

    def work(draft: Path) -> None:
        watch = Stopwatch()
        with watch.time("score"):
            ranked = read()
            result = _fresh(job, dataset, ranked, corpus)
            if corpus is not None:
                notes = [*inputs.get("chosen", ()), *bench.remarks, *_remarks(job), *_candidates(job, dataset, ranked)]
                result = msgspec.structs.replace(result, notes=notes)
        if corpus is not None:  # not while the scoring is timed
            result = msgspec.structs.replace(result, notes=[*result.notes, *approximation.remarks(job.system.retriever, bench)])
        results.save(result, draft / "result.json")
        watch.write(draft)

    folder = bench.produce("results", job.system.label, recipe, work)
    stored = results.load(folder / "result.json")
    return msgspec.structs.replace(stored, system=job.system.label, measured=read_measurement(folder))


def _remarks(job: Job) -> list[str]:
    """Return what the encoders of a job have to say of how they are used, and of what they were trained on, each line once."""
    encoders: list[Any] = [getattr(retriever, "encoder", None) for retriever in leaves(job.system.retriever)]
    lines = [line for encoder in encoders if hasattr(encoder, "remarks") for line in encoder.remarks()]
    told = [encoder for encoder in encoders if hasattr(encoder, "trained_on") and job.contract.id in encoder.trained_on()]
    lines += [f"{one.model} was trained on the very queries that are scored, so it may do worse on others" for one in told]
    return list(dict.fromkeys(lines))


def _candidates(job: Job, dataset: Dataset, ranked: Filtered) -> list[str]:
    """Return how much of what is relevant a pipeline's first retriever finds, or a reranked one; the run has just these."""
    if not isinstance(job.system.retriever, Pipeline | Rerank):
        return []
    recall = measures.with_threshold(f"R@{job.system.retriever.k}", job.contract)
    mean = measures.score(ranked.run, dataset.qrels, [recall]).means[recall]
    return [f"the candidates that its first retriever found have {recall} {mean:.4f}"]


def _fresh(job: Job, dataset: Dataset, ranked: Filtered, corpus: StoredCorpus | None) -> Result:
    named = {"system": job.system.label, "dataset": job.contract.id, "contract": job.contract.stamp}
    found = score_run(ranked.run, dataset.qrels, job.measures, **named, depth=job.depth)
    counts = msgspec.structs.replace(found.counts, self_matches=ranked.dropped)
    digests = {"queries": dataset.queries_sha256, "qrels": dataset.qrels_sha256}
    if corpus is not None:
        counts = msgspec.structs.replace(counts, documents=len(corpus), judged_absent=dataset.check_corpus(corpus))
        digests["corpus"] = corpus.fingerprint
    return msgspec.structs.replace(found, counts=counts, digests=digests, recipe=dict(job.system.recipe))


@dataclass(frozen=True)
class Kept:
    """A finished result of the store, and the folder of its run where the run was made here."""

    result: Result
    run: Path | None


def kept_results(kept: Store) -> Iterator[Kept]:
    """Yield every finished result of the store, sorted by dataset and system."""
    found = []
    for path in kept.root.glob("results/*/result.json"):
        made = msgspec.structs.replace(results.load(path), measured=read_measurement(path.parent))
        run = _one(kept.root, "runs", recipe_of(path.parent).get("run"))
        index = run and _one(kept.root, "indexes", recipe_of(run)["index"])
        corpus = run and kept.root / "corpora" / json.loads((run / "run.json").read_bytes())["corpus"]
        if run and index and corpus and corpus.exists():
            with suppress(MissingData):  # of an ensemble a part may be gone
                made = msgspec.structs.replace(_completed(made, run, index, corpus), timings=of_run(kept.root, _key(run)))
        found.append(Kept(made, run))
    yield from sorted(found, key=lambda one: (one.result.dataset, one.result.system))


def _key(folder: Path) -> str:
    return folder.name.rpartition("-")[2]


def _one(root: Path, stage: str, key: str | None) -> Path | None:
    """Return the finished folder of that key, if it is still there."""
    return next((root / stage).glob(f"*-{key}"), None) if key else None
