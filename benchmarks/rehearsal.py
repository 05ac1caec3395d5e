"""Every stage at the size of a large collection, each in its own process: wall and processor seconds, peak memory, bytes.

    python benchmarks/rehearsal.py STORE --documents 8841823 --json FILE

Documents are a number and 55 words, about as many bytes as a passage of MS MARCO. Their vectors are those of _synthetic.py for
that number, so that encoding takes lexbench's own time and no model's. Queries are SPLADE-v3's for MS MARCO dev/small if they
are found. STORE is a folder that does not exist yet.
"""

import argparse
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import _child
import _synthetic
import numpy as np
from scipy import sparse

from lexbench.artifacts.describe import describe
from lexbench.artifacts.graph import Graph
from lexbench.artifacts.vectors import CorpusVectors
from lexbench.contracts import Contract, SourceFacts, TextPolicy
from lexbench.datasets.dataset import Dataset, Topics
from lexbench.encodings.shards import SHARD, Encodings
from lexbench.engines.impact import Impact
from lexbench.measures import score as score_run
from lexbench.plugins import Encoder, Source
from lexbench.retrievers.encoded import Encoded, VectorIndex
from lexbench.runner.search import Data, SystemRun, data_of
from lexbench.runner.systems import System
from lexbench.storage.store import Store
from lexbench.types import Document, Judgement, Kind, Query

STAGES = ("corpus", "encode", "check", "check again", "index", "open and search", "score", "read vectors")
MEASURES = ("nDCG@10", "RR@10", "AP", "R@1000")
WORDS = [f"w{number}" for number in np.random.default_rng(1).integers(0, 100_000, 5000)]


@dataclass(frozen=True)
class MadeUp(Source):
    """A source of *count* made-up documents."""

    count: int

    def documents(self) -> Iterator[Document]:
        """Yield the documents."""
        for number in range(self.count):
            start = number * 7919 % (len(WORDS) - 55)
            yield Document(f"{number:09d}", f"{number} {' '.join(WORDS[start : start + 55])}")

    def queries(self) -> Iterator[Query]:
        """Yield nothing: the dataset has the queries."""
        yield from ()

    def judgements(self) -> Iterator[Judgement]:
        """Yield nothing."""
        yield from ()

    def identity(self) -> dict[str, Any]:
        """Return the key facts of the documents."""
        return {"made up": self.count}

    def notes(self) -> list[str]:
        """Return nothing."""
        return []


@dataclass(frozen=True)
class Numbered(Encoder):
    """An encoder that returns the synthetic vector of the number at the start of a text."""

    kind: ClassVar[Kind] = Kind.SPARSE

    def encode_document(self, texts: Sequence[str]) -> sparse.csr_array:
        """Return the vectors of consecutive numbers, ascending or descending."""
        numbers = np.array([int(text.partition(" ")[0]) for text in texts])
        first, last = int(numbers.min()), int(numbers.max())
        rows = next(_synthetic.documents(last - first + 1, shard=last - first + 1, first=first))
        return rows[numbers - first]

    def encode_query(self, texts: Sequence[str]) -> sparse.csr_array:
        """Return the vectors of queries."""
        return _queries()[[int(text) for text in texts]]


@cache
def _queries() -> sparse.csr_array:
    return _synthetic.queries(most=1000)


def data_with(count: int) -> Data:
    """Return a dataset with a corpus of *count* documents."""
    facts, text = SourceFacts(loader="files"), TextPolicy(document="text")
    contract = Contract(
        schema=1, id="rehearsal", version=1, name="rehearsal", description="", corpus="rehearsal", source=facts, text=text
    )
    queries = tuple(Query(f"{number:06d}", str(number)) for number in range(_queries().shape[0]))
    judged = tuple(Judgement(query.query_id, f"{number * 97 % count:09d}", 1) for number, query in enumerate(queries))
    return data_of(Dataset(contract, MadeUp(count), Topics(queries, judged, 0)))


def stage(name: str, store: Path, count: int) -> dict[str, Any]:
    """Do one stage after the earlier ones; return its times and the bytes written."""
    data, graph = data_with(count), Graph(Store(store))
    retriever = Encoded(Numbered(), Impact())
    system = System("numbered@impact", retriever, describe(retriever))
    next(_synthetic.documents(1))  # compiles
    if name != "corpus":
        graph.open(data.corpus)  # before the clock starts
    folder = next((store / "encodings").glob("*-*"), None) if (store / "encodings").exists() else None
    begin, used = time.perf_counter(), time.process_time()
    if name == "corpus":
        wrote = graph.stored(data.corpus).bytes
    elif name == "encode":
        wrote = graph.stored(CorpusVectors(data.corpus, Numbered())).bytes
    elif name.startswith("check"):
        assert folder
        if name == "check":
            shutil.rmtree(store / "checked")  # as in a store that was copied here
        assert next(Store(store).damage(folder), None) is None
        wrote = 0
    elif name == "index":
        wrote = graph.stored(VectorIndex(data.corpus, retriever)).bytes
    elif name == "read vectors":
        assert folder
        assert sum(shard.shape[0] for shard in Encodings(folder).shards()) == count
        wrote = 0
    elif name == "score":
        run = graph.open(SystemRun(data, system, 1000)).run
        assert set(score_run(run, data.dataset.qrels, MEASURES).means) == set(MEASURES)
        wrote = 0
    else:
        wrote = graph.stored(SystemRun(data, system, 1000)).bytes
    seconds = {"wall": time.perf_counter() - begin, "processor": time.process_time() - used}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"stage": name, **{key: round(value, 1) for key, value in seconds.items()}, "peak MiB": round(peak), "bytes": wrote}


def main() -> None:
    """Run every stage in its own process and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--documents", type=int, default=8_841_823)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage:
        print(json.dumps(stage(options.stage, options.store, options.documents)))
        return
    rows = []
    print(f"{options.documents:,} documents, shards of {SHARD:,}")
    for name in STAGES:
        command = [sys.executable, __file__, str(options.store), "--documents", str(options.documents), "--stage", name]
        rows.append(json.loads(_child.run(command, env={**os.environ, "LEXBENCH_ON": ""})))
        print(rows[-1], flush=True)
    if options.json:
        options.json.write_text(json.dumps({"documents": options.documents, "stages": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
