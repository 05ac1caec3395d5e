"""Engines of late interaction beside the plain ways to write exact MaxSim, in one process on one thread.

    python benchmarks/late_interaction.py                        # 20,000 documents of 60 tokens, 128 dimensions
    python benchmarks/late_interaction.py --documents 5000 --topics 2000 --json FILE

Vectors have length 1 and are made up, by a fixed seed: each near one of --topics directions, as tokens of one meaning are, or
anywhere with --topics 0. Documents have 40 to 80 tokens, queries 32. numpy multiplies a query with all tokens and takes
`np.maximum.reduceat`; torch multiplies documents padded to one length, 1,000 at a time, as ColBERT's code scores candidates.
Times are CPU seconds, the least of several repeats. An engine that is not installed is left out.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ONE_THREAD = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
os.environ.update(ONE_THREAD)  # before numpy is imported

import numpy as np  # noqa: E402 - see above
import torch  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from lexbench.engines.maxsim import MaxSim  # noqa: E402
from lexbench.engines.plaid import Plaid  # noqa: E402
from lexbench.registry import load  # noqa: E402
from lexbench.types import MultiVectors  # noqa: E402

DIMENSIONS, QUERY_TOKENS, K = 128, 32, 10
REPEATS = 3
PADDED = 1000  # documents
Rank = Callable[[MultiVectors], NDArray[Any]]  # the best K documents of each query


def texts(lengths: NDArray[np.int64], topics: int, seed: int) -> MultiVectors:
    """Return texts of so many tokens each."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((lengths.sum(), DIMENSIONS), np.float32)
    if topics:
        directions = np.random.default_rng(0).standard_normal((topics, DIMENSIONS), np.float32)
        values = directions[rng.integers(0, topics, len(values))] + values / 2
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return MultiVectors(values, np.concatenate([[0], np.cumsum(lengths)]))


def by_numpy(documents: MultiVectors) -> Rank:
    """Return the plain way with numpy."""

    def rank(queries: MultiVectors) -> NDArray[Any]:
        found = []
        for query in queries.values.reshape(-1, QUERY_TOKENS, DIMENSIONS):
            scores = np.maximum.reduceat(query @ documents.values.T, documents.offsets[:-1], axis=1).sum(axis=0)
            best = np.argpartition(-scores, K)[:K]
            found.append(best[np.argsort(-scores[best])])
        return np.array(found)

    return rank


def by_torch(documents: MultiVectors) -> Rank:
    """Return the plain way with torch."""
    lengths = np.diff(documents.offsets)
    real = np.arange(lengths.max()) < lengths[:, None]
    filled = np.zeros((*real.shape, DIMENSIONS), np.float32)
    filled[real] = documents.values
    padded, padding = torch.from_numpy(filled).split(PADDED), torch.from_numpy(~real).split(PADDED)

    def rank(queries: MultiVectors) -> NDArray[Any]:
        found = []
        for query in torch.from_numpy(queries.values).view(-1, QUERY_TOKENS, DIMENSIONS):
            parts = [
                (some @ query.T).masked_fill(out.unsqueeze(2), -torch.inf) for some, out in zip(padded, padding, strict=True)
            ]
            found.append(torch.cat([part.amax(1).sum(1) for part in parts]).topk(K).indices.numpy())
        return np.array(found)

    return rank


def by_engine(engine: Any, documents: MultiVectors, path: Path) -> Rank:
    """Build the engine's index and return its way."""
    path.mkdir()
    engine.build(iter([documents]), path)
    index = engine.open(path)
    return lambda queries: np.asarray(index.search(queries, K).docs)


def least(work: Callable[[], Any]) -> float:
    """Return the CPU seconds of *work*, the least of several repeats after a warm-up."""
    work()
    seconds = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def measured(rank: Rank, queries: MultiVectors, exact: NDArray[Any]) -> dict[str, float]:
    """Return what a query costs alone and among all of *queries*, in ms, and the share of the exact best K that is found."""
    first = MultiVectors(queries.values[:QUERY_TOKENS], queries.offsets[:2])
    found = rank(queries)
    return {
        "alone_ms": 1e3 * least(lambda: rank(first)),
        "together_ms": 1e3 * least(lambda: rank(queries)) / len(exact),
        "recall": float(np.mean([len(set(ours) & set(best)) / K for ours, best in zip(found, exact, strict=True)])),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=32)
    parser.add_argument("--topics", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    lengths = np.random.default_rng(1).integers(40, 81, asked.documents)
    documents = texts(lengths, asked.topics, 2)
    queries = texts(np.full(asked.queries, QUERY_TOKENS), asked.topics, 3)
    exact = by_numpy(documents)(queries)
    results: dict[str, dict[str, float]] = {}
    with TemporaryDirectory() as folder:
        for name, plain in (("numpy", by_numpy), ("torch", by_torch)):
            results[name] = measured(plain(documents), queries, exact)
        engines: dict[str, Callable[[], Any]] = {"maxsim": MaxSim, "maxsim float16": lambda: MaxSim("float16")}
        try:
            load("engines", "plaid")
            engines |= {f"plaid {n} bits": lambda n=n: Plaid(nbits=n) for n in (1, 2, 4)}
        except Exception as missing:  # noqa: BLE001 - printed
            print(missing)
        for at, (name, make) in enumerate(engines.items()):
            path = Path(folder, str(at))
            results[name] = measured(by_engine(make(), documents, path), queries, exact)
            size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
            results[name]["bytes_a_token"] = size / len(documents.values)
    print(f"{asked.documents:,} documents, {len(documents.values):,} tokens, {asked.topics:,} topics")
    for name, one in results.items():
        print(f"{name:16}" + "".join(f"{key} {value:8.3g}   " for key, value in one.items()))
    if asked.json:
        asked.json.write_text(json.dumps(vars(asked) | {"json": None, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
