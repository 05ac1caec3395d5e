"""The same work on every machine, in one thread: what relates the speeds of two machines. About two seconds."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench.storage import atomic
from lexbench.timing.fork_server import ForkServer
from lexbench.timing.protocol import SEED, Calibrate, last_core, run_task

_REPEATS = 5
_STREAMED = 1 << 24  # float32 numbers: 64 MiB, more than caches hold
_SIDE = 512  # of a matrix
_DOCUMENTS, _POSTINGS = 1 << 20, 1 << 22
_STEPS = 200_000
_FILE = "calibration.json"


_measured: list[dict[str, float]] = []  # in this process, once


def calibrate(server: ForkServer | None = None) -> dict[str, float]:
    """Return speeds of one core of this machine, measured in a process of its own, once in each of ours.

    scan_gb_per_s (adding up an array that no cache holds), copy_gb_per_s (reading and writing it), matmul_gflops,
    scatter_mpostings_per_s (adding impacts to the sums of documents), python_msteps_per_s (the interpreter).
    """
    if not _measured:
        with TemporaryDirectory() as folder:
            task = Calibrate(core=last_core(), out=folder)
            if not (server and server.run(task)):
                run_task(task, 1)
            _measured.append(msgspec.json.decode((Path(folder) / _FILE).read_bytes(), type=dict[str, float]))
    return _measured[0]


def write(core: int | None, out: Path) -> None:
    """Measure in this process, on one core, and write the speeds."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    atomic.write_bytes(out / _FILE, msgspec.json.encode(_speeds()))


def _speeds() -> dict[str, float]:
    from numba import njit  # a quarter of a second to import, for which every run would wait

    scatter = njit(nogil=True, cache=True)(_scatter)
    generator = np.random.default_rng(SEED)
    stream = generator.random(_STREAMED, np.float32)
    copied = np.empty_like(stream)
    matrix = generator.random((_SIDE, _SIDE), np.float32)
    docs = np.sort(generator.integers(0, _DOCUMENTS, (16, _POSTINGS // 16), np.int32), axis=1).ravel()  # as 16 lists
    weights = generator.integers(1, 256, _POSTINGS).astype(np.uint8)
    sums = np.zeros(_DOCUMENTS, np.int32)
    return {
        "scan_gb_per_s": stream.nbytes / _seconds(stream.sum) / 1e9,
        "copy_gb_per_s": 2 * stream.nbytes / _seconds(lambda: np.copyto(copied, stream)) / 1e9,
        "matmul_gflops": 2 * _SIDE**3 / _seconds(lambda: matrix @ matrix) / 1e9,
        "scatter_mpostings_per_s": _POSTINGS / _seconds(lambda: scatter(docs, weights, sums)) / 1e6,
        "python_msteps_per_s": _STEPS / _seconds(_interpreted) / 1e6,
    }


def _scatter(docs: NDArray[np.int32], weights: NDArray[np.uint8], sums: NDArray[np.int32]) -> None:
    """Add *weights* (postings,) to the *sums* of *docs* (postings,), as sparse engines add impacts."""
    for i in range(len(docs)):
        sums[docs[i]] += weights[i]


def _interpreted() -> int:
    total = 0
    for number in range(_STEPS):
        total += number & 7
    return total


def _seconds(work: Callable[[], object]) -> float:
    """Return the median of several times, after one that is not counted: it may compile."""
    work()
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times))
