"""Time paired tests and intervals over as many queries as MS MARCO dev/small has, next to scipy's.

    python benchmarks/significance.py [--queries 6980] [--repeats 3] [--json FILE]

Differences are like those of two good systems: most queries are equal. scipy is called in its fastest way: vectorised, in
batches of 250 resamples. Both results are printed with the times. Set OMP_NUM_THREADS=1 for one thread; scipy uses one.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from lexbench.analysis.significance import bootstrap, randomisation
from lexbench.analysis.significance.resolution import ranking

BATCH = 250


def timed(work: Callable[[], Any], repeats: int) -> tuple[list[float], list[float], Any]:
    """Return the wall and processor seconds of each repeat, and the last result."""
    wall, cpu, value = [], [], None
    for _ in range(repeats):
        began, busy = time.perf_counter(), time.process_time()
        value = work()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - busy)
    return wall, cpu, value


def main() -> None:
    """Print one line per measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=6980)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write all measurements to this file")
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    differences = np.where(rng.random(given.queries) < 0.4, rng.normal(0.006, 0.3, given.queries), 0.0)
    systems = np.array([np.clip(rng.normal(0.4 + at / 500, 0.3, 300), 0, 1) for at in range(50)])
    theirs: dict[str, Any] = {"n_resamples": randomisation.RESAMPLES, "rng": 1, "batch": BATCH, "vectorized": True}
    jobs: dict[str, Callable[[], Any]] = {
        "p, lexbench": lambda: bootstrap.p_value(differences),
        "p by randomisation, lexbench": lambda: randomisation.p_value(differences),
        "p by randomisation, scipy": lambda: (
            stats.permutation_test((differences,), np.mean, permutation_type="samples", **theirs).pvalue
        ),
        "interval, lexbench": lambda: bootstrap.interval(differences),
        "interval, scipy": lambda: tuple(
            map(float, stats.bootstrap((differences,), np.mean, method="percentile", **theirs).confidence_interval)
        ),
        "ranks of 50 systems x 300 queries": lambda: str(ranking([systems]).ranks[-1]),
    }
    measured = {}
    for name, work in jobs.items():
        wall, cpu, value = timed(work, given.repeats)
        measured[name] = {"seconds": wall, "cpu_seconds": cpu, "value": value}
        print(f"{name:40} {np.median(wall):8.3f} s wall, {np.median(cpu):7.3f} s processor   {value}", flush=True)
    if given.json:
        given.json.write_text(json.dumps({"queries": given.queries, "measured": measured}, indent=1, default=float) + "\n")


if __name__ == "__main__":
    main()
