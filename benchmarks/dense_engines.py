"""Dense engines on the same vectors, one thread each: speed, size, and recall of exact search.

    python benchmarks/dense_engines.py --documents 200000 --dimensions 384 --queries 1000 --json FILE
    python benchmarks/dense_engines.py --vectors FOLDER-OR-FILE.npy --queries 1000

Without --vectors the vectors are random, of length 1, around one centre per 100 documents. With --vectors they come from a
folder of stored encodings or a .npy file (documents, dimensions), and queries are documents plus noise of the same length,
normalised. All indexes are built first, then searched in turns, after an untimed pass, so that other work on the machine slows
all of them. `qps` is the median of the passes, `qps cpu` the same by processor time; `one` is milliseconds of processor time
for a single query, k = 10. `numpy` is `queries @ documents.T` and argpartition, 64 queries at a time, from memory; so is
`IndexFlatIP`. `bytes` are bytes on disk per document. Recall is `lexbench.engines.kernels.dense.overlap`, which accepts any
document among equal scores.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from lexbench import registry
from lexbench.encodings.shards import SHARD, Encodings
from lexbench.engines.kernels.dense import overlap
from lexbench.notation import parse
from lexbench.storage import environment
from lexbench.types import Hits

ENGINES = (
    "flat",
    'flat(storage="float16")',
    'faiss(factory="Flat")',
    'faiss(factory="HNSW32")',
    'faiss(factory="IVF1024,Flat")',
    'faiss(factory="SQ8")',
    'faiss(factory="PQ48")',
    'faiss(factory="OPQ48_384,PQ48")',
    'faiss(factory="IVF1024,PQ48")',
)
DEPTHS = (10, 1000)
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
ALONE = 50  # queries that are searched one by one
Search = Callable[[NDArray[np.float32], int], Any]


def seconds(work: Callable[[], Any]) -> float:
    """Return how long *work* takes by the clock."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def vectors(given: argparse.Namespace) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return documents and queries."""
    rng = np.random.default_rng(0)
    if given.vectors is None:
        centres = rng.standard_normal((max(1, given.documents // 100), given.dimensions), dtype=np.float32)
        count = given.documents + given.queries
        rows = centres[rng.integers(0, len(centres), count)]
        rows += given.noise * rng.standard_normal(rows.shape, dtype=np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows[: given.documents], rows[given.documents :]
    stored = np.load(given.vectors) if given.vectors.is_file() else np.concatenate(list(Encodings(given.vectors).shards()))
    documents = np.ascontiguousarray(stored, np.float32)
    queries = documents[rng.integers(0, len(documents), given.queries)]
    noise = rng.standard_normal(queries.shape, dtype=np.float32)
    queries = queries / np.linalg.norm(queries, axis=1, keepdims=True) + noise / np.linalg.norm(noise, axis=1, keepdims=True)
    return documents, (queries / np.linalg.norm(queries, axis=1, keepdims=True)).astype(np.float32)


def plain(documents: NDArray[np.float32]) -> Search:
    """Return exact search in plain numpy."""

    def search(queries: NDArray[np.float32], k: int) -> Hits:
        found = []
        for start in range(0, len(queries), 64):
            products = queries[start : start + 64] @ documents.T
            docs = np.argpartition(-products, k - 1, axis=1)[:, :k]
            docs = np.take_along_axis(docs, np.argsort(-np.take_along_axis(products, docs, axis=1), axis=1), axis=1)
            found.append((docs, np.take_along_axis(products, docs, axis=1)))
        return Hits(np.concatenate([docs for docs, _ in found]), np.concatenate([scores for _, scores in found]))

    return search


def built(labels: list[str], documents: NDArray[np.float32], folder: Path) -> tuple[dict[str, Search], dict[str, Any]]:
    """Build every index; return the search functions and the costs."""
    index = faiss.IndexFlatIP(documents.shape[1])
    index.add(documents)
    searches: dict[str, Search] = {"numpy": plain(documents), "IndexFlatIP": index.search}
    facts: dict[str, Any] = {name: {"bytes": 4.0 * documents.shape[1]} for name in searches}
    for number, label in enumerate(labels):
        place = folder / str(number)
        place.mkdir()
        engine = registry.create("engines", parse(label).head)
        wall, cpu = time.perf_counter(), time.process_time()
        engine.build((documents[start : start + SHARD] for start in range(0, len(documents), SHARD)), place)
        facts[label] = {"build_s": time.perf_counter() - wall, "build_cpu_s": time.process_time() - cpu}
        size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
        facts[label]["bytes"] = size / len(documents)
        searches[label] = engine.open(place).search
    return searches, facts


def timed(searches: dict[str, Search], work: Callable[[Search], Any], passes: int) -> dict[str, tuple[float, float]]:
    """Return the median wall and processor seconds of *work* with each, by turns."""
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in searches}
    for number in range(passes + 1):
        for name, search in searches.items():
            cpu = time.process_time()
            wall = seconds(partial(work, search))
            if number:
                spent[name].append((wall, time.process_time() - cpu))
    return {name: tuple(np.median(times, axis=0).tolist()) for name, times in spent.items()}


def measure(given: argparse.Namespace, folder: Path) -> tuple[list[dict[str, Any]], tuple[int, int]]:
    """Return the figures of each contender, and the shape of the documents."""
    documents, queries = vectors(given)
    searches, facts = built(given.engines, documents, folder)

    def at(k: int, search: Search) -> Any:
        return search(queries, k)

    for k in DEPTHS:
        for name, (wall, cpu) in timed(searches, partial(at, k), given.passes).items():
            facts[name] |= {f"qps_{k}": len(queries) / wall, f"qps_cpu_{k}": len(queries) / cpu}
    alone = timed(searches, lambda search: [search(query[None], 10) for query in queries[:ALONE]], given.passes)
    for name, search in searches.items():
        facts[name]["one_ms"] = 1e3 * alone[name][1] / min(ALONE, len(queries))
        found = search(queries, 100)
        hits = found if isinstance(found, Hits) else Hits(found[1].astype(np.int32), found[0])
        facts[name] |= {f"recall_{k}": share for k, share in overlap([documents], queries, hits).items()}
    return [{"engine": name} | own for name, own in facts.items()], documents.shape


def table(rows: list[dict[str, Any]]) -> str:
    """Return the figures; in brackets times as fast as numpy, by processor time."""
    names = ("recall@10", "@100", "bytes", "build s", "cpu s", "qps, k=10", "qps cpu", "qps, k=1000", "qps cpu", "one ms")
    lines = [f"{'engine':34}" + "".join(f"{name:>17}" if name == "qps cpu" else f"{name:>12}" for name in names)]
    for row in rows:
        speeds = ""
        for k in DEPTHS:
            ratio = f"{row[f'qps_cpu_{k}']:,.0f} ({row[f'qps_cpu_{k}'] / rows[0][f'qps_cpu_{k}']:.2f})"
            speeds += f"{row[f'qps_{k}']:12,.0f}{ratio:>17}"
        took = "".join(f"{row[name]:12.1f}" if name in row else f"{'':12}" for name in ("build_s", "build_cpu_s"))
        recall = f"{row['recall_10']:12.4f}{row['recall_100']:12.4f}"
        lines.append(f"{row['engine']:34}{recall}{row['bytes']:12.1f}{took}{speeds}{row['one_ms']:12.2f}")
    return "\n".join(lines)


def main() -> None:
    """Measure every engine and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--noise", type=float, default=1.0, help="of random vectors, beside centres of 1 (default: 1)")
    parser.add_argument("--vectors", type=Path, help="a folder of stored encodings, or a .npy file")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--engine", action="append", dest="engines", help="(default: all of the table)")
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)), help="the processor to measure on")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    given = parser.parse_args()
    given.engines = given.engines or list(ENGINES)
    if not ONE_THREAD.items() <= os.environ.items():  # they are read when numpy is loaded: start again
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ONE_THREAD)
    os.sched_setaffinity(0, {given.cpu})
    faiss.omp_set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        rows, (documents, dimensions) = measure(given, Path(folder))
    load = os.getloadavg()
    print(f"{documents:,} vectors of {dimensions:,} dimensions, {given.queries:,} queries; one thread; load {load[0]:.1f}")
    print(table(rows))
    if given.json:
        versions = {package: version(package) for package in ("numpy", "numba", "faiss-cpu")}
        facts = {"documents": documents, "dimensions": dimensions, "queries": given.queries, "versions": versions}
        given.json.write_text(
            json.dumps({"machine": environment.facts() | {"load": load}, **facts, "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
