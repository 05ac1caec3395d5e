"""Selecting the best model of a stage, on queries that no table reports and no model is trained on.

The released code lets the model rerank BM25's documents for MS MARCO's dev queries and keeps the model with the best MRR@10
(the paper states no rule). Here the queries come from any datasets for tuning, or from training queries that are held out.
Reranking cannot reward documents that BM25 misses.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from lexbench.artifacts.graph import Graph
from lexbench.datasets.corpus import StoredCorpus
from lexbench.errors import CannotStart
from lexbench.lexmae.data.tokens import TextReader, TokenisedCorpus
from lexbench.lexmae.data.training_sets import TrainingSet, open_training_set, search
from lexbench.lexmae.model.encoder import LexiconEncoder, Texts, in_groups
from lexbench.lexmae.recipe.settings import Recipe, Selection
from lexbench.lexmae.training import processes
from lexbench.measures import score as score_run
from lexbench.measures import with_threshold
from lexbench.runner.systems import system
from lexbench.transforms.top_k import TopK
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run
from lexbench.types import Hits, Query

_FIRST_STAGE = "bm25"
_BLOCK = 2048  # documents whose sparse vectors are in memory
_DENSE = 256  # texts whose dense vectors are in memory


class Pairs(NamedTuple):
    """The pairs of query and document that a model scores."""

    queries: NDArray[np.int64]  # (pairs,) index into the set's queries, ascending
    documents: NDArray[np.int64]  # (pairs,) index into the set's positions


@dataclass(frozen=True, eq=False)
class CandidateSet:
    """Queries of one dataset with the documents that a model ranks for each."""

    name: str  # the dataset's id
    corpus: StoredCorpus
    queries: tuple[Query, ...]
    docs: NDArray[np.int32]  # (queries, depth) corpus positions; -1 at the end of a row means none
    qrels: Qrels  # of these queries
    measure: str  # with the dataset's threshold

    @cached_property
    def positions(self) -> NDArray[np.int32]:
        """The distinct corpus positions of all candidates (documents,), ascending."""
        return np.unique(self.docs[self.docs >= 0])

    @property
    def pairs(self) -> Pairs:
        """The pairs to score, query by query, in the order of *docs*."""
        queries, columns = np.nonzero(self.docs >= 0)
        return Pairs(queries, np.searchsorted(self.positions, self.docs[queries, columns]))

    def value(self, scores: NDArray[np.float32]) -> float:
        """Return the mean of the measure over all queries for the *scores* (pairs,) of *pairs*.

        Relevant documents that are not candidates count as missed. Raises LexbenchError if a score is not finite.
        """
        matrix = np.zeros(self.docs.shape, np.float32)
        matrix[self.docs >= 0] = scores
        run = Run.from_hits((query.query_id for query in self.queries), Hits(self.docs, matrix), self.corpus.doc_ids)
        return score_run(run, self.qrels, [self.measure]).means[self.measure]


@dataclass(frozen=True, eq=False)
class Candidates:
    """The sets that a model is selected by."""

    sets: tuple[CandidateSet, ...]
    name: str  # of the measure, as the recipe has it

    def measure(self, scores: Sequence[NDArray[np.float32]]) -> dict[str, float]:
        """Return the mean over the sets under the measure's name, then the value of each set under its name.

        *scores* has one array per set, as in `CandidateSet.value`.
        """
        values = {group.name: group.value(own) for group, own in zip(self.sets, scores, strict=True)}
        return {self.name: float(np.mean(list(values.values()))), **values}


def gather(recipe: Recipe, training_sets: Sequence[TrainingSet], graph: Graph) -> Candidates | None:
    """Return the candidates for the queries of `selection.datasets` and for queries held out of *training_sets*.

    Return None if the recipe selects by no queries. Raises CannotStart if no query would be held out, and the errors of
    `open_training_set`.
    """
    selection = recipe.selection
    if not selection.datasets and not selection.held_out:
        return None
    opened = [open_training_set(name, graph) for name in selection.datasets]
    chosen = [(tuning, {query.query_id for query in tuning.queries}) for tuning in opened]
    if selection.held_out:
        chosen += [(trained, held_out_ids(trained, selection.held_out, recipe.seed)) for trained in training_sets]
    sets = []
    for source, query_ids in chosen:
        ordered = sorted(query_ids, key=lambda query_id: (_fraction(query_id, recipe.seed), query_id))
        sets.append(_candidate_set(source, set(ordered[: selection.queries or None]), selection, graph))
    return Candidates(tuple(sets), selection.measure)


def held_out_ids(training_set: TrainingSet, share: float, seed: int) -> set[str]:
    """Return the ids of about *share* of the queries, the same ones in every stage: a digest of seed and id decides.

    Raises CannotStart if these are no queries, or all.
    """
    held_out = {query.query_id for query in training_set.queries if _fraction(query.query_id, seed) < share}
    if share and not 0 < len(held_out) < len(training_set.queries):
        raise CannotStart(
            f"selection.held_out={share:g} takes {len(held_out)} of the {len(training_set.queries)} queries of "
            f"{training_set.contract.id}; give another share, 0 for none, or name selection.datasets"
        )
    return held_out


@dataclass(frozen=True, eq=False)
class CandidateScorer:
    """Scores candidates with the encoder in training, without an index.

    Documents are encoded and scored in blocks, because MS MARCO's dev queries have millions of candidates.
    """

    encoder: LexiconEncoder
    reader: TextReader
    precision: str

    def scores(self, candidates: CandidateSet, corpus: TokenisedCorpus) -> NDArray[np.float32]:
        """Return the score of each pair of the candidates (pairs,). The encoder keeps its mode.

        Each process scores a share of the documents.
        """
        was_training = self.encoder.training
        self.encoder.eval()
        queries = self.encoded(self.reader.queries([query.text for query in candidates.queries]))
        pairs, positions = candidates.pairs, candidates.positions.tolist()
        scores = np.zeros(len(pairs.queries), np.float32)
        by_document = np.argsort(pairs.documents, kind="stable")
        for block in processes.share(-(-len(positions) // _BLOCK)):
            start = block * _BLOCK
            documents = self.documents([corpus[position] for position in positions[start : start + _BLOCK]])
            first, last = np.searchsorted(pairs.documents[by_document], (start, start + _BLOCK))
            own = by_document[first:last]
            products = (queries @ documents.T).toarray()
            scores[own] = products[pairs.queries[own], pairs.documents[own] - start]
        self.encoder.train(was_training)
        return processes.added_up(scores)

    def documents(self, rows: Sequence[NDArray[np.int64]]) -> sparse.csr_array:
        """Return the vectors of tokenised documents (texts, vocabulary), cut to `document_terms` as in the trained folder."""
        vectors, number = self.encoded(rows), self.reader.encoding.document_terms
        return TopK(number).document(vectors) if number else vectors

    @torch.no_grad()
    def encoded(self, rows: Sequence[NDArray[np.int64]]) -> sparse.csr_array:
        """Return the vectors (texts, vocabulary) of tokenised texts, (length,) each."""
        device = next(self.encoder.parameters()).device
        blocks = []
        for start in range(0, len(rows), _DENSE):
            batch = self.reader.tensors(rows[start : start + _DENSE])
            texts = Texts(**{name: tensor.to(device) for name, tensor in batch.items()})
            with processes.autocast(self.precision, device):
                blocks.append(sparse.csr_array(in_groups(self.encoder, texts).float().cpu().numpy()))
        return sparse.csr_array(sparse.vstack(blocks, format="csr"))


def _fraction(query_id: str, seed: int) -> float:
    """Return a number in [0, 1) from a digest, so that it does not depend on a library's random generator."""
    return int.from_bytes(hashlib.sha256(f"{seed} {query_id}".encode()).digest()[:8], "big") / 2**64


def _candidate_set(source: TrainingSet, query_ids: set[str], selection: Selection, graph: Graph) -> CandidateSet:
    queries = tuple(query for query in source.queries if query.query_id in query_ids)
    run = search(source, queries, system(_FIRST_STAGE), selection.depth, graph)
    lengths = np.diff(run.offsets)
    docs = np.full((len(queries), int(lengths.max())), -1, np.int32)
    docs[np.arange(docs.shape[1]) < lengths[:, None]] = run.docs
    judged = Qrels.from_judgements(row for row in source.dataset.topics.judgements if row.query_id in query_ids)
    measure = with_threshold(selection.measure, source.contract)
    return CandidateSet(source.contract.id, source.corpus, queries, docs, judged, measure)
