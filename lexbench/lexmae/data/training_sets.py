"""Training sets: a corpus on disk, queries in memory, their relevant documents, and searches for these queries."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.artifacts.corpora import DatasetCorpus
from lexbench.artifacts.graph import Graph
from lexbench.contracts import Contract
from lexbench.datasets import digests
from lexbench.datasets.corpus import StoredCorpus
from lexbench.datasets.dataset import Dataset, Topics, open_dataset
from lexbench.display.progress import Progress
from lexbench.errors import CannotStart
from lexbench.lexmae.data import collections
from lexbench.lexmae.data.tokens import TextReader, TokenisedCorpus
from lexbench.runner.search import SystemRun, data_of
from lexbench.runner.systems import System
from lexbench.storage.artifact_folder import KeyFacts
from lexbench.storage.drafting import Draft
from lexbench.storage.node import Node, Parts, Stored
from lexbench.trec.ids import encode, lookup
from lexbench.trec.runs import Run
from lexbench.types import Query

_NEAR = "near.npy"


@dataclass(frozen=True, eq=False)
class DocumentLists:
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
    positives: DocumentLists  # documents with a relevant grade
    part: str = ""  # a digest of the queries' ids if some queries with relevant documents are left out, else ""
    left_out: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # (n,) documents that are not trained on

    @property
    def contract(self) -> Contract:
        """The facts of the dataset."""
        return self.dataset.contract


def open_training_set(name: str, graph: Graph, leave_out: Sequence[str] = ()) -> TrainingSet:
    """Return the training set of a dataset (its id, the path of a BEIR folder, or of a qrels file in one).

    A folder is opened at `train`, or at its only qrels if they are not `test`. Left out are judged documents that the corpus
    lacks, queries without a relevant document, queries that are nearly the same as a test query, and documents that are judged
    in the datasets *leave_out*.

    Raises UnknownName, MissingData, InvalidFile or ContractMismatch, and CannotStart if no query is left.
    """
    dataset = open_dataset(*collections.find_dataset(name))
    corpus = graph.open(DatasetCorpus(dataset))
    qrels = dataset.qrels  # its queries are those of the dataset, in the same order
    docs = lookup(corpus.doc_ids, qrels.doc_ids)
    relevant = (qrels.grades >= dataset.contract.relevance.default) & (docs >= 0)
    if not relevant.any():
        raise CannotStart(
            f"no query of {name} has a relevant document in its corpus; check that qrels and corpus belong together"
        )
    near = graph.open(NearlyTested(dataset))
    if near.any():
        graph.progress.note(f"{name}: {near.sum():,} of {len(near):,} queries are left out: nearly the same as test queries")
        relevant &= ~np.repeat(near, np.diff(qrels.offsets))
    left_out = _left_out(dataset.contract, corpus, leave_out, graph.progress)
    relevant &= ~np.isin(docs, left_out)
    counts = np.add.reduceat(relevant, qrels.offsets[:-1], dtype=np.int64)  # every query of qrels has a judgement
    if not counts.any():
        raise CannotStart(
            f"every query of {name} is nearly the same as a test query, or only has documents that leave_out names"
        )
    queries = tuple(query for query, count in zip(dataset.queries, counts.tolist(), strict=True) if count)
    offsets = np.concatenate(([0], np.cumsum(counts[counts > 0])))
    ids = "\n".join(query.query_id for query in queries)
    part = hashlib.sha256(ids.encode()).hexdigest()[:16] if near.any() or len(left_out) else ""
    return TrainingSet(dataset, corpus, queries, DocumentLists(offsets, docs[relevant].astype(np.int32)), part, left_out)


@dataclass(frozen=True, eq=False)
class NearlyTested(Node[NDArray[np.bool_]]):
    """Which queries of a dataset are nearly the same as a test query (queries,)."""

    dataset: Dataset

    kind = "near-tests"

    def label(self) -> str:
        """Return the id of the dataset."""
        return self.dataset.contract.id

    def facts(self) -> KeyFacts:
        """Return the digests of the test queries and of those of the dataset."""
        return {"tested": collections.tested_queries().digest, "queries": digests.queries_sha256(self.dataset.queries)}

    def make(self, draft: Draft, parts: Parts) -> None:
        """Compare each query with the test queries."""
        del parts
        tested = collections.tested_queries()
        np.save(draft.folder / _NEAR, np.array([tested.has_similar(query.text) for query in self.dataset.queries], bool))

    def open(self, stored: Stored | None, parts: Parts) -> NDArray[np.bool_]:
        """Return one value per query."""
        del parts
        assert stored is not None
        near: NDArray[np.bool_] = np.load(stored.folder / _NEAR)
        return near


def open_corpus(name: str, graph: Graph) -> StoredCorpus:
    """Return the corpus of a dataset (its id), or of a folder of documents (its path), which need not have queries.

    Raises UnknownName, MissingData, InvalidFile or ContractMismatch.
    """
    located = collections.find_corpus(name)
    dataset = Dataset(*located, Topics((), (), 0)) if Path(name).exists() else open_dataset(*located)
    return graph.open(DatasetCorpus(dataset))


def open_texts(names: Sequence[str], leave_out: Sequence[str], reader: TextReader, graph: Graph) -> list[TokenisedCorpus]:
    """Return the tokens of corpora to train on, without the documents that are judged in the datasets *leave_out*.

    Raises what `open_corpus` raises.
    """
    texts = []
    for name in names:
        corpus = open_corpus(name, graph)
        left_out = _left_out(collections.find_corpus(name).contract, corpus, leave_out, graph.progress)
        texts.append(reader.corpus(corpus, graph).without(left_out))
    return texts


def _left_out(contract: Contract, corpus: StoredCorpus, leave_out: Sequence[str], progress: Progress) -> NDArray[np.int64]:
    """Return the positions (n,) of the documents of *corpus* that are judged in the datasets *leave_out*, ascending."""
    judged = collections.judged_documents(contract, leave_out)
    positions = lookup(corpus.doc_ids, encode(judged)).astype(np.int64)
    found = np.sort(positions[positions >= 0])
    if len(found):
        progress.note(f"{contract.corpus}: {len(found):,} documents are left out: judged in a dataset of leave_out")
    return found


def search(training_set: TrainingSet, queries: Sequence[Query], system: System, depth: int, graph: Graph) -> Run:
    """Return the *depth* best documents of each of *queries*, which belong to the training set, as a run in the store.

    `Run.docs` are corpus positions. An interrupted search resumes.
    """
    whole = training_set.dataset
    # All judgements stay, because the contract states how many of them name documents that the corpus lacks.
    topics = Topics(tuple(queries), whole.topics.judgements, whole.topics.unjudged)
    return graph.open(SystemRun(data_of(Dataset(whole.contract, whole.source, topics)), system, depth)).run


# ---- examples of fine-tuning: a query, a relevant document, and negatives (paper, appendix A) ------------------------------


class MinedSet(NamedTuple):
    """A training set and the negatives mined for it."""

    training_set: TrainingSet
    negatives: DocumentLists  # for each query, best first
    left_out: Collection[str] = frozenset()  # ids of queries that are not trained on


class Example(NamedTuple):
    """One example. Documents are positions in the corpus of its training set."""

    source: int  # index of the source
    query: int  # index of the query in its training set
    positive: int
    negatives: NDArray[np.int32]  # (negatives,)

    @property
    def documents(self) -> list[int]:
        """The corpus positions of the example's documents, the relevant one first."""
        return [self.positive, *self.negatives.tolist()]


class Examples:
    """One example per relevant document of a query that has negatives (released code), or one example per query."""

    def __init__(self, sources: Sequence[MinedSet], depth: int, pairs: Literal["all", "one_per_query"] = "all") -> None:
        """Draw a query's negatives from the first *depth* entries of its list. Raises CannotStart if there is no example."""
        self.sources, self.depth, self.pairs = tuple(sources), depth, pairs
        entries = [_entries(source, one_per_query=pairs == "one_per_query") for source in self.sources]
        self._entries = np.concatenate(entries)  # (examples,) index of the positive in its source's list of positives
        self._ends = np.cumsum([len(part) for part in entries])  # (sources,) where the examples of each source end
        if not len(self):
            names = ", ".join(source.training_set.contract.id for source in self.sources)
            raise CannotStart(
                f"nothing to train on: every query of {names} is held out or has no negatives; increase the stage's depth"
            )

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self._entries)

    def draw(self, example: int, rng: np.random.Generator, negatives: int) -> Example:
        """Return example number *example* with *negatives* negatives, drawn without replacement and repeated if too few.

        With one example per query, the relevant document is drawn too.
        """
        source = int(np.searchsorted(self._ends, example, side="right"))
        positives, mined = self.sources[source].training_set.positives, self.sources[source].negatives
        entry = int(self._entries[example])
        query = int(np.searchsorted(positives.offsets, entry, side="right")) - 1
        positive = rng.choice(positives[query]) if self.pairs == "one_per_query" else positives.docs[entry]
        pool = mined[query][: self.depth]
        drawn = rng.choice(pool, min(negatives, len(pool)), replace=False)
        return Example(source, query, int(positive), np.resize(drawn, negatives))


def trained_queries(source: MinedSet) -> NDArray[np.bool_]:
    """Return which queries of a source have negatives and are not held out (queries,)."""
    kept = [query.query_id not in source.left_out for query in source.training_set.queries]
    trained: NDArray[np.bool_] = (source.negatives.lengths > 0) & kept
    return trained


def _entries(source: MinedSet, *, one_per_query: bool) -> NDArray[np.int64]:
    """Return the entries of the positives that make an example (examples,); with one example per query, its first entry."""
    positives, trained = source.training_set.positives, trained_queries(source)
    if one_per_query:
        return positives.offsets[:-1][trained]
    return np.flatnonzero(np.repeat(trained, positives.lengths))
