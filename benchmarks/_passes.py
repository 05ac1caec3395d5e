"""Timing the same work again and again in one process."""

import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEADY, LEAST_WARM_UP, MOST_WARM_UP = 1.05, 5.0, 20.0  # seconds of passes, until two differ by less: Java compiles meanwhile


def seconds(work: Callable[[], Any]) -> float:
    """Return how long *work* takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak_mb() -> float:
    """Return the most memory that this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def warm_up(every: Callable[[], Any], others: Callable[[], Any]) -> int:
    """Repeat the work, and *others* that will be timed, until it has become steady; return how many passes that took."""
    start, passes = time.perf_counter(), [float("inf"), seconds(every)]
    while (spent := time.perf_counter() - start) < LEAST_WARM_UP or max(passes[-2:]) > STEADY * min(passes[-2:]):
        if spent > MOST_WARM_UP:
            break
        others()
        passes.append(seconds(every))
    return len(passes) - 1


def passes_of(
    every: Callable[[], Any], alone: list[Callable[[], Any]], repeats: int
) -> tuple[list[float], NDArray[np.float64], float, float]:
    """Time *repeats* passes over all queries, at once and one by one.

    Return the seconds of each pass at once, those of each query in each pass one by one (repeats, queries), the seconds of
    processor that a pass took by the cheaper way, and how much of a processor there was.
    """
    wall, clock = time.perf_counter(), [time.process_time()]
    batch = []
    for _ in range(repeats):
        batch.append(seconds(every))
        clock.append(time.process_time())
    single = []
    for _ in range(repeats):
        single.append([seconds(work) for work in alone])
        clock.append(time.process_time())
    threads = (clock[-1] - clock[0]) / (time.perf_counter() - wall)
    cpu = np.diff(clock).reshape(2, repeats)
    return batch, np.array(single), float(np.median(cpu, axis=1).min()), threads
