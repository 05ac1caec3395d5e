"""`Timer` times systems on a dataset: each scenario in fresh processes, every duration in the store.

The timed passes must return the documents of the untimed run, so no system can be fast in one and good in the other.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from itertools import islice, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from lexbench.errors import CannotStart, LexbenchError
from lexbench.executors import written
from lexbench.registry import replace_plugins
from lexbench.results import SINGLE, Timing
from lexbench.runner.jobs import Outcome, failure
from lexbench.runner.plan import Job
from lexbench.runner.search import DatasetRunner, MadeRun, own_positions, read_run
from lexbench.runner.systems import System, encoded_leaves
from lexbench.storage import atomic, environment
from lexbench.storage.artifact_folder import ENGINE_DIR, KeyFacts, key_of, own_folders, sizes
from lexbench.storage.environment import cores
from lexbench.timing import protocol
from lexbench.timing.machine import fingerprint, performance, siblings
from lexbench.timing.measuring import chosen_weights, measure_here
from lexbench.timing.stored_timings import CONDITIONS_FILE, Conditions, read_hits, read_timing
from lexbench.trec.runs import Run, without_self_matches
from lexbench.types import Query

STAGE = "timings"
_ROUNDING = 1e-3  # of a list's largest score
# The same in bfloat16 and float16. Between a query alone and in a batch, three models differed by at most .0144 in bfloat16,
# and by 2e-6 in float32 (115 queries of pydoc, AMD EPYC, 2026-11-23).
_HALF_ROUNDING = 2e-2


@dataclass(frozen=True)
class Timer:
    """Times systems according to its *settings*."""

    settings: protocol.Settings

    def check(self, system: System) -> None:
        """Raise CannotStart if *system* has no search to time, or gets the whole corpus with each query."""
        if system.retriever.finished:
            raise CannotStart(f"{system.name} is a finished run, so there is no search to time")
        if getattr(system.retriever, "takes_corpus", False):
            raise CannotStart(
                f"{system.name} gets the corpus with every query, so its time is not that of a search: leave out time"
            )

    def __call__(self, outcomes: Sequence[Outcome], runner: DatasetRunner) -> Iterator[Outcome]:
        """Time the systems of *outcomes* on the dataset of *runner*, and yield each outcome with its timings.

        Each round has one process per system, every second round in the opposite order. If something slows the machine down
        for a while, it slows all systems down, and the range over a system's processes shows it. An outcome whose timing fails
        keeps its scores.
        """
        failed: dict[int, str] = {}
        timings: dict[int, list[Timing]] = {}

        @contextmanager
        def errors_kept(number: int) -> Iterator[None]:
            try:
                yield
            except Exception as error:  # noqa: BLE001 - see jobs.failure
                failed[number] = str(failure(error, outcomes[number].job, runner.store).error)

        for number, outcome in enumerate(outcomes):
            with errors_kept(number):
                self.check(outcome.job.system)
        for turn in range(self.settings.processes):
            for number in sorted(range(len(outcomes)), reverse=turn % 2 == 1):
                with errors_kept(number):
                    if number not in failed:
                        self._measure(outcomes[number], runner, turn)
        for number, outcome in enumerate(outcomes):
            with errors_kept(number):
                if number not in failed:
                    timings[number] = [read_timing(one.folders()) for one in self._measurements(outcome, runner)]
            result = outcome.result and msgspec.structs.replace(outcome.result, timings=timings.get(number, []))
            yield replace(outcome, result=result, untimed=failed.get(number))

    def _measure(self, outcome: Outcome, runner: DatasetRunner, number: int) -> None:
        """Time process *number* (from 0) of each scenario with that many processes, unless this machine has done so before."""
        for one in self._measurements(outcome, runner):
            if number < one.processes:
                label = f"{runner.dataset.contract.id} {one.job.system.name} {one.scenario}"
                folder = runner.store.produce(STAGE, label, one.key_facts(number), one.write, anew=self.settings.again)
                if not one.job.system.reusable:
                    runner.workspace.unshared.append(folder)

    def _measurements(self, outcome: Outcome, runner: DatasetRunner) -> Iterator["_Measurement"]:
        """Yield a measurement for each k and each scenario."""
        assert outcome.system is not None  # `check` has refused systems without a search
        assert outcome.made is not None
        parts = outcome.job, outcome.system, outcome.made, runner, self.settings
        depths = self.settings.k if isinstance(self.settings.k, tuple) else (self.settings.k,)
        deepest = outcome.job.depth + runner.drops_self_matches  # with self-matches, one document more is asked for
        for k, (scenario, threads) in product(depths, protocol.scenarios(self.settings).items()):
            yield _Measurement(*parts, scenario, threads, deepest if k is None else k)


@dataclass(frozen=True)
class _Measurement:
    """One scenario of one system, for one number of documents per query."""

    job: Job
    system: System  # with its weights chosen
    made: MadeRun  # untimed
    runner: DatasetRunner
    settings: protocol.Settings
    scenario: str
    threads: int
    k: int

    @property
    def here(self) -> bool:
        """Whether only this process has the system: it is an object."""
        return self.job.system.expression is None

    @property
    def processes(self) -> int:
        """The number of processes to measure in."""
        return self.settings.processes if self.scenario == SINGLE and not self.here else 1

    @property
    def _queries(self) -> list[Query]:
        return protocol.sample(self.runner.dataset.queries, self.settings.queries)

    @property
    def _on(self) -> str:
        """The `--on` text of the executor whose workers search, or "" if the measuring process searches."""
        retriever, workers = self.system.retriever, self.runner.executor
        return written(workers) if workers and self.runner.workspace.with_workers(retriever) is not retriever else ""

    def key_facts(self, number: int) -> KeyFacts:
        """Return the key facts of the durations of one process."""
        where: dict[str, Any] = ({"on": self._on} if self._on else {}) | ({"here": True} if self.here else {})
        if stated := devices_of(self.system.retriever):  # they change no answer, so the run's key has none of them
            where["devices"] = stated
        return where | {
            "protocol": protocol.VERSION,
            "run": key_of(self.made.folder),
            "scenario": self.scenario,
            "k": self.k,
            "queries": len(self._queries),
            "seconds": self.settings.seconds,
            "processes": self.processes,
            "process": number,
            "fingerprint": fingerprint(),
            "lexbench": environment.versions().get("lexbench"),
        }

    def folders(self) -> list[Path]:
        """Return the finished folder of each process. Raises LexbenchError if one has been removed."""
        folders = [self.runner.store.finished(STAGE, self.key_facts(number)) for number in range(self.processes)]
        if None in folders:
            raise LexbenchError("a timing that was just measured has been removed: run the same command again")
        return [folder for folder in folders if folder]

    def write(self, draft: Path) -> None:
        """Measure in a fresh process (an object: in this one), and write the durations and conditions into *draft*."""
        named, retriever, runner, queries = self.job.system, self.system.retriever, self.runner, self._queries
        # The last core, because the operating system works mostly on the first. Not every operating system can pin processes.
        single = self.scenario == SINGLE
        core = cores()[-1] if single and hasattr(os, "sched_setaffinity") else None
        task = protocol.Task(
            system=named.expression or "",
            weights=chosen_weights(named.retriever, retriever),
            index=str(self.made.index),
            queries=[(query.query_id, query.text) for query in queries],
            own=own_positions(runner.corpus, queries).tolist() if runner.drops_self_matches else [],
            k=self.k,
            threads=self.threads,
            single=single,
            seconds=self.settings.seconds / self.processes,
            core=core,
            on=self._on,
            out=str(draft),
        )
        runner.progress.start(self.job.name, self.scenario, None, "queries")
        advance = partial(runner.progress.advance, len(queries))
        if self.here:
            measure_here(task, retriever, advance)
        else:
            protocol.run_task(task, self.threads, advance)
        runner.progress.end()
        pinned = {} if core is None else {"core": core, "siblings": siblings(core)}
        facts = msgspec.json.decode((draft / protocol.FACTS_FILE).read_bytes(), type=protocol.Facts)
        known = {
            "scenario": self.scenario,
            "threads": self.threads,
            "k": self.k,
            "asked_seconds": self.settings.seconds,
            "exact": all(leaf.engine.exact for leaf in encoded_leaves(retriever)),
            "candidates": retriever.candidates,
            "queries": len(queries),
            "disk": _disk(self.made.index),
            "fingerprint": fingerprint(facts.gpus),
            "machine": performance() | pinned | ({"computed_on": facts.gpus} if facts.gpus else {}),
            "taken": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        baseline = _import_memory(frozenset(facts.modules)) if "pss_file" in facts.memory else {}
        conditions = Conditions(known=known, differing=self._differing(draft), baseline=baseline)
        atomic.write_bytes(draft / CONDITIONS_FILE, msgspec.json.encode(conditions))

    def _differing(self, draft: Path) -> int:
        """Return the number of queries that got other documents than in the untimed run."""
        run = Run.from_hits([query.query_id for query in self._queries], read_hits(draft), self.runner.corpus.doc_ids)
        drop = self.runner.drops_self_matches
        compared = without_self_matches(run, self.job.depth).run if drop else run
        dtypes = {getattr(leaf.encoder, "dtype", "") for leaf in encoded_leaves(self.system.retriever)}
        rounding = _HALF_ROUNDING if dtypes & {"bfloat16", "float16"} else _ROUNDING
        return differing(compared, read_run(self.made.folder).run, self.k - drop, rounding)


def devices_of(retriever: Any) -> list[str]:
    """Return the settings `device` of *retriever* and the plug-ins in it that are not "auto"."""
    found: list[str] = []

    def note(plugin: Any) -> Any:
        found.append(str(getattr(plugin, "device", "auto")))
        return plugin

    replace_plugins(retriever, note)
    return [device for device in found if device != "auto"]


def differing(timed: Run, untimed: Run, k: int, rounding: float = _ROUNDING) -> int:
    """Return how many lists of *timed* differ from the first *k* documents of those of *untimed*.

    Every query of *timed* is one of *untimed*, whose lists may be longer. Both have the same table of documents. Queries that
    are encoded one by one may get scores that differ in the last digits from those of a batch. So documents may change places
    if their scores differ by less than *rounding* times the list's largest score. Nothing else may differ.
    """
    rows = {query: row for row, query in enumerate(untimed.query_ids)}
    return sum(
        not _agree(_list(timed, row), _list(untimed, rows[query]), k, rounding) for row, query in enumerate(timed.query_ids)
    )


def _list(run: Run, row: int) -> dict[int, float]:
    """Return the scores of the documents in a list, by position in the corpus, best first."""
    entries = slice(int(run.offsets[row]), int(run.offsets[row + 1]))
    return dict(zip(run.docs[entries].tolist(), run.scores[entries].tolist(), strict=True))


def _agree(timed: dict[int, float], untimed: dict[int, float], k: int, share: float) -> bool:
    """Whether the list *timed* begins like the list *untimed*; both are as `_list` returns them."""
    count = len(timed)
    if not min(k, len(untimed)) <= count <= len(untimed):
        return False
    first = dict(islice(untimed.items(), count))
    if list(timed) == list(first):
        return True
    # The order differs: each document must have its score except for rounding, and a document that is in only one of the lists
    # must score like the last one.
    rounding, last = share * max(map(abs, untimed.values())), [*first.values()][-1]
    pairs = [(score, untimed.get(document, last)) for document, score in timed.items()]
    pairs += [(score, last) for document, score in first.items() if document not in timed]
    return all(abs(one - other) <= rounding for one, other in pairs)


@cache
def _import_memory(modules: frozenset[str]) -> dict[str, int]:
    """Return the memory of a process that has imported *modules*; a set because their order differs between processes."""
    with TemporaryDirectory() as folder:
        protocol.run_task(protocol.Baseline(modules=sorted(modules), out=folder), 1)
        return msgspec.json.decode((Path(folder) / protocol.FACTS_FILE).read_bytes(), type=dict[str, int])


def _disk(index: Path) -> dict[str, int]:
    """Return the bytes of each file of an index; if the index has several folders, file names begin with theirs."""
    parts = sorted(own_folders(index))
    bytes_by_file: dict[str, int] = {}
    for part in parts:
        name = f"{part.name.rpartition('-')[0]}/" if len(parts) > 1 else ""
        bytes_by_file |= {name + file: size for file, size in sizes(part, ENGINE_DIR).items()}
    return bytes_by_file
