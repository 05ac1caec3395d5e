"""Time the scoring of one run of MS MARCO's size by lexbench, pytrec_eval and ir_measures, on the same data.

    python benchmarks/scoring.py [--queries 6980] [--depth 1000] [--qrels FILE] [--repeats 3] [--json FILE]
    python benchmarks/scoring.py --clock processor --tools lexbench,pytrec_eval     # on a machine with other work

Each tool starts from its own kind of input, once in memory (lexbench: arrays; the others: dictionaries) and once from a TREC
run file, read by the tool's own reader. Every measurement has its own process, so that peak memory is separate; the best of the
repeats counts. The qrels are MS MARCO dev/small's if they are found (LEXBENCH_SHARED, or ../shared beside the repository),
otherwise as many judgements of the same shape.
"""

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import _child
import numpy as np

from lexbench.measures import score
from lexbench.trec.ids import encode
from lexbench.trec.qrels import Qrels, read_qrels, write_qrels
from lexbench.trec.runs import Run, read_run, write_run
from lexbench.types import Hits, Judgement

PASSAGES = 8_841_823
MEASURES = ("nDCG@10", "RR@10", "R@1000", "Success@1000", "AP@1000")
# pytrec_eval has no cutoff for the reciprocal rank. It computes the one without a cutoff, which is not compared.
PYTREC_EVAL = ("ndcg_cut_10", "recip_rank", "recall_1000", "success_1000", "map_cut_1000")
TOOLS = ("lexbench", "pytrec_eval", "ir_measures")
STARTS = ("memory", "file")
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "processor": time.process_time}


class Job(NamedTuple):
    """The work of one process: *prepare* is not timed; *work* takes its value and returns the means."""

    prepare: Callable[[], Any]
    work: Callable[[Any], list[float]]


def make_data(folder: Path, queries: int, depth: int, qrels: Path | None) -> None:
    """Write a run of random passages, with relevant ones at the ranks of a good system, and its qrels."""
    rng = np.random.default_rng(0)
    judged = read_qrels(qrels) if qrels else None
    rows = (
        list(judged.judgements())
        if judged
        else [Judgement(str(q), str(p), 1) for q, p in enumerate(rng.choice(PASSAGES, queries))]
    )
    ids = list(dict.fromkeys(row.query_id for row in rows))[:queries]
    passages = np.stack([rng.choice(PASSAGES, depth, replace=False) for _ in ids]).astype(np.int32)
    place = {one: index for index, one in enumerate(ids)}
    for query_id, doc_id, _ in rows:
        if query_id in place and rng.random() < 0.97:
            row, wanted = passages[place[query_id]], int(doc_id)
            if wanted not in row:
                row[min(int(rng.exponential(15)), depth - 1)] = wanted
    found, at = np.unique(passages, return_inverse=True)
    names = encode(map(str, found.tolist()))
    order = np.argsort(names)[::-1]
    docs = np.argsort(order).astype(np.int32)[at].reshape(passages.shape)  # positions in the table, whose ids descend
    scores = -np.sort(-rng.gamma(3, 5, docs.shape).astype(np.float32), axis=1)
    write_run(Run.from_hits(ids, Hits(docs, scores), names[order]), folder / "run.trec")
    write_qrels(Qrels.from_judgements(row for row in rows if row.query_id in place), folder / "qrels.txt")


def job(tool: str, start: str, folder: Path) -> Job:
    """Return the job of *tool* when it starts from *start*."""
    run, qrels = folder / "run.trec", folder / "qrels.txt"
    if tool == "lexbench":

        def read() -> tuple[Run, Qrels]:
            return read_run(run), read_qrels(qrels)

        def ours(data: tuple[Run, Qrels]) -> list[float]:
            return list(score(*data, MEASURES).means.values())

        return Job(read, ours) if start == "memory" else Job(lambda: None, lambda _: ours(read()))
    import pytrec_eval

    if tool == "pytrec_eval":

        def parse() -> tuple[Any, Any]:
            with run.open() as run_file, qrels.open() as qrels_file:
                return pytrec_eval.parse_run(run_file), pytrec_eval.parse_qrel(qrels_file)

        def evaluate(data: tuple[Any, Any]) -> list[float]:
            values = pytrec_eval.RelevanceEvaluator(data[1], set(PYTREC_EVAL)).evaluate(data[0]).values()
            return [sum(value[name] for value in values) / len(data[1]) for name in PYTREC_EVAL]

        return Job(parse, evaluate) if start == "memory" else Job(lambda: None, lambda _: evaluate(parse()))
    import ir_measures

    wanted = [ir_measures.parse_measure(measure) for measure in MEASURES]

    def calc(data: tuple[Any, Any]) -> list[float]:
        found = ir_measures.calc_aggregate(wanted, data[1], data[0])
        return [found[measure] for measure in wanted]

    if start == "memory":

        def dicts() -> tuple[Any, Any]:
            with run.open() as run_file, qrels.open() as qrels_file:
                return pytrec_eval.parse_run(run_file), pytrec_eval.parse_qrel(qrels_file)

        return Job(dicts, calc)
    untyped: Any = ir_measures
    return Job(lambda: None, lambda _: calc((untyped.read_trec_run(str(run)), untyped.read_trec_qrels(str(qrels)))))


def measure(tool: str, start: str, folder: Path, repeats: int, clock: Callable[[], float]) -> dict[str, Any]:
    """Do the job *repeats* times in this process."""
    prepare, work = job(tool, start, folder)
    data, seconds, means = prepare(), [], []
    for _ in range(repeats):
        began = clock()
        means = work(data)
        seconds.append(clock() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"tool": tool, "from": start, "seconds": seconds, "peak_mib": round(peak), "means": means}


def main() -> None:
    """Make the data, and print one line per measurement, each from its own process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=6980)
    parser.add_argument("--depth", type=int, default=1000)
    parser.add_argument("--qrels", type=Path, help="a TREC qrels file; default: MS MARCO dev/small, if found")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="the clock of the seconds (default: wall)")
    parser.add_argument("--tools", default=",".join(TOOLS), help="some of them, lexbench first (default: all)")
    parser.add_argument("--starts", default=",".join(STARTS), help="default: both")
    parser.add_argument("--json", type=Path, help="write all measurements to this file")
    parser.add_argument("--only", nargs=3, metavar=("TOOL", "START", "FOLDER"), help=argparse.SUPPRESS)
    parser.add_argument("--make", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only:
        tool, start, folder = given.only
        print(json.dumps(measure(tool, start, Path(folder), given.repeats, CLOCKS[given.clock])))
        return
    if given.make:
        make_data(given.make, given.queries, given.depth, given.qrels)
        return
    shared = Path(os.environ.get("LEXBENCH_SHARED") or Path(__file__).parents[2] / "shared")
    official = shared / "data" / "msmarco" / "qrels.msmarco-passage.dev-subset.txt.gz"
    qrels = given.qrels or (official if official.is_file() else None)
    with tempfile.TemporaryDirectory() as folder:
        # Also in a separate process, because Linux starts the peak memory of a child at that of its parent.
        make = [sys.executable, __file__, "--make", folder, "--queries", str(given.queries), "--depth", str(given.depth)]
        _child.run(make + (["--qrels", str(qrels)] if qrels else []))
        found: list[dict[str, Any]] = []
        for start in given.starts.split(","):
            for tool in given.tools.split(","):
                options = ["--repeats", str(given.repeats), "--clock", given.clock]
                command = [sys.executable, __file__, "--only", tool, start, folder, *options]
                found.append(json.loads(_child.run(command)))
                report(found)
    if given.json:
        facts = {"queries": given.queries, "depth": given.depth, "clock": given.clock}
        given.json.write_text(json.dumps(facts | {"measured": found}, indent=1) + "\n")


def report(found: list[dict[str, Any]]) -> None:
    """Print the last measurement next to lexbench's from the same start; stop if the means differ."""
    last = found[-1]
    ours = next(one for one in found if one["from"] == last["from"])
    compared = [i for i in range(len(MEASURES)) if last["tool"] != "pytrec_eval" or PYTREC_EVAL[i] != "recip_rank"]
    if not np.allclose([last["means"][i] for i in compared], [ours["means"][i] for i in compared], rtol=0, atol=1e-9):
        sys.exit(f"{last['tool']} has other means: {last['means']}, ours {ours['means']}")
    best, ratio = min(last["seconds"]), min(last["seconds"]) / min(ours["seconds"])
    print(f"from {last['from']:6}  {last['tool']:11}  {best:8.3f} s  {ratio:7.1f} x  peak {last['peak_mib']:6} MiB", flush=True)


if __name__ == "__main__":
    main()
