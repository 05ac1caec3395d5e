"""The work of a measuring process: open one system, warm it up, run the timed passes, and write durations and conditions.

The system is made again from its expression, with the weights that the run chose and the scenario's number of threads.
"""

import gc
import hashlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench import compiling, devices
from lexbench.artifacts.corpora import StoredTexts
from lexbench.artifacts.searches import Search
from lexbench.artifacts.turns import on_workers
from lexbench.errors import LexbenchError
from lexbench.executors import executor
from lexbench.plugins import CHOSEN_WEIGHTS
from lexbench.registry import has_threads, replace_plugins
from lexbench.results import LEAST_PASSES, MOST_PASSES, MOST_WARM_UP, STAGES
from lexbench.runner import systems
from lexbench.storage import atomic
from lexbench.storage.array_files import array_bytes
from lexbench.storage.drafting import joined
from lexbench.storage.node import Place, open_at
from lexbench.timing import machine, protocol
from lexbench.timing.other_queries import OtherQueries
from lexbench.timing.stored_timings import Durations
from lexbench.types import Hits, Query

# ---- the task --------------------------------------------------------------------------------------------------------------


def measure_here(task: protocol.TimingTask, retriever: Any, report_pass: Callable[[], None]) -> None:
    """Do *task* for a *retriever* that only this process has; then restore the threads and cores of this process."""
    torch, cores = sys.modules.get("torch"), None if task.core is None else os.sched_getaffinity(0)
    threads = torch.get_num_threads() if torch else 0
    limits: Any = import_module("threadpoolctl").threadpool_limits if find_spec("threadpoolctl") else nullcontext
    try:
        with limits(task.threads):  # of BLAS and OpenMP; without the package, too many threads are flagged
            measure(task, report_pass, retriever)
    finally:
        if cores is not None:
            os.sched_setaffinity(0, cores)
        if torch:
            torch.set_num_threads(threads)


def measure(  # noqa: PLR0915 - one sequence, and what is measured depends on its order
    task: protocol.TimingTask, report_pass: Callable[[], None], own: Any = None
) -> None:
    """Do *task* and write the durations and facts into its folder; *report_pass* is called after each pass.

    *own* is a retriever that only this process has. Memory is measured if the process has nothing but the system.
    """
    # Stay on the one core that the task names, if it names one.
    if task.core is not None:
        os.sched_setaffinity(0, {task.core})
    # Open the index and answer the first query, which may import modules; both are timed apart from the passes.
    seconds, memory = {}, {}
    begin = compiling.clock()
    retriever = replace_plugins(
        own or _retriever(task), lambda one: replace(one, threads=task.threads) if has_threads(one) else one
    )
    searcher = open_at(Search(StoredTexts(), retriever), Place.read(task.place))
    seconds["open"] = compiling.clock() - begin
    queries = task.queries
    others = OtherQueries(queries)
    size = 1 if task.single else min(searcher.queries_at_a_time, len(queries))
    encode, inputs = _inputs(searcher, task, list(enumerate(queries)), size)
    _, mixed = _inputs(searcher, task, others.numbered(shift=1), size)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(task.threads)
    work = TimedCalls(encode, searcher.search, inputs, task.k)
    warming, seconds["first_query" if task.single else "first_block"] = first_answer(work, mixed)
    memory["peak_open"] = machine.peak_memory()

    # Warm up, then run the timed passes between two readings of the machine's counters.
    work = work._replace(encode=_to_the_end(work.encode), search=_to_the_end(work.search))
    digests, answers = set[str](), list[Hits]()

    def keep_hits(timed: Pass) -> None:
        """Keep the hits of the first timed pass, and a digest of those of each pass, to see whether all are equal."""
        digests.add(hashlib.sha256(b"".join(np.ascontiguousarray(block.docs).tobytes() for block in timed.hits)).hexdigest())
        answers.extend([] if answers else timed.hits)
        report_pass()

    # Peaks of memory count from here on: opening has its own.
    machine.reset_peak_memory()
    devices.reset_peak_gpu_memory()
    warm = warm_up(work._replace(inputs=warming), report_pass)
    alone = own is None and not retriever.elsewhere
    memory |= machine.memory() | {"model": machine.model_bytes()} if alone else {}
    before, transferred = machine.read_counters(), searcher.transfer
    passes = timed_passes(work, len(warm), keep_hits, task.seconds)
    after = machine.read_counters()
    # What is known only after the passes: the way to other machines, peaks, and whether answers are remembered.
    if transfer := max(0.0, (searcher.transfer - transferred) / (len(inputs) * len(passes))):
        seconds["transfer"] = transfer
    memory["peak_search"] = machine.peak_memory()
    memory["peak_gpu"] = devices.peak_gpu_memory()
    _, unseen = _inputs(searcher, task, [] if warming is inputs else others.unseen(), 1)
    remembered = seen_again(work._replace(inputs=unseen))

    # The same loop without encoding and searching takes the time of the loop itself: the harness's overhead.
    by_number = dict(enumerate(answers))
    idle_work = TimedCalls(lambda number: number, lambda number, _k: by_number[number], range(len(answers)), work.k)
    idle = [run_pass(idle_work, order_of(number, len(inputs))) for number in range(LEAST_PASSES)]
    cpu_per_wall = sum(item.cpu for item in passes) / sum(item.wall for item in passes)
    noise = list(machine.disturbances(before, after, os.cpu_count() or 1))
    circumstances = dict(_circumstances(retriever, own=own is not None))
    gpus = devices.used_gpu_names()  # a thread that waits for one needs no core meanwhile
    waits = task.on or gpus or "elsewhere" in circumstances
    if task.single and not waits and (crowded := machine.crowded(cpu_per_wall)):
        noise.append(crowded)
    # Write the durations and hits, and then what else was measured.
    arrays = _arrays(passes) | {f"warm_up.{stage}": array for stage, array in _arrays(warm).items()}
    arrays |= {"null": _arrays(idle)["e2e"]} | joined([block._asdict() for block in answers])
    atomic.write_bytes(Path(task.out) / protocol.DURATIONS_FILE, array_bytes(arrays))
    facts = protocol.MeasuredFacts(
        warm_up=len(warm),
        cpu_per_wall=cpu_per_wall,
        seconds=seconds,
        memory={name: count for name, count in memory.items() if count and alone},
        noise=noise,
        workers=f"workers search, on {task.on}; the way there and back takes {1000 * transfer:.2f} ms of a search"
        if task.on
        else "",
        circumstances=circumstances,
        gpus=gpus,
        other_warm_up=warming is not inputs,
        seen_again=remembered,
        same=len(digests) == 1,
        modules=[name for name in sys.modules if not name.startswith(("__", "jnius"))],  # importing jnius starts Java
    )
    atomic.write_bytes(Path(task.out) / protocol.FACTS_FILE, msgspec.json.encode(facts))


def measure_imports(task: protocol.MemoryBaseline) -> None:
    """Import the modules of *task* and write how much memory they take. `_memory` subtracts it from that of a system."""
    with suppress(OSError):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for name in task.modules:
        with suppress(Exception):  # it cannot be imported by itself
            import_module(name)
    atomic.write_bytes(Path(task.out) / protocol.FACTS_FILE, msgspec.json.encode(machine.memory()))


def _retriever(task: protocol.TimingTask) -> Any:
    """Return the retriever of a task, made from its expression."""
    retriever = with_weights(systems.system(task.system).for_dataset(task.dataset).retriever, iter(task.weights))
    workers = executor(task.on) if task.on else None
    return on_workers(retriever, workers, lambda _line: None)


def _circumstances(retriever: Any, *, own: bool) -> Iterator[tuple[str, str]]:
    """Yield flags that follow from the kind of system, each with the reason for it."""
    if own:
        yield "in process", "timed in the process that has the object, not in a fresh one"
    if names := devices.used_gpu_names():
        yield "gpu", f"{', '.join(names)} computed: it is compared only with what the same GPU computed"
    members = list(systems.trained_members(retriever))
    engines = [leaf.engine for leaf in systems.encoded_leaves(retriever)]
    who = {one.elsewhere for one in members} | {"a server" for one in (*members, *engines) if one.remote}
    if named := ", ".join(sorted(who - {""})):
        yield "elsewhere", f"{named} answers: the round trip is included, and its processor time is not in CPU/wall"
    if any(getattr(one, "looks_up", False) for one in members):
        yield "no encoding", "its queries are not encoded: their vectors are looked up in a file"


def _to_the_end(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return *call*, or where GPUs have worked: a function that calls it and then waits until they have finished."""
    if not devices.used_gpus():
        return call

    def finished(*arguments: Any) -> Any:
        result = call(*arguments)
        devices.wait_for_gpus()
        return result

    return finished


def chosen_weights(named: Any, resolved: Any) -> list[list[float]]:
    """Return the weights of *resolved* that were to be chosen in the user's retriever *named*, inner fusions first."""
    weights = []
    for member, resolved_member in zip(named.members, resolved.members, strict=True):
        weights += chosen_weights(member, resolved_member)
    if named.weights in CHOSEN_WEIGHTS:
        weights.append(list(resolved.weights))
    return weights


def with_weights(retriever: Any, weights: Iterator[Sequence[float]]) -> Any:
    """Return *retriever* with *weights* where they are to be chosen: the inverse of `chosen_weights`."""
    if not retriever.members:
        return retriever
    changed: Any = replace(retriever, members=tuple(with_weights(member, weights) for member in retriever.members))
    return replace(changed, weights=tuple(next(weights))) if changed.weights in CHOSEN_WEIGHTS else changed


def _inputs(
    searcher: Any, task: protocol.TimingTask, numbered: Sequence[tuple[int, Query]], size: int
) -> tuple[Callable[[Any], Any], list[Any]]:
    """Return the function that encodes queries, and its inputs: blocks of *size* queries.

    *numbered* are the queries, each with the number of the query of *task* whose own document is left out.
    """
    parts = [numbered[start : start + size] for start in range(0, len(numbered), size)]
    blocks = [[query for _, query in part] for part in parts]
    if task.own:
        owns = [np.array([task.own[number] for number, _ in part], np.int32) for part in parts]
        return lambda pair: searcher.without(searcher.encode_queries(pair[0]), pair[1]), list(zip(blocks, owns, strict=True))
    return searcher.encode_queries, blocks


def _arrays(passes: Sequence["Pass"]) -> dict[str, NDArray[Any]]:
    """Return the durations (passes, inputs) by stage."""
    stacked = np.stack([item.durations for item in passes], axis=1)
    return {stage: np.ascontiguousarray(matrix) for stage, matrix in zip(STAGES, stacked, strict=True)}


# ---- the timed loops: between two readings of the clock there is only the call that is timed -------------------------------


class TimedCalls(NamedTuple):
    """The calls to time: *encode* each of *inputs*, then *search* for *k* documents."""

    encode: Callable[[Any], Any]
    search: Callable[[Any, int], Hits]
    inputs: Sequence[Any]
    k: int


class Pass(NamedTuple):
    """One pass over all inputs."""

    durations: Durations  # (stages, inputs) nanoseconds, in the order of the inputs
    hits: list[Hits]  # per input; emptied after the callback of the pass, to save memory
    cpu: int  # nanoseconds of processor time that all threads of this process took
    wall: int

    @property
    def median(self) -> float:
        """The median of the inputs' end-to-end durations."""
        return float(np.median(self.durations[-1]))


def run_pass(work: TimedCalls, order: NDArray[np.int64]) -> Pass:
    """Time every input once, in *order*."""
    encode, search, inputs, k = work.encode, work.search, work.inputs, work.k
    clock = time.perf_counter_ns
    answers: list[Any] = [None] * len(inputs)
    times: list[Any] = [None] * len(inputs)
    numbers = order.tolist()
    cpu, wall = time.process_time_ns(), clock()
    for number in numbers:
        begin = clock()
        encoded = encode(inputs[number])
        between = clock()
        hits = search(encoded, k)
        end = clock()
        times[number] = (begin, between, end)
        answers[number] = hits
    wall, cpu = clock() - wall, time.process_time_ns() - cpu
    begins, betweens, ends = np.array(times, np.int64).reshape(-1, len(STAGES)).T
    return Pass(np.stack([betweens - begins, ends - betweens, ends - begins]), answers, cpu, wall)


def order_of(number: int, inputs: int) -> NDArray[np.int64]:
    """Return the order of pass *number*: different for each pass, the same for every system."""
    return np.random.default_rng([protocol.SEED, number]).permutation(inputs)


def first_answer(work: TimedCalls, others: Sequence[Any]) -> tuple[Sequence[Any], float]:
    """Answer the first query. Returns the inputs of the warm-up: *others*, if the system takes them; and the seconds."""
    for inputs in (others, work.inputs):
        begin = compiling.clock()
        try:
            if inputs:
                work.search(work.encode(inputs[0]), work.k)
                return inputs, compiling.clock() - begin
        except LexbenchError:  # e.g. it reads the vectors of queries from files
            if inputs is work.inputs:
                raise
    raise LexbenchError("there are no queries to time")


def warm_up(work: TimedCalls, report_pass: Callable[[], None]) -> list[Pass]:
    """Pass over all inputs until two passes in a row have about the same median, at most five times."""
    passes: list[Pass] = []
    while len(passes) < MOST_WARM_UP:
        passes.append(run_pass(work, order_of(len(passes), len(work.inputs))))
        passes[-1].hits.clear()
        report_pass()
        if len(passes) > 1 and abs(passes[-1].median / passes[-2].median - 1) < protocol.STEADY:
            break
    return passes


def seen_again(work: TimedCalls) -> float:
    """Return how many times as long queries take that a system has not seen as the second time; 0 if there are none.

    A few queries are asked twice before the next few, so that other processes slow both times down. The median over all
    queries. The first few do not count: queries that come one by one may take other code than blocks.
    """
    ratios = []
    for start in range(0, len(work.inputs), protocol.FEW):
        few = work._replace(inputs=work.inputs[start : start + protocol.FEW])
        first, second = (run_pass(few, np.arange(len(few.inputs))).durations[-1] for _ in range(2))
        ratios += (first / second).tolist()
    return float(np.median(ratios[protocol.FEW :] or ratios)) if ratios else 0.0


def timed_passes(work: TimedCalls, first: int, on_pass: Callable[[Pass], None], seconds: float) -> list[Pass]:
    """Return five passes, or as many as fit into *seconds*; *first* is the number of the first one's order.

    Garbage is collected before, and not meanwhile.
    """
    passes: list[Pass] = []
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        wall = 0
        while len(passes) < LEAST_PASSES or (len(passes) < MOST_PASSES and wall < seconds * 1e9):
            order = order_of(first + len(passes), len(work.inputs))
            passes.append(run_pass(work, order))
            on_pass(passes[-1])  # it may keep the hits
            passes[-1].hits.clear()
            wall += passes[-1].wall
    finally:
        if collecting:
            gc.enable()
    return passes
