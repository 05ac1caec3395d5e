"""`Timer` times systems on a dataset: each scenario in fresh processes, every duration in the store.

The timed passes must return the documents of the untimed run, so no system can be fast in one and good in the other.
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from itertools import islice, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple

import msgspec

from lexbench.artifacts.graph import Graph
from lexbench.artifacts.searches import Search
from lexbench.artifacts.turns import on_workers
from lexbench.datasets.corpus import StoredCorpus
from lexbench.errors import CannotStart
from lexbench.executors import written
from lexbench.plugins import Executor, has
from lexbench.registry import replace_plugins
from lexbench.results import SINGLE, Timing
from lexbench.runner.jobs import Outcome, failure
from lexbench.runner.plan import Job
from lexbench.runner.search import SystemRun, own_positions
from lexbench.runner.systems import System, encoded_leaves
from lexbench.storage import atomic, environment
from lexbench.storage.artifact_folder import ENGINE_DIR, KeyFacts
from lexbench.storage.code import CODE, source_digest
from lexbench.storage.drafting import Draft
from lexbench.storage.environment import cores
from lexbench.storage.node import Node, Parts, Stored
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

    settings: protocol.TimingSettings

    def check(self, system: System) -> None:
        """Raise CannotStart if *system* has no search to time, or gets the whole corpus with each query."""
        if not has(system.retriever, "open"):
            raise CannotStart(f"{system.name} is a finished run, so there is no search to time")
        if getattr(system.retriever, "takes_corpus", False):
            raise CannotStart(
                f"{system.name} gets the corpus with every query, so its time is not that of a search: leave out time"
            )

    def __call__(self, outcomes: Sequence[Outcome], graph: Graph) -> Iterator[Outcome]:
        """Time the systems of *outcomes*, which are of one dataset, and yield each outcome with its timings.

        Each round has one process per system, every second round in the opposite order. If something slows the machine down
        for a while, it slows all systems down, and the range over a system's processes shows it. An outcome whose timing fails
        keeps its scores.
        """
        failed: dict[int, str] = {}
        timings: dict[int, list[Timing]] = {}
        measurements: dict[int, list[list[TimedRun]]] = {}  # of each outcome, by k and scenario, the processes

        @contextmanager
        def errors_kept(number: int) -> Iterator[None]:
            try:
                yield
            except Exception as error:  # noqa: BLE001 - see jobs.failure
                failed[number] = str(failure(error, outcomes[number].job, graph.store).error)

        for number, outcome in enumerate(outcomes):
            with errors_kept(number):
                self.check(outcome.job.system)
                measurements[number] = list(self._measurements(outcome, graph))
        for turn in range(self.settings.processes):
            for number in sorted(range(len(outcomes)), reverse=turn % 2 == 1):
                with errors_kept(number):
                    for processes in measurements[number] if number not in failed else ():
                        for process in processes[turn : turn + 1]:
                            (graph.make_anew if self.settings.again else graph.stored)(process)
        for number, outcome in enumerate(outcomes):
            with errors_kept(number):
                if number not in failed:
                    folders = ([graph.stored(process).folder for process in every] for every in measurements[number])
                    timings[number] = list(map(read_timing, folders))
            result = outcome.result and msgspec.structs.replace(outcome.result, timings=timings.get(number, []))
            yield replace(outcome, result=result, untimed=failed.get(number))

    def _measurements(self, outcome: Outcome, graph: Graph) -> "Iterator[list[TimedRun]]":
        """Yield the processes for each k and each scenario."""
        assert outcome.run is not None  # `check` has refused systems without a search
        run, depths = outcome.run, self.settings.k if isinstance(self.settings.k, tuple) else (self.settings.k,)
        deepest = run.depth + run.data.drops_self_matches  # with self-matches, one document more is asked for
        for k, (scenario, threads) in product(depths, protocol.scenarios(self.settings).items()):
            single = scenario == SINGLE and outcome.job.system.expression is not None
            count = self.settings.processes if single else 1
            asked = _Asked(
                outcome.job, run, self.settings, scenario, threads, deepest if k is None else k, count, graph.executor
            )
            yield [TimedRun(asked, number) for number in range(count)]


class _Asked(NamedTuple):
    """What is measured: one scenario of one system, for one number of documents per query."""

    job: Job
    run: SystemRun  # untimed, of the system with its weights chosen
    settings: protocol.TimingSettings
    scenario: str
    threads: int
    k: int
    processes: int
    executor: Executor | None

    @property
    def here(self) -> bool:
        """Whether only this process has the system: it is an object."""
        return self.job.system.expression is None

    @property
    def queries(self) -> list[Query]:
        """The queries to time."""
        return protocol.sample(self.run.data.dataset.queries, self.settings.queries)


@dataclass(frozen=True)
class TimedRun(Node[None]):
    """The durations of one process: of the first that measures this scenario, or of a later one."""

    asked: _Asked
    number: int
    kind: ClassVar[str] = STAGE

    def label(self) -> str:
        """Return the dataset, the system and the scenario."""
        asked = self.asked
        return f"{asked.run.data.dataset.contract.id} {asked.job.system.name} {asked.scenario}"

    def parts(self) -> Mapping[str, Node[Any]]:
        """Return the untimed run, the corpus, and what is searched."""
        run = self.asked.run
        return {"run": run, "corpus": run.data.corpus, "system": Search(run.data.corpus, run.system.retriever)}

    def facts(self) -> KeyFacts:
        """Return everything else that a duration depends on: also code and versions that change no answer."""
        asked, retriever = self.asked, self.asked.run.system.retriever
        modules = {base.__module__ or "" for plugin in _plugins(retriever) for base in type(plugin).__mro__}
        where: dict[str, Any] = ({"on": self._on} if self._on else {}) | ({"here": True} if asked.here else {})
        if stated := devices_of(retriever):  # they change no answer, so the run's key has none of them
            where["devices"] = stated
        return where | {
            "protocol": protocol.VERSION,
            "scenario": asked.scenario,
            "k": asked.k,
            "queries": len(asked.queries),
            "seconds": asked.settings.seconds,
            "processes": asked.processes,
            "process": self.number,
            "fingerprint": fingerprint(),
            "versions": environment.versions(environment.packages_of(retriever)),
            CODE: source_digest(["lexbench.timing.measuring", *(one for one in modules if one.startswith("lexbench."))]),
        }

    @property
    def _on(self) -> str:
        """The `--on` text of the executor whose workers search, or "" if the measuring process searches."""
        retriever, workers = self.asked.run.system.retriever, self.asked.executor
        searched_there = on_workers(retriever, workers, lambda _line: None) is not retriever
        return written(workers) if workers and searched_there else ""

    def make(self, draft: Draft, parts: Parts) -> None:
        """Measure in a fresh process (an object: in this one), and write the durations and conditions."""
        asked, run, folder, corpus = self.asked, self.asked.run, draft.folder, parts["corpus"]
        named, retriever, queries, data = asked.job.system, run.system.retriever, asked.queries, run.data
        # The last core, because the operating system works mostly on the first. Not every operating system can pin processes.
        single = asked.scenario == SINGLE
        core = cores()[-1] if single and hasattr(os, "sched_setaffinity") else None
        task = protocol.TimingTask(
            system=named.expression or "",
            weights=chosen_weights(named.retriever, retriever),
            place=parts.place("system").written(),
            dataset=asked.job.contract.id,
            queries=list(queries),
            own=own_positions(corpus, queries).tolist() if data.drops_self_matches else [],
            k=asked.k,
            threads=asked.threads,
            single=single,
            seconds=asked.settings.seconds / asked.processes,
            core=core,
            on=self._on,
            out=str(folder),
        )
        draft.progress.start(asked.job.name, asked.scenario, None, "queries")
        advance = partial(draft.progress.advance, len(queries))
        if asked.here:
            measure_here(task, retriever, advance)
        else:
            protocol.run_task(task, asked.threads, advance)
        draft.progress.end()
        pinned = {} if core is None else {"core": core, "siblings": siblings(core)}
        facts = msgspec.json.decode((folder / protocol.FACTS_FILE).read_bytes(), type=protocol.MeasuredFacts)
        known = {
            "scenario": asked.scenario,
            "threads": asked.threads,
            "k": asked.k,
            "asked_seconds": asked.settings.seconds,
            "exact": all(leaf.engine.exact for leaf in encoded_leaves(retriever)),
            "candidates": retriever.candidates,
            "queries": len(queries),
            "disk": _disk(parts.place("system").artifacts().values()),
            "fingerprint": fingerprint(facts.gpus),
            "machine": performance() | pinned | ({"computed_on": facts.gpus} if facts.gpus else {}),
            "taken": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        baseline = _import_memory(frozenset(facts.modules)) if "pss_file" in facts.memory else {}
        conditions = Conditions(known=known, differing=self._differing(folder, corpus, parts["run"].run), baseline=baseline)
        atomic.write_bytes(folder / CONDITIONS_FILE, msgspec.json.encode(conditions))

    def _differing(self, folder: Path, corpus: StoredCorpus, untimed: Run) -> int:
        """Return the number of queries that got other documents than in the untimed run."""
        asked, drop = self.asked, self.asked.run.data.drops_self_matches
        run = Run.from_hits([query.query_id for query in asked.queries], read_hits(folder), corpus.doc_ids)
        compared = without_self_matches(run, asked.run.depth).run if drop else run
        dtypes = {getattr(leaf.encoder, "dtype", "") for leaf in encoded_leaves(asked.run.system.retriever)}
        rounding = _HALF_ROUNDING if dtypes & {"bfloat16", "float16"} else _ROUNDING
        return differing(compared, untimed, asked.k - drop, rounding)


def devices_of(retriever: Any) -> list[str]:
    """Return the settings `device` of *retriever* and the plug-ins in it that are not "auto"."""
    devices = (str(getattr(plugin, "device", "auto")) for plugin in _plugins(retriever))
    return [device for device in devices if device != "auto"]


def _plugins(retriever: Any) -> list[Any]:
    """Return *retriever* and the plug-ins in it."""
    found: list[Any] = []

    def note(plugin: Any) -> Any:
        found.append(plugin)
        return plugin

    replace_plugins(retriever, note)
    return found


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
        protocol.run_task(protocol.MemoryBaseline(modules=sorted(modules), out=folder), 1)
        return msgspec.json.decode((Path(folder) / protocol.FACTS_FILE).read_bytes(), type=dict[str, int])


def _disk(read: Collection[Stored]) -> dict[str, int]:
    """Return the bytes of each file that is searched; if several artifacts are, file names begin with theirs."""
    bytes_by_file: dict[str, int] = {}
    for one in sorted(read, key=lambda one: one.folder):
        name = f"{one.folder.name.rpartition('-')[0]}/" if len(read) > 1 else ""
        bytes_by_file |= {name + file: size for file, size in one.sizes(ENGINE_DIR).items()}
    return bytes_by_file
