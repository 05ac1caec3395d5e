"""Timing one system on one dataset: each scenario in fresh processes, every duration in the store.

The timed passes must return what the untimed run did: a system cannot be fast in one and good in the other.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench.errors import CannotStart, LexbenchError
from lexbench.executors import written
from lexbench.plugins import EncodesVectors, RanksCandidates, ReadsRuns
from lexbench.results import Timing
from lexbench.runner.stages import DatasetRunner, own_positions
from lexbench.runner.stored_run import read_run
from lexbench.runner.systems import System, leaves
from lexbench.runner.timer import TimedRun
from lexbench.storage import atomic, environment
from lexbench.storage.index_files import ENGINE_DIR
from lexbench.storage.manifest import key_of, sizes
from lexbench.storage.store import Recipe, Store
from lexbench.timing import calibration
from lexbench.timing.child import chosen_weights
from lexbench.timing.fingerprint import fingerprint, performance, siblings
from lexbench.timing.fork_server import ForkServer
from lexbench.timing.protocol import (
    FACTS_FILE,
    SINGLE,
    Baseline,
    Facts,
    Scenario,
    Settings,
    Task,
    last_core,
    run_task,
    sample,
    scenarios,
)
from lexbench.timing.stored_timings import CONDITIONS_FILE, Conditions, read_hits, read_timing
from lexbench.trec.runs import Run, without_self_matches
from lexbench.types import Query

STAGE = "timings"
_PROTOCOL = 4  # goes up when what is measured, or stored of it, changes
_ROUNDING = 1e-3  # of a list's largest score


@dataclass
class Timer:
    """Times systems as its *settings* say: the `lexbench.runner.timer.Timer` of a run."""

    settings: Settings
    _server: ForkServer | None = field(default=None, init=False)  # of the round that is under way, or of the first one

    def check(self, system: System) -> None:
        """Raise CannotStart where a process of its own could not open *system*, or it has no search."""
        if isinstance(system.retriever, ReadsRuns):
            raise CannotStart(f"{system.label} is a finished run, so there is no search to time")
        if system.text is None:
            raise CannotStart(
                f"{system.label} is an object of this process, and it takes a fresh one to time it: name it in the notation of "
                "parts, as 'bm25(k1=0.9)', if need be as a plug-in"
            )

    @property
    def rounds(self) -> int:
        """How many processes a system is timed in."""
        return self.settings.processes

    def prepare(self, systems: Sequence[System]) -> None:
        """Begin to import what timing *systems* takes, beside other work."""
        if self._server is None:
            self._server = ForkServer()
            self._server.prepare(environment.packages_of([system.retriever for system in systems]))

    @contextmanager
    def round(self) -> Iterator[None]:
        """Let the processes of one query in flight that are measured in this block be forked from one that has its imports."""
        self._server = self._server or ForkServer()
        with closing(self._server):
            yield
        self._server = None

    def measure(self, timed: TimedRun, runner: DatasetRunner, number: int) -> None:
        """Time process *number*, from 0, of each scenario that has so many, unless this machine has before.

        The system must have passed `check`. LexbenchError where the process that measures it fails.
        """
        for settings, scenario in self._wanted():
            if number < _processes(settings, scenario):
                recipe = _recipe(timed, runner, settings, scenario, number)
                if settings.again and (before := runner.store.finished(STAGE, recipe)):
                    shutil.rmtree(before)
                label = f"{runner.dataset.contract.id} {timed.named.label} {scenario.name}"
                runner.store.produce(STAGE, label, recipe, partial(_measure, timed, runner, settings, scenario, self._server))

    def timings(self, timed: TimedRun, runner: DatasetRunner) -> list[Timing]:
        """Return the timing of each scenario that `measure` has measured, of all its processes."""
        return [
            read_timing(
                [
                    _found(runner.store, _recipe(timed, runner, settings, scenario, number))
                    for number in range(_processes(settings, scenario))
                ]
            )
            for settings, scenario in self._wanted()
        ]

    def _wanted(self) -> Iterator[tuple[Settings, Scenario]]:
        """Yield each scenario, with settings that have one k."""
        asked = self.settings.k if isinstance(self.settings.k, tuple) else (self.settings.k,)
        for k in asked:
            settings = msgspec.structs.replace(self.settings, k=k)
            yield from ((settings, scenario) for scenario in scenarios(settings))


def _processes(settings: Settings, scenario: Scenario) -> int:
    return settings.processes if scenario.name == SINGLE else 1


def _found(store: Store, recipe: Recipe) -> Path:
    if folder := store.finished(STAGE, recipe):
        return folder
    raise LexbenchError("a timing is gone that was measured a moment ago: give the same command again")


def _depth(timed: TimedRun, runner: DatasetRunner, settings: Settings) -> int:
    """Return how many documents are asked for."""
    drop = runner.dataset.contract.protocol.self_match == "drop"
    return int(settings.k) if isinstance(settings.k, int) else timed.depth + drop


def _recipe(timed: TimedRun, runner: DatasetRunner, settings: Settings, scenario: Scenario, number: int) -> Recipe:
    """Return what one process's durations are of."""
    on = {"on": text} if (text := _on(timed, runner)) else {}
    return on | {
        "protocol": _PROTOCOL,
        "run": key_of(timed.run),
        "scenario": scenario.name,
        "k": _depth(timed, runner, settings),
        "queries": len(sample(runner.dataset.queries, settings.queries)),
        "seconds": settings.seconds,
        "processes": _processes(settings, scenario),
        "process": number,
        "fingerprint": fingerprint(),
        "lexbench": environment.versions().get("lexbench"),
    }


def _on(timed: TimedRun, runner: DatasetRunner) -> str:
    """Return the executor whose workers search the system, as `--on` has it; "" where this machine's one process does."""
    retriever = timed.system.retriever
    return written(runner.executor) if runner.executor and runner.with_workers(retriever) is not retriever else ""


def _measure(
    timed: TimedRun, runner: DatasetRunner, settings: Settings, scenario: Scenario, server: ForkServer | None, draft: Path
) -> None:
    """Write the durations of one process, forked from *server* if it can be, and the conditions, into *draft*."""
    drop = runner.dataset.contract.protocol.self_match == "drop"
    queries, k = sample(runner.dataset.queries, settings.queries), _depth(timed, runner, settings)
    core = last_core() if scenario.single else None
    task = Task(
        system=str(timed.named.text),
        weights=chosen_weights(timed.named.retriever, timed.system.retriever),
        index=str(timed.index),
        queries=[(query.query_id, query.text) for query in queries],
        own=own_positions(runner.corpus, queries).tolist() if drop else [],
        k=k,
        threads=scenario.threads,
        single=scenario.single,
        seconds=settings.seconds / _processes(settings, scenario),
        load=scenario.load,
        core=core,
        on=_on(timed, runner),
        out=str(draft),
    )
    on_pass = partial(runner.progress.advance, len(queries))
    runner.progress.start(f"{timed.named.label} on {runner.dataset.contract.id}", scenario.name, None, "queries")
    packages = environment.packages_of(timed.system.retriever)
    one_thread = scenario.threads == 1 and not task.on  # the libraries of more, and pipes to workers, outlive no fork
    if not (server and one_thread and server.run(task, on_pass, packages)):
        run_task(task, scenario.threads, on_pass)
    runner.progress.end()
    conditions = Conditions(
        scenario=scenario.name,
        threads=scenario.threads,
        k=k,
        exact=all(not isinstance(leaf, EncodesVectors) or leaf.engine.exact for leaf in leaves(timed.system.retriever)),
        candidates=timed.system.retriever.candidates if isinstance(timed.system.retriever, RanksCandidates) else 0,
        queries=len(queries),
        differing=_differing(draft, timed, queries, runner, k),
        baseline=_baseline(draft),
        disk=_disk(timed.parts),
        fingerprint=fingerprint(),
        machine=_machine(core),
        calibration=calibration.calibrate(server),
        taken=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    atomic.write_bytes(draft / CONDITIONS_FILE, msgspec.json.encode(conditions))


def _differing(draft: Path, timed: TimedRun, queries: Sequence[Query], runner: DatasetRunner, k: int) -> int:
    """Return how many queries got other documents than in the untimed run."""
    drop = runner.dataset.contract.protocol.self_match == "drop"
    run = Run.from_hits([query.query_id for query in queries], read_hits(draft), runner.corpus.doc_ids)
    compared = without_self_matches(run, timed.depth).run if drop else run
    return differing(compared, read_run(timed.run).run, k - drop)


def differing(timed: Run, untimed: Run, k: int) -> int:
    """Return how many lists of *timed* do not begin like those of *untimed*, for at least *k* documents where it has them.

    Every query of *timed* is one of *untimed*, whose lists may be longer. Both have the same table of documents. Queries that
    are encoded one by one may get scores that differ in the last digits from those of a batch, so documents may change places
    where their scores are equal but for that. Nothing else may differ.
    """
    rows = {query: row for row, query in enumerate(untimed.query_ids)}
    return sum(not _agree(*_list(timed, row), *_list(untimed, rows[query]), k) for row, query in enumerate(timed.query_ids))


def _list(run: Run, row: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    entries = slice(int(run.offsets[row]), int(run.offsets[row + 1]))
    return run.docs[entries], run.scores[entries]


def _agree(
    docs: NDArray[np.int32], scores: NDArray[np.float32], known: NDArray[np.int32], true: NDArray[np.float32], k: int
) -> bool:
    """Whether the list *docs* with *scores* begins like the list *known* with the scores *true*."""
    if len(docs) > len(known) or len(docs) < min(k, len(known)):
        return False
    if np.array_equal(docs, known[: len(docs)]):
        return True
    rounding = _ROUNDING * float(np.abs(true).max())
    last = true[len(docs) - 1]
    order = np.argsort(known)
    ranks = order[np.minimum(np.searchsorted(known, docs, sorter=order), len(known) - 1)]
    is_known = known[ranks] == docs
    close = np.abs(scores - np.where(is_known, true[ranks], last)) <= rounding  # who is new must be as good as the last
    gone = ~np.isin(known[: len(docs)], docs)
    return bool(close.all() and (np.abs(true[: len(docs)][gone] - last) <= rounding).all())


def _baseline(draft: Path) -> dict[str, int]:
    """Return the memory of a process that has imported what the measuring one has, and opened nothing."""
    facts = msgspec.json.decode((draft / FACTS_FILE).read_bytes(), type=Facts)
    return facts.imports or _imported(frozenset(facts.modules)) if "pss_file" in facts.memory else {}


@cache
def _imported(modules: frozenset[str]) -> dict[str, int]:
    """Return the memory of a process that has imported *modules*; their order differs from process to process."""
    with TemporaryDirectory() as folder:
        run_task(Baseline(modules=sorted(modules), out=folder), 1)
        return msgspec.json.decode((Path(folder) / FACTS_FILE).read_bytes(), type=dict[str, int])


def _disk(parts: Sequence[Path]) -> dict[str, int]:
    """Return the bytes of each file of an index; where it is of several folders, below their names."""
    bytes_by_file: dict[str, int] = {}
    for part in parts:
        name = f"{part.name.rpartition('-')[0]}/" if len(parts) > 1 else ""
        bytes_by_file |= {name + file: size for file, size in sizes(part, ENGINE_DIR).items()}
    return bytes_by_file


def _machine(core: int | None) -> dict[str, Any]:
    """Return the facts of this machine, and the core that was pinned to."""
    pinned = {} if core is None else {"core": core, "siblings": siblings(core)}
    return performance() | pinned
