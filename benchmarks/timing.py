"""Measure which differences `--time` can distinguish: a system against itself (A/A), a slower wrapper of it, and a plain loop.

    python benchmarks/timing.py                       # bm25 on pydoc, four rounds
    python benchmarks/timing.py --plain               # QPS of --time over the QPS of a plain loop around the same calls
    python benchmarks/timing.py --suite beir --dataset beir/scifact/test --system 'bm25(k1=0.9)' --by 0.1 --json FILE

A round times the system, the system again, and a wrapper that spins for a share of each call's time, each in a new process. The
noise floor of single measurements is the largest ratio between two measurements of the same system. The noise floor of all
rounds together is the ratio of the system to itself, with medians over all passes. A difference needs a paired interval that
excludes 1 and a ratio beyond the floor.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import _child
import numpy as np
from numpy.typing import NDArray

from lexbench.artifacts.graph import Graph
from lexbench.artifacts.searches import RetrieverIndex
from lexbench.datasets.dataset import open_dataset
from lexbench.results import Timing
from lexbench.runner import jobs
from lexbench.runner.plan import plan_suite
from lexbench.storage.store import Store
from lexbench.suites import suite
from lexbench.timing.protocol import TimingSettings, sample
from lexbench.timing.stored_timings import Durations, read_durations
from lexbench.timing.timer import Timer

_NUMBERS = 1 << 22  # numbers in memory at a time

SLOWER = '''
"""A retriever that does busy waiting after each search of another one."""

import time
from dataclasses import dataclass

from lexbench import Retriever, Searcher
from lexbench.artifacts.searches import Search


def spun(work, by):
    begin = time.perf_counter()
    done = work()
    end = time.perf_counter()
    end += (end - begin) * by
    while time.perf_counter() < end:
        pass
    return done


@dataclass(frozen=True)
class Slower(Retriever):
    members: tuple = ()
    by: float = 0.1

    def parts(self, corpus):
        return {"inner": Search(corpus, self.members[0])}

    def open(self, opened):
        return Spinning(opened["inner"], self.by)


@dataclass(frozen=True)
class Spinning(Searcher):
    searcher: object
    by: float

    def encode(self, queries):
        return spun(lambda: self.searcher.encode(queries), self.by)

    def search(self, encoded, k):
        return spun(lambda: self.searcher.search(encoded, k), self.by)
'''


PLAIN = """
import json, os, sys, time
from pathlib import Path
from statistics import median

from lexbench.registry import with_threads
from lexbench.runner.systems import system
from lexbench.types import Query

name, index, queries, k = json.load(sys.stdin)
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
searcher = with_threads(system(name).retriever, 1).open(Path(index))
queries = [Query(*query) for query in queries]
rates = []
for _ in range(7):
    begin = time.perf_counter()
    for query in queries:
        searcher.search(searcher.encode_queries([query]), k)
    rates.append(len(queries) / (time.perf_counter() - begin))
print(median(rates[2:]))
"""


class Ratio(NamedTuple):
    """How much slower the first system is than the second: 1.1 is 10 %."""

    ratio: float
    low: float
    high: float

    def beyond(self, floor: float) -> bool:
        """Return whether the interval excludes 1 and the ratio differs from 1 by more than *floor*, e.g. .02."""
        return (self.low > 1 or self.high < 1) and abs(self.ratio - 1) > floor


def ratio_of_medians(first: Durations, second: Durations, *, resamples: int = 10_000) -> Ratio:
    """Return the ratio of the p50s of two systems with its paired bootstrap interval of 95 %.

    *first* and *second* are durations (passes, queries) of the same queries in the same order; the numbers of passes may be
    different. Queries are drawn with replacement, the same ones for both. Raises ValueError if the numbers of queries differ.
    """
    above, below = np.median(first, axis=0), np.median(second, axis=0)
    if above.shape != below.shape:
        raise ValueError(f"{len(above)} and {len(below)} queries are no pairs")
    generator = np.random.default_rng(42)
    ratios = []
    rows = max(1, _NUMBERS // len(above))
    for start in range(0, resamples, rows):
        drawn = generator.integers(0, len(above), (min(rows, resamples - start), len(above)))
        ratios.append(np.median(above[drawn], axis=1) / np.median(below[drawn], axis=1))
    low, high = np.quantile(np.concatenate(ratios), [0.025, 0.975]).tolist()
    return Ratio(float(np.median(above) / np.median(below)), low, high)


def print_plain(system: str, given: argparse.Namespace, store: Store) -> list[float]:
    """Print the QPS by `--time` and in a plain loop of a new process, in turns; return the ratios of each round."""
    planned = plan_suite(suite(given.suite), [system], [given.dataset] if given.dataset else [])
    job = planned.jobs[0]
    queries = [
        (query.query_id, query.text)
        for query in sample(open_dataset(job.contract, job.source).queries, TimingSettings().queries)
    ]
    one_thread = dict.fromkeys((f"{name}_NUM_THREADS" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA", "RAYON")), "1")
    ratios = []
    for _ in range(given.rounds):
        timing, _ = timed(system, given, store)
        (outcome,) = jobs.run(planned, store)
        assert outcome.run
        searched = outcome.run
        index = Graph(store).open(RetrieverIndex(searched.data.corpus, searched.system.retriever))
        task = json.dumps([system, str(index), queries, timing.k])
        command, environment = [sys.executable, "-c", PLAIN], {**os.environ, **one_thread}
        plain, measured = float(_child.run(command, env=environment, text=task)), timing.qps["e2e"]
        ratios.append(measured / plain)
        rates = f"--time {measured:.1f} QPS, plain loop {plain:.1f}, ratio {ratios[-1]:.3f}"
        print(f"{system}, k={timing.k}: {rates} {' '.join(timing.flags)}")
    return ratios


def install(site: Path) -> None:
    """Install the plug-in `slower` for this process and its children."""
    (site / "lexbench_slower.py").write_text(SLOWER)
    facts = site / "lexbench_slower-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: lexbench-slower\nVersion: 1\n")
    (facts / "entry_points.txt").write_text("[lexbench.retrievers]\nslower = lexbench_slower:Slower\n")
    sys.path.insert(0, str(site))


def timed(system: str, given: argparse.Namespace, store: Store) -> tuple[Timing, NDArray[np.int64]]:
    """Return a fresh timing of *system*, and its durations (passes, queries), end to end."""
    planned = plan_suite(suite(given.suite), [system], [given.dataset] if given.dataset else [])
    (outcome,) = jobs.run(planned, store, timer=Timer(TimingSettings(again=True, threads=1)))
    if outcome.result is None or outcome.untimed:
        sys.exit(outcome.error or outcome.untimed)
    timing = outcome.result.timings[0]
    return timing, read_durations(store.root / timing.folder)["e2e"]


def print_comparison(what: str, ratio: Ratio, floor: float) -> None:
    """Print one comparison."""
    verdict = "a difference" if ratio.beyond(floor) else "no difference"
    print(f"  {what:<14} {ratio.ratio:.4f} [{ratio.low:.4f}, {ratio.high:.4f}]  {verdict}")


def floor_of(found: Sequence[NDArray[np.int64]]) -> float:
    """Return the largest ratio between two measurements of the same system, minus 1."""
    ratios = [ratio_of_medians(one, other, resamples=1).ratio for one, other in combinations(found, 2)]
    return max(max(ratio, 1 / ratio) - 1 for ratio in ratios)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="pydoc")
    parser.add_argument("--dataset")
    parser.add_argument("--system", default="bm25")
    parser.add_argument("--by", type=float, default=0.1)
    parser.add_argument("--plain", action="store_true", help="compare with a plain loop instead")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--json", type=Path, help="write the figures here too")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        site.mkdir()
        install(site)
        store = Store(Path(folder) / "store")
        if given.plain:
            ratios = print_plain(given.system, given, store)
            print(f"median ratio {np.median(ratios):.3f}; it should be from 0.9 to 1.1")
            write({"ratios": ratios}, given.json)
            return
        slower = f"slower({given.system}, by={given.by})"
        rounds = [[timed(system, given, store) for system in (given.system, given.system, slower)] for _ in range(given.rounds)]
    floor = floor_of([matrix for (_, first), (_, again), _ in rounds for matrix in (first, again)])
    facts: dict[str, Any] = {"floor": floor, "rounds": []}
    print(f"noise floor: {floor:.1%}, of {2 * given.rounds} measurements of {given.system}")
    for (timing, first), (_, again), (slow, other) in rounds:
        flags = sorted({*timing.flags, *slow.flags})
        overhead = f"overhead {timing.overhead:.2%}" if timing.overhead is not None else ""
        print(f"p50 {timing.stages['e2e'].p50 * 1e3:.3f} ms, {overhead}, CPU/wall {timing.cpu_per_wall:.2f} {' '.join(flags)}")
        same, slowed = ratio_of_medians(again, first), ratio_of_medians(other, first)
        print_comparison("the same again", same, floor)
        print_comparison(f"slower by {given.by:.0%}", slowed, floor)
        compared = {"same": same._asdict(), "slower": slowed._asdict()}
        facts["rounds"].append({**compared, "flags": flags, "overhead": timing.overhead})
    first, again, other = (np.concatenate([one[place][1] for one in rounds]) for place in range(3))
    same, slowed = ratio_of_medians(again, first), ratio_of_medians(other, np.concatenate([first, again]))
    pooled = abs(same.ratio - 1)
    print(f"all rounds together: noise floor {pooled:.1%}")
    print_comparison("the same again", same, pooled)
    print_comparison(f"slower by {given.by:.0%}", slowed, pooled)
    facts["together"] = {"floor": pooled, "same": same._asdict(), "slower": slowed._asdict()}
    write(facts, given.json)


def write(facts: dict[str, Any], place: Path | None) -> None:
    """Write *facts* as JSON, if there is a place for them."""
    if place:
        place.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
