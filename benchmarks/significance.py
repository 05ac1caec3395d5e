"""Time paired tests and intervals over as many queries as MS MARCO dev/small has, next to scipy's; or simulate how they err.

    python benchmarks/significance.py [--queries 6980] [--repeats 3] [--json FILE]
    python benchmarks/significance.py --simulate 2000 [--json FILE]

Differences are like those of two good systems: most queries are equal. scipy is called in its fastest way: vectorised, in
batches of 250 resamples. Both results are printed with the times. Set OMP_NUM_THREADS=1 for one thread; scipy uses one.

The simulation draws samples of differences whose true mean is 0, or for the power another one, and counts how often each method
says at .05 that it is not 0. For an interval, that is how often it does not cover the true mean.
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
from lexbench.analysis.significance.noninferiority import lower_bound

BATCH = 250
SIZES = (10, 30, 50, 115, 300)  # queries
DRAWN = 1_000  # resamples in the simulation
BETS = 500  # samples for the betting test, which takes longest


def rare(share: float, win: float) -> Callable[[np.random.Generator, tuple[int, int]], Any]:
    """Return a source of differences: *win* in a *share* of the queries, and a small loss in all others; the mean is 0."""
    return lambda rng, shape: np.where(rng.random(shape) < share, win, -win * share / (1 - share))


SPARSE = 0.3 * np.sqrt(0.4)  # its standard deviation
SOURCES: dict[str, Callable[[np.random.Generator, tuple[int, int]], Any]] = {
    "normal": lambda rng, shape: rng.normal(0, 0.2, shape),
    "symmetric, 60 % equal": lambda rng, shape: np.where(rng.random(shape) < 0.4, rng.normal(0, 0.3, shape), 0.0),
    "exponential": lambda rng, shape: 0.1 * (rng.exponential(1, shape) - 1),
    "pruned: 30 % equal, 60 % -.02, 10 % +.12": lambda rng, shape: rng.choice([0, -0.02, 0.12], p=[0.3, 0.6, 0.1], size=shape),
    "wins of .5 in 10 %": rare(0.1, 0.5),
    "wins of .5 in 5 %": rare(0.05, 0.5),
    "wins of .5 in 2 %": rare(0.02, 0.5),
    "power: normal": lambda rng, shape: rng.normal(0.2 * 2.8 / np.sqrt(shape[1]), 0.2, shape),
    "power: symmetric, 60 % equal": lambda rng, shape: (
        np.where(rng.random(shape) < 0.4, rng.normal(0, 0.3, shape), 0.0) + SPARSE * 2.8 / np.sqrt(shape[1])
    ),
}


def rejections(samples: Any, rng: np.random.Generator) -> dict[str, float]:
    """Return by method how often it rejects a mean of 0 of *samples* (samples, queries) at .05."""
    queries = samples.shape[1]
    mean, deviation = samples.mean(axis=1), np.maximum(samples.std(axis=1, ddof=1), 1e-9)
    error = deviation / np.sqrt(queries)
    third = ((samples - mean[:, None]) ** 3).sum(axis=1) * queries / ((queries - 1) * (queries - 2))
    # Johnson, JASA 73, 1978: Student's t with the third moment taken out.
    johnson = (mean + third / (6 * deviation**2 * queries) + third / (3 * deviation**4) * mean**2) / error
    counts = rng.multinomial(queries, np.full(queries, 1 / queries), size=DRAWN).astype(float)
    drawn = samples @ counts.T / queries
    errors = np.sqrt(np.maximum((samples**2) @ counts.T / queries - drawn**2, 0) / (queries - 1))
    scaled = (drawn - mean[:, None]) / np.maximum(errors, 0.2 * error[:, None])
    low, high = np.percentile(scaled, [2.5, 97.5], axis=1)
    t = randomisation.student_quantile(0.975, queries - 1)
    intervals = {
        "percentile": bootstrap.intervals(samples[:BETS]),
        "bootstrap-t, two tails": np.stack([mean - high * error, mean - low * error], axis=1),
        "BCa": bias_corrected(samples, drawn),
        "bootstrap-t, symmetric": bootstrap.difference_intervals(samples, resamples=DRAWN),
    }
    some = samples[:BETS].clip(-1, 1)
    signs = {
        "randomisation": [randomisation.p_value(row, resamples=DRAWN) < randomisation.LEVEL for row in samples],
        "Student's t": np.abs(mean) > t * error,
        "Johnson's t": np.abs(johnson) > t,
        "betting": [lower_bound(row, level=0.025) > 0 or lower_bound(-row, level=0.025) > 0 for row in some],
    }
    outside = {name: (found[:, 0] > 0) | (found[:, 1] < 0) for name, found in intervals.items()}
    return {name: float(np.mean(found)) for name, found in {**signs, **outside}.items()}


def bias_corrected(samples: Any, drawn: Any) -> Any:
    """Return the BCa intervals (samples, 2) from the means (samples, resamples) of resamples. Efron, JASA 82, 1987."""
    from scipy.special import ndtr, ndtri

    centred = samples - samples.mean(axis=1, keepdims=True)
    below = np.mean(drawn < samples.mean(axis=1, keepdims=True), axis=1)
    bias = ndtri(np.clip(below, 1 / DRAWN, 1 - 1 / DRAWN))
    acceleration = (centred**3).sum(axis=1) / (6 * np.maximum((centred**2).sum(axis=1), 1e-18) ** 1.5)
    ordered = np.sort(drawn, axis=1)
    ends = []
    for z in ndtri([0.025, 0.975]):
        at = ndtr(bias + (bias + z) / (1 - acceleration * (bias + z)))
        ends.append(ordered[np.arange(len(samples)), np.clip((at * DRAWN).astype(int), 0, DRAWN - 1)])
    return np.stack(ends, axis=1)


def simulate(count: int, path: Path | None) -> None:
    """Print a line per source of differences and number of queries: the share of *count* samples that each method rejects."""
    rows: list[dict[str, Any]] = []
    for name, source in SOURCES.items():
        for queries in SIZES:
            rng = np.random.default_rng([42, queries])
            rates = rejections(source(rng, (count, queries)), rng)
            if not rows:
                print(f"{'':42}{'queries':>8}" + "".join(f"{method:>24}" for method in rates))
            rows.append({"source": name, "queries": queries, **rates})
            print(f"{name:42}{queries:8}" + "".join(f"{rate:24.3f}" for rate in rates.values()), flush=True)
    if path:
        path.write_text(json.dumps(rows, indent=1) + "\n")


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
    parser.add_argument("--simulate", type=int, metavar="SAMPLES", help="simulate error rates with so many samples")
    given = parser.parse_args()
    if given.simulate:
        simulate(given.simulate, given.json)
        return
    rng = np.random.default_rng(0)
    differences = np.where(rng.random(given.queries) < 0.4, rng.normal(0.006, 0.3, given.queries), 0.0)
    systems = np.array([np.clip(rng.normal(0.4 + at / 500, 0.3, 300), 0, 1) for at in range(50)])
    ours = {"resamples": randomisation.RESAMPLES}
    theirs: dict[str, Any] = {"n_resamples": randomisation.RESAMPLES, "rng": 1, "batch": BATCH, "vectorized": True}
    jobs: dict[str, Callable[[], Any]] = {
        "p, lexbench": lambda: randomisation.p_value(differences, **ours),
        "p, scipy": lambda: stats.permutation_test((differences,), np.mean, permutation_type="samples", **theirs).pvalue,
        "percentile interval, lexbench": lambda: bootstrap.interval(differences),
        "bootstrap-t interval, lexbench": lambda: bootstrap.difference_interval(differences),
        "percentile interval, scipy": lambda: tuple(
            map(float, stats.bootstrap((differences,), np.mean, method="percentile", **theirs).confidence_interval)
        ),
        "ranks of 50 systems x 300 queries": lambda: str(randomisation.ranking(systems).ranks[-1]),
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
