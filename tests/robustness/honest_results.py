"""Make random honest suites and read their results: `python tests/robustness/honest_results.py 30`.

Each suite has its own collection, systems, measures, depth and timings. The check of results must accept all of them.
`tests/test_falsified.py` runs a few.
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

import numpy as np
from workbench import Bag, Folded

import lexbench
from lexbench.runner.soundness import read_folder

MEASURES = (
    "nDCG@10", "nDCG@5", "nDCG", "nDCG@100", "RR@10", "RR", "RR(rel=2)@10", "R@5", "R@20", "R@100", "R(rel=2)@50", "RCap@10",
    "RCap@100", "P@5", "P@10", "P(rel=2)@10", "Success@1", "Success@10", "Success(rel=3)@10", "AP", "AP@100", "AP(rel=2)@50",
    "Judged@10", "Judged", "AllRelevant@20", "RBP(p=0.8)@10", "ERR@10", "nDCG(ties='expected')@10",
)  # fmt: skip
CONTINUOUS = ("nDCG@10", "nDCG@100", "RR(rel=0.5)@10", "R(rel=0.5)@50", "P(rel=0.7)@5", "AP(rel=0.5)", "Judged@10")
SYSTEMS: tuple[Any, ...] = (
    "bm25", "bm25(k1=1.2, b=0.75)", "bm25(ties='trec_eval')", "ensemble(bm25, bm25(k1=3.0))",
    "ensemble(bm25, bm25(k1=3.0), scores='rrf')", "ensemble(bm25, bm25(b=0.0), weights=[1, 0.3])",
    "pipeline(bm25, bm25(k1=3.0), k=5)", "mine = bm25(b=0.1)", "lexmae_nano@impact", "lexmae_nano|top_k(4)@impact",
    "lexmae_nano|top_k(8)@csr", "lexmae_nano|prune_query(4)@impact", "passages(bm25, words=8, stride=4)",
    'ensemble(bm25, lexmae_nano@impact, weights="oracle")',
)  # fmt: skip


def collection(chance: random.Random, *, continuous: bool) -> dict[str, Any]:
    """Return a random collection. Some queries find nothing, some have no relevant document, and some ids have spaces."""
    words = [f"w{number}" for number in range(59)]
    names = [f"d {number}" if number % 17 == 0 else f"d{number}" for number in range(chance.randint(5, 120))]
    corpus = {name: " ".join(chance.choices(words, k=chance.randint(0, 20))) for name in names}
    queries = {f"q{number}": " ".join(chance.choices(words, k=chance.randint(1, 5))) for number in range(chance.randint(2, 40))}
    queries["q0"] = "w59"  # no document has it
    grades: list[float] = [0.0, 0.25, 0.5, 0.75, 1.0] if continuous else [-1, 0, 0, 1, 1, 2, 3]
    qrels = {query: {name: chance.choice(grades) for name in chance.sample(names, chance.randint(1, 5))} for query in queries}
    return {"corpus": corpus, "queries": queries, "qrels": qrels}


def suite(number: int, folder: Path, *, timed: bool, light: bool = False) -> int:
    """Make the results of the random suite *number* in *folder* and read them; return how many there are.

    *light* ones have no model.
    """
    chance = random.Random(number)
    continuous = number % 6 == 5
    data = collection(chance, continuous=continuous)
    measures = chance.sample(CONTINUOUS if continuous else MEASURES, chance.randint(1, 7))
    known = [text for text in SYSTEMS if not (light and "lexmae" in text)]
    named = {str(text): text for text in chance.sample(known, 3)}
    if chance.random() < 0.5:
        named |= {"bag": Bag(), "folded": Folded(), "a function": lambda texts: np.array([[len(text), 1.0] for text in texts])}
    settings = lexbench.TimingSettings(seconds=0.2, processes=chance.choice([1, 2]), offline=chance.random() < 0.5)
    systems = [text for text in named.values() if isinstance(text, str)]
    objects = {name: one for name, one in named.items() if not isinstance(one, str)}
    depth = chance.choice([100, 1000])
    made = 0
    for chosen in filter(None, (systems, objects)):
        results = lexbench.run(
            data, chosen, measures=measures, depth=depth, results=folder / "board", store=folder / "store",
            time=settings if timed else False,
        )  # fmt: skip
        made += len(results)
        assert not results.failures, results.failures
    assert len(read_folder(folder / "board")) == made
    return made


def suites(count: int, first: int = 0) -> Iterator[tuple[int, int]]:
    """Yield the number of each suite and of its results. Every fourth is timed."""
    for number in range(first, first + count):
        with tempfile.TemporaryDirectory() as folder:
            yield number, suite(number, Path(folder), timed=number % 4 == 3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", type=int, help="how many to make")
    total = 0
    for number, results in suites(parser.parse_args().suites):
        total += results
        print(f"suite {number}: {results} results are accepted", flush=True)
    print(f"{total} honest results, no false alarm")
