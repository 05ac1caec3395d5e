"""The engine `impact`: building and searching, beside the floor of adding up postings, in one process.

    python benchmarks/impact.py                              # 200,000 synthetic documents of 120 terms, fixed seed
    python benchmarks/impact.py --documents 8841823 --queries 200 --json FILE

The floor is the plainest loop that adds the same postings of the same queries to sums, without finding out which are best: on
windows of 65,536 sums, which fit in a second-level cache, and of 8,192, which fit in a first-level one. It reads 3 bytes a
posting, list by list, and leaves prefetching to the machine; `impact` can be faster because it prefetches and has bitmaps of
frequent terms. For more than 1,000,000 documents the floor is that of the first 1,000,000.
Times are CPU seconds of one thread, the least of several repeats, but for those of single queries, which are by the clock.
With --threads 2 the same queries are searched by two threads, too.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

ONE_THREAD = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
os.environ.update(ONE_THREAD)  # before numpy is imported

import _synthetic  # noqa: E402 - see above
import numpy as np  # noqa: E402
from numba import njit  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from scipy import sparse  # noqa: E402

from lexbench.engines.impact import Impact, ImpactIndex  # noqa: E402

DEPTHS = (10, 1000)
FLOORS = (65_536, 8192)
MOST_FOR_FLOOR = 1_000_000
REPEATS = 7


def least(work: Callable[[], Any]) -> float:
    """Return the CPU seconds of *work*, the least of several repeats after a warm-up."""
    work()
    seconds = []
    for _ in range(REPEATS):
        start = time.thread_time()
        work()
        seconds.append(time.thread_time() - start)
    return min(seconds)


class Built:
    """A built index, and what building took; making the documents is timed apart."""

    def __init__(self, documents: int, path: Path) -> None:
        self.making = 0.0
        start = time.perf_counter()
        Impact().build(self._shards(documents), path)
        self.seconds = time.perf_counter() - start - self.making
        self.peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        self.sizes = {file.name: file.stat().st_size for file in sorted(path.iterdir())}

    def _shards(self, documents: int) -> Any:
        shards = _synthetic.documents(documents)
        while True:
            start = time.perf_counter()
            shard = next(shards, None)
            self.making += time.perf_counter() - start
            if shard is None:
                return
            yield shard


def floor(window: int, documents: Iterable[sparse.csr_array], queries: sparse.csr_array) -> float:
    """Return nanoseconds a posting of the plainest loop on windows of that size, over shards of *documents*."""
    matrix = sparse.vstack(list(documents), format="csr").T.tocsr()
    windows = -(-matrix.shape[1] // window)
    bounds = np.zeros((matrix.shape[0], windows + 1), np.int64)
    for term in range(matrix.shape[0]):
        start, stop = matrix.indptr[term], matrix.indptr[term + 1]
        bounds[term] = start + np.searchsorted(matrix.indices[start:stop], np.arange(windows + 1) * window)
    ids, weights = (matrix.indices % window).astype(np.uint16), matrix.data.astype(np.uint8)
    del matrix
    factors = queries.data.astype(np.int32)
    sums = np.zeros(window, np.int32)
    seconds = least(lambda: scatter(ids, weights, bounds, queries.indptr, queries.indices, factors, sums))
    return seconds / int((bounds[queries.indices, -1] - bounds[queries.indices, 0]).sum()) * 1e9


@njit(nogil=True, cache=True)
def scatter(ids, weights, bounds, starts, terms, factors, sums):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Add up the postings of each query, window by window."""
    for query in range(len(starts) - 1):
        for window in range(bounds.shape[1] - 1):
            for term in range(starts[query], starts[query + 1]):
                factor = factors[term]
                for i in range(bounds[terms[term], window], bounds[terms[term], window + 1]):
                    sums[np.uint64(ids[i])] += np.int32(weights[i]) * factor


def one_by_one(index: ImpactIndex, queries: sparse.csr_array, k: int) -> NDArray[np.float64]:
    """Return the milliseconds of each query by itself, through Python, the median of three."""
    rows = [queries[i : i + 1] for i in range(queries.shape[0])]
    found = np.empty((3, len(rows)))
    for repeat in range(3):
        for i, row in enumerate(rows):
            start = time.perf_counter()
            index.search(row, k)
            found[repeat, i] = time.perf_counter() - start
    return np.median(found, axis=0) * 1e3


def threaded(path: Path, threads: int, queries: sparse.csr_array, k: int) -> dict[str, float]:
    """Return how many times as fast *threads* are as one thread by the clock, both by turns, and how much more work they are.

    The clock tells nothing on a machine that is busy; processor time tells what threads cost each other: 1 is nothing.
    """
    indexes = [Impact(number).open(path) for number in (1, threads)]
    took = np.empty((REPEATS, 2, 2))
    for repeat in range(REPEATS):
        for number, index in enumerate(indexes):
            wall, processor = time.perf_counter(), time.process_time()
            index.search(queries, k)
            took[repeat, number] = time.perf_counter() - wall, time.process_time() - processor
    least_of = took.min(axis=0)
    return {"times_as_fast": least_of[0, 0] / least_of[1, 0], "times_the_processor_time": least_of[1, 1] / least_of[0, 1]}


def measure(documents: int, queries: sparse.csr_array, path: Path, threads: int) -> dict[str, Any]:
    """Return all figures of one collection; with more than one of *threads* also what these gain."""
    with tempfile.TemporaryDirectory() as warm:  # compiling is not counted
        Impact().build(_synthetic.documents(1000), Path(warm))
        Impact().open(Path(warm)).search(queries[:1], 10)
    built = Built(documents, path)
    index = Impact(threads=1).open(path)
    postings, stored = int(index.counters(queries)["postings"].sum()), int(index.document_frequency.sum())
    facts: dict[str, Any] = {
        "documents": documents,
        "queries": queries.shape[0],
        "threads": 1,
        "postings": stored,
        "postings_per_query": postings / queries.shape[0],
        "build_seconds": built.seconds,
        "making_documents_seconds": built.making,
        "build_peak_gib": built.peak,
        "bytes": built.sizes,
        "bytes_per_posting": sum(built.sizes.values()) / stored,
    }
    for k in DEPTHS:
        seconds = least(lambda k=k: index.search(queries, k))
        p50, p95, p99 = np.percentile(one_by_one(index, queries, k), [50, 95, 99]).tolist()
        passes = index.search_counted(queries, k)[1]["passes"]
        facts[f"k={k}"] = {
            "ns_per_posting": seconds / postings * 1e9,
            "queries_per_second": queries.shape[0] / seconds,
            "milliseconds": {"p50": p50, "p95": p95, "p99": p99},
            "queries_passed_twice": int((passes > 1).sum()),
        }
        if threads > 1:
            facts[f"k={k}"][f"threads={threads}"] = threaded(path, threads, queries, k)
    return facts


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=1000, help="the first so many; p99 takes 1,000")
    parser.add_argument("--topics", type=Path, help="vectors of queries (see _synthetic.py)")
    parser.add_argument("--threads", type=int, default=1, help="compare so many threads with one, too")
    parser.add_argument("--no-floor", action="store_true")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    given = parser.parse_args()
    queries = _synthetic.queries(given.topics, given.queries)
    with tempfile.TemporaryDirectory() as folder:
        facts = measure(given.documents, queries, Path(folder), given.threads)
    if not given.no_floor:
        few = min(given.documents, MOST_FOR_FLOOR)
        facts["floor_ns_per_posting"] = {str(window): floor(window, _synthetic.documents(few), queries) for window in FLOORS}
    facts["peak_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    text = json.dumps(facts, indent=1)
    print(text)
    if given.json:
        given.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
