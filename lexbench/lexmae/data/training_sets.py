"""Training sets: a corpus on disk, queries in memory, their relevant documents, and searches for these queries."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lexbench.contracts import Contract, SourceFacts, TextPolicy
from lexbench.datasets.corpus import StoredCorpus
from lexbench.datasets.dataset import Dataset, Topics, open_dataset
from lexbench.datasets.sources.files import Files
from lexbench.errors import CannotStart
from lexbench.lexmae.data import collections
from lexbench.progress import Progress
from lexbench.runner.search import DatasetRunner, read_run
from lexbench.runner.systems import System
from lexbench.storage.store import Store
from lexbench.trec.ids import lookup
from lexbench.trec.runs import Run
from lexbench.types import Query


@dataclass(frozen=True, eq=False)
class Lists:
    """A list of documents for each query of a training set."""

    offsets: NDArray[np.int64]  # (queries + 1,) list i is docs[offsets[i]:offsets[i + 1]]
    docs: NDArray[np.int32]  # (entries,) corpus positions
    scores: NDArray[np.float32] | None = None  # (entries,) of a system, if known

    def __len__(self) -> int:
        """Return the number of queries."""
        return len(self.offsets) - 1

    def __getitem__(self, query: int) -> NDArray[np.int32]:
        """Return the corpus positions of one query (documents,)."""
        return self.docs[self.offsets[query] : self.offsets[query + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of documents of each query (queries,)."""
        return np.diff(self.offsets)


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Queries with at least one relevant document in the corpus. The corpus is read from disk by position."""

    dataset: Dataset
    corpus: StoredCorpus
    queries: tuple[Query, ...]  # by ascending bytes of the id
    positives: Lists  # documents with a relevant grade
    part: str = ""  # a digest of the queries' ids if some queries with relevant documents are left out, else ""

    @property
    def contract(self) -> Contract:
        """The facts of the dataset."""
        return self.dataset.contract

    def sample(self, most: int, seed: int) -> "TrainingSet":
        """Return the set with at most *most* of its queries (0: all), the same ones for the same seed."""
        if not 0 < most < len(self.queries):
            return self
        chosen = np.sort(np.random.default_rng((seed, len(self.queries))).permutation(len(self.queries))[:most])
        lengths = self.positives.lengths[chosen]
        docs = np.concatenate([self.positives[index] for index in chosen.tolist()])
        queries = tuple(self.queries[index] for index in chosen.tolist())
        positives = Lists(np.concatenate(([0], np.cumsum(lengths))), docs)
        return replace(self, queries=queries, positives=positives, part=_digest(queries))


def open_training_set(name: str, store: Store, progress: Progress) -> TrainingSet:
    """Return the training set of a dataset (its id, the path of a BEIR folder, or of a qrels file in one).

    A folder is opened at `train`, or at its only qrels if they are not `test`. Left out are judged documents that the corpus
    lacks, queries without a relevant document, and queries that are nearly the same as a test query.

    Raises UnknownName, MissingData, InvalidFile or ContractMismatch, and CannotStart if no query is left.
    """
    dataset = open_dataset(*collections.find_dataset(name))
    corpus = DatasetRunner(dataset, store, progress).corpus
    qrels = dataset.qrels  # its queries are those of the dataset, in the same order
    docs = lookup(corpus.doc_ids, qrels.doc_ids)
    relevant = (qrels.grades >= dataset.contract.relevance.default) & (docs >= 0)
    if not relevant.any():
        raise CannotStart(
            f"no query of {name} has a relevant document in its corpus; check that qrels and corpus belong together"
        )
    near = [collections.tested_queries().has_similar(query.text) for query in dataset.queries]
    if any(near):
        progress.note(f"{name}: {sum(near):,} of {len(near):,} queries are left out: nearly the same as test queries")
        relevant &= ~np.repeat(near, np.diff(qrels.offsets))
    counts = np.add.reduceat(relevant, qrels.offsets[:-1], dtype=np.int64)  # every query of qrels has a judgement
    if not counts.any():
        raise CannotStart(f"every query of {name} is nearly the same as a test query; give other queries")
    queries = tuple(query for query, count in zip(dataset.queries, counts.tolist(), strict=True) if count)
    offsets = np.concatenate(([0], np.cumsum(counts[counts > 0])))
    part = _digest(queries) if any(near) else ""
    return TrainingSet(dataset, corpus, queries, Lists(offsets, docs[relevant].astype(np.int32)), part)


def _digest(queries: Sequence[Query]) -> str:
    return hashlib.sha256("\n".join(query.query_id for query in queries).encode()).hexdigest()[:16]


def open_corpus(name: str, store: Store, progress: Progress) -> StoredCorpus:
    """Return the corpus of a dataset (its id) or of a BEIR folder (its path), which need not have queries.

    Raises UnknownName, MissingData, InvalidFile or ContractMismatch.
    """
    dataset = _without_queries(Path(name)) if Path(name).exists() else open_dataset(*collections.find_dataset(name))
    return DatasetRunner(dataset, store, progress).corpus


def search(
    training_set: TrainingSet, queries: Sequence[Query], system: System, depth: int, store: Store, progress: Progress
) -> Run:
    """Return the *depth* best documents of each of *queries*, which belong to the training set, as a run in the store.

    `Run.docs` are corpus positions. An interrupted search resumes.
    """
    whole = training_set.dataset
    # All judgements stay, because the contract states how many of them name documents that the corpus lacks.
    topics = Topics(tuple(queries), whole.topics.judgements, whole.topics.unjudged)
    runner = DatasetRunner(Dataset(whole.contract, whole.source, topics), store, progress)
    return read_run(runner.run(system, depth).folder).run


def _without_queries(path: Path) -> Dataset:
    """Return the dataset of a BEIR folder without queries; only its corpus can be read."""
    corpus = collections.corpus_file(path)
    name, facts, text = corpus.parent.name, SourceFacts(loader="files"), TextPolicy(document="title_text")
    contract = Contract(schema=1, id=name, version=0, name=name, description="", corpus=name, source=facts, text=text)
    return Dataset(contract, Files(contract, (corpus,), (), ()), Topics((), (), 0))
