"""Open a dataset and search it without a command, and make engines and encoders of the words w0, w1, ..., for tests."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar, NamedTuple

import numpy as np
import pytest
import tiny
from scipy import sparse

from lexbench import registry
from lexbench.artifacts.graph import Graph
from lexbench.artifacts.searches import Scorer, Search
from lexbench.artifacts.vectors import CorpusVectors
from lexbench.datasets.dataset import open_dataset
from lexbench.display.progress import Progress
from lexbench.errors import MissingExtra
from lexbench.notation import Call, parse
from lexbench.plugins import Encoder
from lexbench.retrievers.encoded import Encoded
from lexbench.runner import jobs, plan
from lexbench.runner.search import Data, SystemRun, data_of
from lexbench.runner.systems import resolve
from lexbench.storage.store import Store
from lexbench.types import Kind

needs_ray = pytest.mark.skipif(not find_spec("ray"), reason="ray is not installed; pip install 'lexbench[ray]'")
RAY = pytest.param("ray", marks=[needs_ray, pytest.mark.slow])  # `make test-cluster` tests it
needs_lucene = pytest.mark.skipif(not find_spec("pyserini"), reason="pyserini is not installed; pip install 'lexbench[lucene]'")
needs_pyarrow = pytest.mark.skipif(not find_spec("pyarrow"), reason="pyarrow is not installed; pip install 'lexbench[parquet]'")
BM25 = "bm25(ties='trec_eval')"  # which leaves equal scores as they are


@dataclass(frozen=True)
class Bag(Encoder):
    """A sparse encoder: one term per word, with a made-up weight; texts without words have no term."""

    words: int = 60
    storage: str = "float32"
    kind: ClassVar[Kind] = Kind.SPARSE

    def encode_document(self, texts: Sequence[str]) -> sparse.csr_array:
        """Return weights (texts, words), in quarters and thirty-seconds."""
        rows = np.zeros((len(texts), self.words), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.split():
                row[int(word[1:])] += np.float32(0.25 + int(word[1:]) * 37 % 100 / 32)
        return sparse.csr_array(rows)

    encode_query = encode_document


@dataclass(frozen=True)
class Folded(Bag):
    """A dense encoder: the weights of `Bag`, projected to 8 dimensions, so that some scores are below 0."""

    kind: ClassVar[Kind] = Kind.DENSE

    def encode_document(self, texts: Sequence[str]) -> np.ndarray:
        """Return vectors (texts, 8)."""
        folding = np.random.default_rng(0).normal(size=(self.words, 8)).astype(np.float32)
        return np.asarray(Bag.encode_document(self, texts) @ folding)

    encode_query = encode_document


def encoded(encoder, rest):
    """Return encoder|transforms@engine for an encoder object and the *rest* of the expression."""
    part = parse(f"x{rest}")
    made = [registry.create("transforms", call) for call in part.transforms]
    return Encoded(encoder, registry.create("engines", part.engine), tuple(made))


def opened(folder, store, executor=None):
    """Open the dataset in *folder* with *store*; *executor* encodes and reranks."""
    store.prepare()
    job = plan.plan_dataset(str(folder), ["bm25"], ["nDCG@10"], 1000).jobs[0]
    return Bench(Graph(store, Progress(), executor), data_of(open_dataset(job.contract, job.source)))


class Bench(NamedTuple):
    """A dataset, and the graph of its artifacts."""

    graph: Graph
    data: Data

    @property
    def dataset(self):
        """The dataset."""
        return self.data.dataset

    @property
    def corpus(self):
        """The opened corpus."""
        return self.graph.open(self.data.corpus)

    def searcher(self, retriever):
        """Return the opened retriever; whatever is missing is made."""
        return self.graph.open(Search(self.data.corpus, retriever))

    def scorer(self, retriever):
        """Return the opened scorer of given documents."""
        return self.graph.open(Scorer(self.data.corpus, retriever))

    def read_by(self, retriever):
        """Return the artifacts that searching reads, by kind and key."""
        return self.graph.place(Search(self.data.corpus, retriever)).artifacts()

    def index(self, retriever):
        """Return the folder of the retriever's own index."""
        return self.graph.open(Search(self.data.corpus, retriever).parts()["index"])

    def vectors(self, encoder):
        """Return the stored vectors of the corpus."""
        return self.graph.open(CorpusVectors(self.data.corpus, encoder))

    def run(self, system, depth):
        """Return the folder of the run of a system."""
        return self.graph.stored(SystemRun(self.data, system, depth)).folder


def searched(bench, retriever, k=1000):
    """Return the hits of a retriever, or of its expression: {position: score} for each query, best first."""
    retriever = resolve(parse(retriever)) if isinstance(retriever, str) else retriever
    searcher = bench.searcher(retriever)
    hits = searcher.search(searcher.encode_queries(bench.dataset.queries), k)
    rows = zip(hits.docs, hits.scores, strict=True)
    return [dict(zip(docs[docs >= 0].tolist(), scores[docs >= 0].tolist(), strict=True)) for docs, scores in rows]


def results(folder, store, systems, measures=("nDCG@10",), depth=1000):
    """Run *systems* on the dataset in *folder*; return their results. No system may fail."""
    outcomes = list(jobs.run(plan.plan_dataset(str(folder), systems, measures, depth), store))
    assert [outcome.error for outcome in outcomes] == [None] * len(outcomes)
    return [outcome.result for outcome in outcomes]


def bytes_needed(planned, store):
    """Return the estimate of what a plan writes into the folder *store*."""
    return sum(step.bytes for step in planned.steps(Store(store), {}))


def built(engine, path, *shards):
    """Build an index of *shards* of vectors in the folder *path* and open it."""
    path.mkdir(exist_ok=True)
    engine.build(iter(shards), path)
    return engine.open(path)


def indexed(path, retriever, texts, index="index"):
    """Index *texts* by id in the new folder *index* of *path*; return the opened index and the corpus."""
    corpus = tiny.corpus(path / f"corpus-{index}", texts)
    (path / index).mkdir()
    retriever.build(corpus, path / index)
    return retriever.open(path / index), corpus


def engine(name, **settings):
    """Make an engine; skip the test if its extra is not installed."""
    return available(lambda: registry.create("engines", Call(name, kwargs=tuple(settings.items()))))


def available(make):
    """Return make(); skip the test if an extra that it needs is not installed."""
    try:
        return make()
    except MissingExtra as missing:
        pytest.skip(str(missing))
