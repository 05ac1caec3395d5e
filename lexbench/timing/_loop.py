"""The timed loops. Nothing but the calls stands between two readings of the clock."""

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexbench.timing.figures import Durations
from lexbench.timing.protocol import ENOUGH, LEAST_PASSES, MOST_PASSES, MOST_WARM_UP, SEED, STAGES, STEADY
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
class Passed:
    """One pass."""

    durations: Durations  # (stages, inputs) nanoseconds, in the order of the inputs
    hits: list[Hits]  # likewise, until somebody has looked at them
    cpu: int  # nanoseconds of processor that all threads of this process took
    wall: int

    @property
    def median(self) -> float:
        """The median of the inputs' end-to-end durations."""
        return float(np.median(self.durations[-1]))


def one_pass(work: Work, order: NDArray[np.int64]) -> Passed:
    """Time every input once, in *order*; a stage is what passes between two readings of one clock."""
    encode, search, inputs, k = work.encode, work.search, work.inputs, work.k
    clock = time.perf_counter_ns
    found: list[Any] = [None] * len(inputs)
    times: list[Any] = [None] * len(inputs)
    places = order.tolist()
    cpu, wall = time.process_time_ns(), clock()
    for place in places:
        begin = clock()
        encoded = encode(inputs[place])
        between = clock()
        hits = search(encoded, k)
        end = clock()
        times[place] = (begin, between, end)
        found[place] = hits
    wall, cpu = clock() - wall, time.process_time_ns() - cpu
    begun, encoded_at, ended = np.array(times, np.int64).reshape(-1, len(STAGES)).T
    return Passed(np.stack([encoded_at - begun, ended - encoded_at, ended - begun]), found, cpu, wall)


def order_of(number: int, inputs: int) -> NDArray[np.int64]:
    """Return the order of pass *number*: another for each, the same whenever it is asked for."""
    return np.random.default_rng([SEED, number]).permutation(inputs)


def warm_up(work: Work, done: Callable[[Passed], None]) -> list[Passed]:
    """Pass over all inputs until two passes in a row have about the same median, or there have been five.

    *done* hears of each pass; only it has the hits.
    """
    passes: list[Passed] = []
    while len(passes) < MOST_WARM_UP:
        passes.append(_told(one_pass(work, order_of(len(passes), len(work.inputs))), done))
        if len(passes) > 1 and abs(passes[-1].median / passes[-2].median - 1) < STEADY:
            break
    return passes


def _told(passed: Passed, done: Callable[[Passed], None]) -> Passed:
    done(passed)
    passed.hits.clear()
    return passed


def timed(work: Work, first: int, done: Callable[[Passed], None]) -> list[Passed]:
    """Return five passes, or more where they are short; *first* is the number of the first one's order.

    *done* hears of each pass; only it has the hits. Garbage collection is off, and what is there already is set apart from it.
    """
    passes: list[Passed] = []
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        while len(passes) < LEAST_PASSES or (len(passes) < MOST_PASSES and sum(one.wall for one in passes) < ENOUGH * 1e9):
            passes.append(_told(one_pass(work, order_of(first + len(passes), len(work.inputs))), done))
    finally:
        gc.enable()
        gc.unfreeze()
    return passes


def null(work: Work, answers: Sequence[Hits]) -> Work:
    """Return the same loop over *answers* that are there already: what it takes is the harness's own."""
    known = dict(zip(range(len(answers)), answers, strict=True))
    return Work(lambda number: number, lambda number, k: known[number], range(len(answers)), work.k)  # noqa: ARG005
