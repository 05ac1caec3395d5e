"""The timed loops. Nothing but the calls stands between two readings of the clock."""

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexbench.timing.protocol import LEAST_PASSES, MOST_PASSES, MOST_WARM_UP, SEED, STAGES, STEADY
from lexbench.timing.statistics import Durations
from lexbench.types import Hits

Encode = Callable[[Any], Any]
Search = Callable[[Any, int], Hits]


@dataclass(frozen=True)
class Work:
    """What is timed: *search* of what *encode* makes of each of *inputs*, for *k* documents."""

    encode: Encode
    search: Search
    inputs: Sequence[Any]
    k: int


@dataclass(frozen=True)
class Pass:
    """One pass over all inputs."""

    durations: Durations  # (stages, inputs) nanoseconds, in the order of the inputs
    hits: list[Hits]  # likewise, until somebody has looked at them
    cpu: int  # nanoseconds of processor that all threads of this process took
    wall: int

    @property
    def median(self) -> float:
        """The median of the inputs' end-to-end durations."""
        return float(np.median(self.durations[-1]))


def run_pass(work: Work, order: NDArray[np.int64]) -> Pass:
    """Time every input once, in *order*; a stage is what passes between two readings of one clock."""
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
    """Return the order of pass *number*: another for each, the same whenever it is asked for."""
    return np.random.default_rng([SEED, number]).permutation(inputs)


def warm_up(work: Work, on_pass: Callable[[Pass], None]) -> list[Pass]:
    """Pass over all inputs until two passes in a row have about the same median, or there have been five.

    *on_pass* hears of each pass; only it has the hits.
    """
    passes: list[Pass] = []
    while len(passes) < MOST_WARM_UP:
        passes.append(_without_hits(run_pass(work, order_of(len(passes), len(work.inputs))), on_pass))
        if len(passes) > 1 and abs(passes[-1].median / passes[-2].median - 1) < STEADY:
            break
    return passes


def _without_hits(timed: Pass, on_pass: Callable[[Pass], None]) -> Pass:
    """Return a pass that *on_pass* has heard of, without its hits."""
    on_pass(timed)
    timed.hits.clear()
    return timed


def timed_passes(work: Work, first: int, on_pass: Callable[[Pass], None], seconds: float) -> list[Pass]:
    """Return five passes, or more up to so many *seconds*; *first* is the number of the first one's order.

    *on_pass* hears of each pass; only it has the hits. Garbage collection is off, and what is there already is left out of it.
    """
    passes: list[Pass] = []
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        wall = 0
        while len(passes) < LEAST_PASSES or (len(passes) < MOST_PASSES and wall < seconds * 1e9):
            order = order_of(first + len(passes), len(work.inputs))
            passes.append(_without_hits(run_pass(work, order), on_pass))
            wall += passes[-1].wall
    finally:
        gc.enable()
        gc.unfreeze()
    return passes


def serve(work: Work, load: float, seconds: float) -> Durations:
    """Return durations (stages, arrivals) of queries that arrive at *load* a second for so many *seconds*, in nanoseconds.

    They come at random (a Poisson process, the same for all systems) and wait their turn; the end-to-end duration is from the
    arrival, waiting included, as a user has it. Where a system cannot keep up it grows with every query.
    """
    generator = np.random.default_rng(SEED)
    arrivals = np.cumsum(generator.exponential(1e9 / load, max(1, round(load * seconds)))).astype(np.int64)
    numbers = generator.integers(0, len(work.inputs), len(arrivals)).tolist()
    encode, search, inputs, k, clock = work.encode, work.search, work.inputs, work.k, time.perf_counter_ns
    times: list[Any] = [None] * len(arrivals)
    start = clock()
    for place, (number, offset) in enumerate(zip(numbers, arrivals.tolist(), strict=True)):
        arrival = start + offset
        while (begin := clock()) < arrival:
            pass
        encoded = encode(inputs[number])
        between = clock()
        search(encoded, k)
        times[place] = (arrival, begin, between, clock())
    came, begins, betweens, ends = np.array(times, np.int64).T
    return np.stack([betweens - begins, ends - betweens, ends - came])


def null(work: Work, answers: Sequence[Hits]) -> Work:
    """Return the same loop over *answers* that are there already: what it takes is the harness's own."""
    by_number = dict(zip(range(len(answers)), answers, strict=True))
    return Work(lambda number: number, lambda number, k: by_number[number], range(len(answers)), work.k)  # noqa: ARG005
