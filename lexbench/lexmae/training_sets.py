"""What a model is trained on: corpora on disk, training queries in memory, and the documents relevant to each query."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lexbench.datasets.contracts import Contract, SourceFacts, TextPolicy, all_contracts, contract_of
from lexbench.datasets.corpus import StoredCorpus
from lexbench.datasets.dataset import Dataset, Topics, open_dataset
from lexbench.datasets.find import find_folder
from lexbench.datasets.sources.files import Files
from lexbench.errors import CannotStart, InvalidFile, MissingData, UnknownName
from lexbench.progress import Progress
from lexbench.runner.stages import DatasetRunner
from lexbench.runner.stored_run import read_run
from lexbench.runner.systems import System
from lexbench.storage.store import Store
from lexbench.trec.ids import lookup
from lexbench.trec.runs import Run
from lexbench.types import Query

_SPLIT = "train"  # of a folder that has several qrels
_CORPUS = ("corpus.jsonl", "corpus.jsonl.gz")


@dataclass(frozen=True, eq=False)
class Lists:
    """A list of documents for each query of a training set."""

    offsets: NDArray[np.int64]  # (queries + 1,) list i is docs[offsets[i]:offsets[i + 1]]
    docs: NDArray[np.int32]  # (entries,) corpus positions

    def __len__(self) -> int:
        """Return the number of queries."""
        return len(self.offsets) - 1

    def __getitem__(self, query: int) -> NDArray[np.int32]:
        """Return the corpus positions of one query (documents,)."""
        return self.docs[self.offsets[query] : self.offsets[query + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many documents each query has (queries,)."""
        return np.diff(self.offsets)


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Queries with at least one relevant document in the corpus, which is read from disk by position."""

    dataset: Dataset
    corpus: StoredCorpus
    queries: tuple[Query, ...]  # by ascending bytes of the id
    positives: Lists  # documents of the contract's relevant grades

    @property
    def contract(self) -> Contract:
        """The facts of the dataset."""
        return self.dataset.contract


def open_training_set(name: str, kept: Store, progress: Progress) -> TrainingSet:
    """Return the dataset of that id, or that in the BEIR folder, or of its qrels file, at that path.

    Of a folder it is `train`, or the only qrels if they are not `test`. Judged documents that the corpus lacks, and queries
    without a relevant one, are left out.

    UnknownName, MissingData, InvalidFile or ContractMismatch; CannotStart where no query is left.
    """
    place = Path(name)
    dataset = _of_folder(place) if place.exists() else _of_contract(name)
    corpus = DatasetRunner(dataset, kept, progress).corpus
    qrels = dataset.qrels  # its queries are those of the dataset, in the same order
    docs = lookup(corpus.doc_ids, qrels.doc_ids)
    relevant = (qrels.grades >= dataset.contract.relevance.default) & (docs >= 0)
    if not relevant.any():
        raise CannotStart(f"no query of {name} has a relevant document in its corpus; are qrels and corpus of one dataset?")
    counts = np.add.reduceat(relevant, qrels.offsets[:-1], dtype=np.int64)  # every query of qrels has a judgement
    queries = tuple(query for query, count in zip(dataset.queries, counts.tolist(), strict=True) if count)
    offsets = np.concatenate(([0], np.cumsum(counts[counts > 0])))
    return TrainingSet(dataset, corpus, queries, Lists(offsets, docs[relevant].astype(np.int32)))


def open_corpus_of(name: str, kept: Store, progress: Progress) -> StoredCorpus:
    """Return the corpus of the dataset of that id, or of the BEIR folder at that path, which need not have queries.

    UnknownName, MissingData, InvalidFile or ContractMismatch.
    """
    place = Path(name)
    dataset = _of_corpus(place.resolve()) if place.exists() else _of_contract(name)
    return DatasetRunner(dataset, kept, progress).corpus


def search(
    training_set: TrainingSet, queries: Sequence[Query], system: System, depth: int, kept: Store, progress: Progress
) -> Run:
    """Return the best *depth* documents of each of *queries*, which are of the training set, as a run of the store.

    `Run.docs` are corpus positions. What a killed process had searched is not searched again.
    """
    whole = training_set.dataset
    # All judgements stay: the contract says how many of them name documents that the corpus lacks.
    topics = Topics(tuple(queries), whole.topics.judgements, whole.topics.unjudged)
    bench = DatasetRunner(Dataset(whole.contract, whole.source, topics), kept, progress)
    return read_run(bench.run(system, depth)).run


def _of_contract(name: str) -> Dataset:
    if name not in all_contracts():
        raise UnknownName("dataset or folder", name, all_contracts(), see="lexbench list datasets")
    return open_dataset(contract_of(name))


def _of_folder(place: Path) -> Dataset:
    """Open a folder; it is never opened at `test` unasked, as it is for measuring."""
    splits = {path.name.removesuffix(".gz").removesuffix(".tsv") for path in place.glob("qrels/*.tsv*")}
    if _SPLIT not in splits and (len(splits) > 1 or "test" in splits):
        files = ", ".join(f"{place}/qrels/{split}.tsv" for split in sorted(splits))
        raise InvalidFile(f"{place} has no qrels/{_SPLIT}.tsv to train on; make one, or name one of: {files}")
    return open_dataset(*find_folder(place, _SPLIT if _SPLIT in splits else None))


def _of_corpus(place: Path) -> Dataset:
    """Return a dataset without queries: of a folder nothing is read but the corpus, which may be one folder up."""
    root = place.parent.parent if place.is_file() and place.parent.name == "qrels" else place
    found = [path for where in (root, root.parent) for name in _CORPUS if (path := where / name).is_file()]
    if not found:
        raise MissingData(f"{place} has no corpus: neither it nor {root.parent} has corpus.jsonl or corpus.jsonl.gz")
    corpus, name = found[0], found[0].parent.name
    facts, text = SourceFacts(loader="files"), TextPolicy(document="title_text")
    contract = Contract(schema=1, id=name, version=0, name=name, description="", corpus=name, source=facts, text=text)
    return Dataset(contract, Files(contract, corpus, root / "queries.jsonl", root / "qrels"), Topics((), (), 0))
