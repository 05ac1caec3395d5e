"""What a query costs with a model and with a table: SPLADE-tiny's own queries, and the same documents searched without a model.

    python benchmarks/inference_free.py beir/scifact/test --model build/splade-tiny --table idf.json

The table is that of `tools/idf_table.py`; SPLADE-tiny was not trained for it. Both search one index of the same vectors.
Queries go one at a time on one thread, the two systems by turns; printed are the best and the median pass, by the clock and by
processor time, which a busy machine disturbs less.
"""

import argparse
import time
from statistics import median
from typing import Any

import torch

from lexbench import measures
from lexbench.contracts import contract_of
from lexbench.datasets.dataset import open_dataset
from lexbench.progress import Silent
from lexbench.runner.search import DatasetRunner
from lexbench.runner.systems import system
from lexbench.storage.store import Store
from lexbench.trec.runs import Run

PASSES, QUERIES, DEPTH = 5, 150, 1000
LENGTHS = "query_length=256, document_length=256"


def main() -> None:
    """Print scores and rates of both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--model", required=True)
    parser.add_argument("--table", required=True)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    runner = DatasetRunner(open_dataset(contract_of(chosen.dataset)), Store(), Silent())
    full: Any = system(f'splade(model="{chosen.model}", {LENGTHS})@impact').retriever
    free: Any = system(f'inference_free(model="{chosen.model}", query_weights="{chosen.table}", {LENGTHS})@impact').retriever
    index = runner.artifacts.index(full)
    searchers = {"full model": full.open(index), "table": free.open(index)}
    texts = [query.text for query in runner.dataset.queries]
    for name, searcher in searchers.items():
        hits = searcher.search(searcher.encode(texts), DEPTH)
        run = Run.from_hits([query.query_id for query in runner.dataset.queries], hits, runner.corpus.doc_ids)
        means = measures.score(run, runner.dataset.qrels, ["nDCG@10", "R@100"]).means
        print(name, *(f"{measure} {mean:.4f}" for measure, mean in means.items()))
    passes: dict[str, list[tuple[float, float]]] = {name: [] for name in searchers}
    for _ in range(PASSES):
        for name, searcher in searchers.items():
            passes[name].append(timed(searcher, texts[:QUERIES]))
    for name, spent in passes.items():
        for what, seconds in zip(("clock", "processor"), zip(*spent, strict=True), strict=True):
            rates = [min(QUERIES, len(texts)) / second for second in seconds]
            print(f"{name}, {what}: best {max(rates):,.0f}, median {median(rates):,.0f} queries a second")


def timed(searcher: Any, texts: list[str]) -> tuple[float, float]:
    """Return the seconds that encoding and searching *texts*, one at a time, takes by the clock and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    for text in texts:
        searcher.search(searcher.encode([text]), DEPTH)
    return time.perf_counter() - clock, time.process_time() - processor


if __name__ == "__main__":
    main()
