"""Queries to choose a stage's model by, which no table reports and no model is trained on.

The released code ranks BM25's documents for MS MARCO's dev queries by the model, and keeps the model of the best MRR@10 (the
paper states no rule). The same here for any datasets for tuning, or for training queries that are held out.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench import measures
from lexbench.datasets.corpus import StoredCorpus
from lexbench.errors import CannotStart
from lexbench.lexmae.recipe import Recipe, Selection
from lexbench.lexmae.training_sets import TrainingSet, open_training_set, search
from lexbench.progress import Progress
from lexbench.runner.systems import system
from lexbench.storage.store import Store
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run
from lexbench.types import Hits, Query

_CANDIDATES = "bm25"


class Pairs(NamedTuple):
    """A query and a document for each score that is asked for."""

    queries: NDArray[np.int64]  # (pairs,) index into the set's queries, ascending
    documents: NDArray[np.int64]  # (pairs,) index into the set's positions


@dataclass(frozen=True, eq=False)
class CandidateSet:
    """Queries of one dataset with the documents that a model is to rank for each."""

    name: str  # the dataset's id
    corpus: StoredCorpus
    queries: tuple[Query, ...]
    docs: NDArray[np.int32]  # (queries, depth) corpus positions, -1 = none, and only at the end of a row
    qrels: Qrels  # of these queries
    measure: str  # with the dataset's threshold

    @cached_property
    def positions(self) -> NDArray[np.int32]:
        """The corpus positions of all candidates (documents,), each once, ascending."""
        return np.unique(self.docs[self.docs >= 0])

    @property
    def pairs(self) -> Pairs:
        """The pairs to be scored, query by query and in the order of *docs*."""
        queries, columns = np.nonzero(self.docs >= 0)
        return Pairs(queries, np.searchsorted(self.positions, self.docs[queries, columns]))

    def value(self, scores: NDArray[np.float32]) -> float:
        """Return the mean of the measure over all queries, each of *pairs* having that score (pairs,).

        A relevant document that is no candidate is missed. LexbenchError where a score is not finite.
        """
        whole = np.zeros(self.docs.shape, np.float32)
        whole[self.docs >= 0] = scores
        run = Run.from_hits((query.query_id for query in self.queries), Hits(self.docs, whole), self.corpus.doc_ids)
        return measures.score(run, self.qrels, [self.measure]).means[self.measure]


@dataclass(frozen=True, eq=False)
class Candidates:
    """All that a model is chosen by; without sets the recipe asks for no choice."""

    sets: tuple[CandidateSet, ...]
    name: str  # of the measure, as the recipe has it

    def measure(self, scores: Sequence[NDArray[np.float32]]) -> dict[str, float]:
        """Return the mean over the sets by the measure's name, first, and each set's value by the set's name.

        *scores* are what `CandidateSet.value` takes, set by set.
        """
        values = [one.value(own) for one, own in zip(self.sets, scores, strict=True)]
        return {self.name: float(np.mean(values)), **{one.name: value for one, value in zip(self.sets, values, strict=True)}}


def gather(recipe: Recipe, training_sets: Sequence[TrainingSet], kept: Store, progress: Progress) -> Candidates:
    """Return BM25's best documents for the queries of `selection.datasets`, and for those held out of *training_sets*.

    CannotStart where nothing would be held out; see `open_training_set` for datasets.
    """
    asked = recipe.selection
    opened = [open_training_set(name, kept, progress) for name in asked.datasets]
    wanted = [(one, {query.query_id for query in one.queries}) for one in opened]
    if asked.held_out:
        wanted += [(one, held_out_ids(one, asked.held_out, recipe.seed)) for one in training_sets]
    made = [
        _candidate_set(one, _drawn(query_ids, asked.queries, recipe.seed), asked, kept, progress) for one, query_ids in wanted
    ]
    return Candidates(tuple(made), asked.measure)


def held_out_ids(training_set: TrainingSet, share: float, seed: int) -> set[str]:
    """Return the ids of about that *share* of the queries, the same in every stage: a digest of seed and id decides.

    CannotStart where these are none of the queries, or all.
    """
    found = {query.query_id for query in training_set.queries if _lot(query.query_id, seed) < share}
    if share and not 0 < len(found) < len(training_set.queries):
        raise CannotStart(
            f"selection.held_out={share:g} takes {len(found)} of the {len(training_set.queries)} queries of "
            f"{training_set.contract.id}; give another share, 0 for none, or name selection.datasets"
        )
    return found


def _lot(query_id: str, seed: int) -> float:
    """Return a number in [0, 1) that no library's generator decides."""
    return int.from_bytes(hashlib.sha256(f"{seed} {query_id}".encode()).digest()[:8], "big") / 2**64


def _drawn(query_ids: set[str], most: int, seed: int) -> set[str]:
    ordered = sorted(query_ids, key=lambda query_id: (_lot(query_id, seed), query_id))
    return set(ordered[: most or None])


def _candidate_set(one: TrainingSet, query_ids: set[str], asked: Selection, kept: Store, progress: Progress) -> CandidateSet:
    queries = tuple(query for query in one.queries if query.query_id in query_ids)
    run = search(one, queries, system(_CANDIDATES), asked.depth, kept, progress)
    lengths = np.diff(run.offsets)
    docs = np.full((len(queries), int(lengths.max())), -1, np.int32)
    docs[np.arange(docs.shape[1]) < lengths[:, None]] = run.docs
    judged = Qrels.from_judgements(row for row in one.dataset.topics.judgements if row.query_id in query_ids)
    measure = measures.with_threshold(asked.measure, one.contract)
    return CandidateSet(one.contract.id, one.corpus, queries, docs, judged, measure)
