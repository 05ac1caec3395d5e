"""Sparse engines on the same whole weights, one thread each: speed, size, and exactness.

    python benchmarks/engines.py --docs 200000 --json FILE
    python benchmarks/engines.py --docs 20000 --engines impact,lucene --queries 300 --rounds 2
    python benchmarks/engines.py --vectors FOLDER --engines impact,bmp32,bmp8

Documents are synthetic (_synthetic.py), about 120 terms each; queries are those of SPLADE-v3 for MS MARCO dev/small if they
are found. With --vectors both are real: FOLDER has shards of whole weights, and queries.safetensors (scale.py writes them).
Each engine builds its index in one process, and each of its settings searches in another, on one processor. A small
index is built before the timing, so that compiling and starting Java do not count.

Rates are queries per second of processor time of the engine's own work, all queries at once or one by one, whichever is
cheaper: for `lucene` IndexSearcher.search(query, k) up to the TopDocs, for `pisa` and `seismic` their own calls, for others
Index.search. p50 and p99 are wall times of single queries. With --rounds each setting searches in several processes, by turns,
and the best one counts. `overlap` is the share of hits whose true score reaches the exact k-th score, by scipy's products;
`exact` means that all returned scores are exact. Needs: the extras `lucene`, `pisa` and `seismic` for those engines, and the
package `bmp` for `bmp32` and `bmp8`.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import _child
import _synthetic
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench import registry
from lexbench.encodings.shards import Encodings, read_shard
from lexbench.notation import parse
from lexbench.storage import environment

SETTINGS = {  # settings of each engine; they share the index of the first
    "impact": ["impact"],
    "lucene": ["lucene", "lucene(prune=True)"],
    "pisa": ["pisa", 'pisa(algorithm="ranked_or_taat")'],
    "seismic": [
        "seismic(n_postings=1000, query_cut=8, heap_factor=0.9)",
        "seismic(n_postings=1000, query_cut=25, heap_factor=0.6)",
    ],
    "bmp32": ["bmp(32)"],
    "bmp8": ["bmp(8)"],
    "qdrant": ["qdrant"],
    "csr": ["csr"],
}
DEPTHS = (10, 1000)
WARM = 2000  # documents of the index that is built before the timing
CHECKED = 500  # queries whose answers are compared with the exact ones
THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")


class Vectors:
    """The vectors: synthetic, or real ones in *folder*."""

    def __init__(self, folder: str | None, documents: int, queries: int) -> None:
        self._folder, self._documents, self._queries = folder and Path(folder), documents, queries

    def documents(self) -> Iterable[sparse.csr_array]:
        """Return the documents in shards (n, vocabulary)."""
        return Encodings(self._folder).shards() if self._folder else _synthetic.documents(self._documents)

    def queries(self) -> sparse.csr_array:
        """Return the queries (n, vocabulary)."""
        if self._folder:
            return sparse.csr_array(read_shard(self._folder / "queries.safetensors")[: self._queries])
        return _synthetic.queries(most=self._queries)


def engine_of(label: str) -> Any:
    """Return an engine of lexbench, or BMP."""
    call = parse(label).head
    if call.name == "bmp":
        from _bmp import Bmp

        made: Any = Bmp
        return made(*call.args)
    return registry.create("engines", call)


def build(label: str, vectors: Vectors, folder: Path) -> dict[str, float]:
    """Build the index in *folder*/index; return its size and the processor time, without making the documents."""
    engine = engine_of(label)
    for place in ("warm", "index"):
        (folder / place).mkdir(parents=True)
        shards = [next(iter(vectors.documents()))[:WARM]] if place == "warm" else list(vectors.documents())
        start = time.process_time()
        engine.build(iter(shards), folder / place)
        spent = time.process_time() - start
    size = sum(path.stat().st_size for path in (folder / "index").rglob("*") if path.is_file())
    return {"build_s": spent, "index_bytes": size}


def works(index: Any, queries: sparse.csr_array, k: int) -> tuple[Callable[[], Any], list[Callable[[], Any]]]:
    """Return the engine's own work for all queries at once, and for each alone."""
    if not hasattr(index, "prepare"):
        rows = [sparse.csr_array(queries[[row]]) for row in range(queries.shape[0])]
        return (lambda: index.search(queries, k)), [partial(index.search, row, k) for row in rows]
    prepared = index.prepare(queries)
    return (lambda: index.retrieve(prepared, k)), [partial(index.retrieve, [query], k) for query in prepared]


def search(label: str, queries: sparse.csr_array, repeats: int, warm_up: float, folder: Path) -> list[dict[str, Any]]:
    """Return the figures of each depth, and write the hits into *folder*."""
    index = engine_of(label).open(folder / "index")
    rows = []
    for k in DEPTHS:
        every, alone = works(index, queries, k)
        until = time.perf_counter() + warm_up
        while time.perf_counter() < until:
            every()
        gc.collect()
        gc.disable()
        batch, single, walls = [], [], []
        for _ in range(repeats):
            batch.append(timed(every, time.process_time))
            start = time.process_time()
            walls.append([timed(one, time.perf_counter) for one in alone])
            single.append(time.process_time() - start)
        gc.enable()
        hits = index.search(queries[:CHECKED], k)
        np.savez(folder / f"hits-{k}.npz", docs=hits.docs, scores=hits.scores)
        p50, p99 = np.percentile(np.median(walls, axis=0) * 1e3, [50, 99]).tolist()
        qps = queries.shape[0] / min(statistics.median(batch), statistics.median(single))
        rows.append({"engine": label, "k": k, "qps": qps, "p50_ms": p50, "p99_ms": p99})
    return rows


def timed(work: Callable[[], Any], clock: Callable[[], float]) -> float:
    """Return the seconds that *work* takes by *clock*."""
    start = clock()
    work()
    return clock() - start


def in_own_process(job: dict[str, Any], cpu: int) -> Any:
    """Run a job in a new process on one processor, and return its answer. Java writes on standard output, so that is hidden."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer.json")
        command = [sys.executable, __file__, "--job", json.dumps(job | {"cpu": cpu, "answer": str(answer)})]
        _child.run(command, env=os.environ | dict.fromkeys(THREADS, "1"))
        return json.loads(answer.read_text())


def work(job: dict[str, Any]) -> None:
    """Do a job of `in_own_process`."""
    os.sched_setaffinity(0, {job["cpu"]})  # before numba and Java count the processors
    vectors = Vectors(*job["vectors"])
    if job["do"] == "build":
        answer: Any = build(job["engine"], vectors, Path(job["folder"]))
    else:
        answer = search(job["engine"], vectors.queries(), job["repeats"], job["warm_up"], Path(job["folder"]))
    Path(job["answer"]).write_text(json.dumps(answer))


class Truth:
    """The exact best scores, and the true scores of the documents that engines found, by scipy's products."""

    def __init__(self, queries: sparse.csr_array, vectors: Vectors) -> None:
        self.queries, self.vectors = queries, vectors
        self.best = np.zeros((queries.shape[0], 0), np.int64)  # the largest scores of each query, best first
        self.found: dict[tuple[str, int], tuple[NDArray[Any], NDArray[Any]]] = {}
        self.true: dict[tuple[str, int], NDArray[np.int64]] = {}

    def add(self, label: str, k: int, file: Path) -> None:
        """Add the hits of an engine."""
        with np.load(file) as arrays:
            self.found[label, k] = arrays["docs"], arrays["scores"]
        self.true[label, k] = np.zeros(self.found[label, k][0].shape, np.int64)

    def compute(self, rows: int = 64) -> None:
        """Multiply *rows* queries at a time with one shard of documents."""
        first, most = 0, DEPTHS[-1]
        for shard in self.vectors.documents():
            postings = sparse.csr_array(shard.astype(np.int64).T.tocsr())
            parts = []
            for start in range(0, self.queries.shape[0], rows):
                products = (self.queries[start : start + rows].astype(np.int64) @ postings).toarray()
                for key, (docs, _) in self.found.items():
                    inside = docs[start : start + rows] - first
                    at, rank = np.nonzero((inside >= 0) & (inside < shard.shape[0]))
                    self.true[key][start + at, rank] = products[at, inside[at, rank]]
                keep = min(most, products.shape[1])
                parts.append(np.partition(products, products.shape[1] - keep, axis=1)[:, -keep:])
            self.best = -np.sort(-np.concatenate([self.best, np.concatenate(parts)], axis=1), axis=1)[:, :most]
            first += shard.shape[0]

    def verdict(self, label: str, k: int) -> dict[str, Any]:
        """Return how an engine's hits compare with the exact ones."""
        (docs, scores), true = self.found[label, k], self.true[label, k]
        counts = np.minimum(k, (self.best > 0).sum(axis=1))
        overlaps = [
            float((own[at >= 0] >= best[count - 1]).sum() / count)
            for own, at, best, count in zip(true, docs, self.best, counts, strict=True)
            if count
        ]
        given = np.where(docs >= 0, scores, 0).astype(np.int64)
        width = min(given.shape[1], self.best.shape[1], k)
        exact = np.array_equal(given, true) and np.array_equal(given[:, :width], self.best[:, :width])
        return {"overlap": statistics.mean(overlaps), "exact": bool(exact)}


def table(rows: list[dict[str, Any]]) -> str:
    """Return one line per setting, in Markdown; in brackets: times slower than the first engine."""
    lines = ["| | queries/s, k = 10 | k = 1000 | p50 ms | ns/posting | bytes/posting | build s | overlap |", f"|{' --: |' * 8}"]
    for label in dict.fromkeys(row["engine"] for row in rows):
        own = [next(row for row in rows if (row["engine"], row["k"]) == (label, k)) for k in DEPTHS]
        first = [next(row for row in rows if row["k"] == k) for k in DEPTHS]
        speeds = [f"{row['qps']:,.0f} ({base['qps'] / row['qps']:.1f})" for row, base in zip(own, first, strict=True)]
        p50, cost = (" / ".join(f"{row[key]:.2f}" for row in own) for key in ("p50_ms", "ns_per_posting"))
        found = "exact" if all(row["exact"] for row in own) else " / ".join(f"{row['overlap']:.3f}" for row in own)
        index = [f"{own[0]['bytes_per_posting']:.2f}", f"{own[0]['build_s']:.1f}"]
        lines.append(f"| {' | '.join([label, *speeds, p50, cost, *index, found])} |")
    return "\n".join(lines)


def main() -> None:
    """Measure every engine and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=int, default=200_000)
    parser.add_argument("--vectors", help="folder of real vectors (default: synthetic)")
    parser.add_argument("--engines", default="impact,lucene,pisa,seismic", help=f"of {', '.join(SETTINGS)}")
    parser.add_argument("--queries", type=int, default=1000, help="the first queries (default: 1000)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--rounds", type=int, default=1, help="processes per setting; the best counts; 0 only builds (default: 1)"
    )
    parser.add_argument(
        "--warm-up", type=float, default=10, help="seconds of untimed searching, while Java compiles (default: 10)"
    )
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)), help="the processor to measure on")
    parser.add_argument("--folder", type=Path, help="folder in which indexes stay, and are found again (default: temporary)")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        work(json.loads(given.job))
        return
    names, facts = given.engines.split(","), [given.vectors, given.docs, given.queries]
    vectors = Vectors(*facts)
    queries = vectors.queries()
    documents, frequency = 0, np.zeros(queries.shape[1], np.int64)
    for shard in vectors.documents():
        documents += shard.shape[0]
        frequency += np.bincount(shard.indices, minlength=shard.shape[1])
    touched = float(frequency[queries.indices].sum() / queries.shape[0])
    truth = Truth(queries[:CHECKED], vectors)
    best: dict[tuple[str, int], dict[str, Any]] = {}  # by setting and depth
    with tempfile.TemporaryDirectory() as temporary:
        root = given.folder or Path(temporary)
        jobs, built = {}, {}
        for name in names:
            known = root / name / "built.json"
            jobs[name] = {"folder": str(root / name), "vectors": facts, "repeats": given.repeats, "warm_up": given.warm_up}
            if not known.exists():
                figures = in_own_process(jobs[name] | {"do": "build", "engine": SETTINGS[name][0]}, given.cpu)
                known.write_text(json.dumps(figures | {"bytes_per_posting": figures["index_bytes"] / int(frequency.sum())}))
            built[name] = json.loads(known.read_text())
        settings = [(engine, label) for engine in names for label in SETTINGS[engine]]
        for engine, label in settings * given.rounds:
            for row in in_own_process(jobs[engine] | {"do": "search", "engine": label}, given.cpu):
                truth.add(label, row["k"], root / engine / f"hits-{row['k']}.npz")
                if row["qps"] > best.get((label, row["k"]), {"qps": 0})["qps"]:
                    best[label, row["k"]] = row | built[engine] | {"ns_per_posting": 1e9 / row["qps"] / touched}
    if not best:
        return
    truth.compute()
    rows = [row | truth.verdict(row["engine"], row["k"]) for row in best.values()]
    load = os.getloadavg()[0]
    print(f"{documents:,} documents, {queries.shape[0]:,} queries of {touched:,.0f} postings, one thread; load {load:.1f}")
    print(table(rows))
    if given.json:
        report = {"machine": environment.facts() | {"load": load}, "documents": documents, "queries": queries.shape[0]}
        given.json.write_text(json.dumps(report | {"postings_per_query": touched, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
