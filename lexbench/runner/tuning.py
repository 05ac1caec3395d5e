"""Weights of fusions that are chosen by what they score: weights="tuned" and weights="oracle".

Tuned weights are chosen on the queries of the dataset that the tested one's contract names as `tuning`, or on the split dev of
a user's folder. It has the same corpus; queries that are also tested are left out. The oracle's weights are chosen on the
tested queries: an upper bound of what any choice could give, and no result. The members of a fusion are searched once, then all
weights of a grid are tried.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, pairwise
from math import comb
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec
import numpy as np

from lexbench.arrays.fusion import ScoreMatrix, top_k, weighted_sum
from lexbench.artifacts.describe import describe
from lexbench.artifacts.graph import Graph
from lexbench.artifacts.searches import Search
from lexbench.contracts import Contract, all_contracts, contract_of
from lexbench.datasets.corpus import StoredCorpus
from lexbench.datasets.dataset import Dataset, Topics, open_dataset
from lexbench.datasets.location import find_folder
from lexbench.datasets.sources.files import NOT_TEST, Files, find_tables, folder_of
from lexbench.display.progress import Progress
from lexbench.errors import CannotStart, CommandError, LexbenchError
from lexbench.measures import cutoff as cutoff_of
from lexbench.measures import score as score_run
from lexbench.measures import with_threshold
from lexbench.plugins import CHOSEN_WEIGHTS, Retriever, Searcher, Source
from lexbench.results import Note
from lexbench.runner.search import Data, block_size, opened_search, own_positions
from lexbench.runner.systems import System, encoded_leaves, model_name
from lexbench.storage import atomic
from lexbench.storage.artifact_folder import KeyFacts
from lexbench.storage.drafting import Draft, DraftBlock
from lexbench.storage.node import Node, Parts, Stored
from lexbench.storage.stopwatch import Stopwatch
from lexbench.trec.runs import Run
from lexbench.types import Query

_FORMAT = 1  # raise it when other weights would be chosen
_WEIGHTS = "weights.json"


def rules(retriever: Retriever) -> Iterator[str]:
    """Yield the rule, "tuned" or "oracle", of each fusion in *retriever* whose weights are to be chosen."""
    for member in retriever.members:
        yield from rules(member)
    if retriever.weights in CHOSEN_WEIGHTS:
        yield str(retriever.weights)


def _tuning_data(contract: Contract, source: Source | None) -> tuple[Contract, Source | None]:
    """Return the dataset to tune on: that of the *contract*, or another split for development of the user's folder *source*.

    Raises CommandError if there is none.
    """
    if contract.tuning:
        return contract_of(contract.tuning), None
    if isinstance(source, Files):
        folder = folder_of(Path(source.place("judgements")))
        splits = [split for split in find_tables(folder, "judgements") if split in NOT_TEST and split != contract.source.split]
        if splits:
            return find_folder(folder, splits[0], contract.source.columns)
        what = f"{contract.id} has no other split for development; put qrels/dev.tsv into {folder}"
        raise CommandError(f'{what}, because weights="tuned" needs queries to tune on, or type weights=[…]')
    known = [other.id for other in all_contracts().values() if other.tuning]
    raise CommandError(
        f'{contract.id}: its contract names no tuning queries, which weights="tuned" needs; type weights=[…], or run only '
        f"datasets that have some: {', '.join(known)}"
    )


def check(retriever: Retriever, contract: Contract, source: Source | None = None) -> None:
    """Raise CommandError if *retriever* has weights to tune and there are no queries for it (see `_tuning_data`)."""
    if "tuned" not in rules(retriever):
        return
    tuning, _ = _tuning_data(contract, source)
    if tuning.corpus != contract.corpus:
        raise CommandError(
            f"{contract.id} has the corpus {contract.corpus}, and {tuning.id}, its tuning queries, {tuning.corpus}; "
            "type weights=[…]"
        )


def with_weights(system: System, graph: Graph, data: Data, headline: str, depth: int) -> tuple[System, list[Note]]:
    """Return *system* with weights chosen by the measure *headline*, inner fusions first, and one note per choice.

    *data* are tested, and *depth* is the depth of the run. Before any work, raises CommandError like
    `check`, MissingData if the tuning queries are not here, CannotStart if all of them are also tested, and ContractMismatch
    if their corpus is another one.
    """
    needed = set(rules(system.retriever))
    if not needed:
        return system, []
    queries = {"oracle": _TuningQueries(data.dataset)} if "oracle" in needed else {}
    if "tuned" in needed:
        check(system.retriever, data.dataset.contract, data.dataset.source)
        queries["tuned"] = _tuning_queries(data.dataset)
    for rule in queries.values():
        rule.dataset.check_corpus(graph.open(data.corpus))
    notes: list[Note] = []

    def chosen(retriever: Any, position: str = "") -> Any:
        """Return *retriever* with chosen weights; *position* "2.1" is the first member of the second member."""
        if not any(rules(retriever)):
            return retriever
        below = (f"{position}.{number}".lstrip(".") for number in range(1, len(retriever.members) + 1))
        retriever = replace(retriever, members=tuple(map(chosen, retriever.members, below)))
        if not isinstance(retriever.weights, str):
            return retriever
        tuning = queries[retriever.weights]
        measure = with_threshold(headline, tuning.dataset.contract)
        node = FusionWeights(retriever, data, tuning.dataset, measure, depth, system.name)
        best = graph.open(node)
        notes.append(_choice_note(retriever.weights, position, best, measure, tuning))
        notes.extend(_training_notes(retriever, tuning.dataset.contract.id))
        return replace(retriever, weights=best.weights)

    retriever = chosen(system.retriever)
    return replace(system, retriever=retriever, recipe=describe(retriever)), notes


class _TuningQueries(NamedTuple):
    """The queries on which weights are chosen."""

    dataset: Dataset
    left_out: int = 0  # queries that are also tested


def _tuning_queries(tested: Dataset) -> _TuningQueries:
    """Return the dataset of the tuning queries, without the queries that are also tested."""
    tuning = open_dataset(*_tuning_data(tested.contract, tested.source))
    ids = {query.query_id for query in tested.queries}
    texts = {_plain(query) for query in tested.queries}
    queries = tuple(query for query in tuning.queries if query.query_id not in ids and _plain(query) not in texts)
    if not queries:
        raise CannotStart(
            f"every query of {tuning.contract.id} is one of {tested.contract.id}, so none is left to tune on; type weights=[…]"
        )
    kept = {query.query_id for query in queries}
    judgements = tuple(row for row in tuning.topics.judgements if row.query_id in kept)
    topics = Topics(queries, judgements, tuning.topics.unjudged)
    return _TuningQueries(replace(tuning, topics=topics), len(tuning.queries) - len(queries))


def _plain(query: Query) -> str:
    return " ".join(query.text.split()).casefold()


def _training_notes(retriever: Retriever, dataset: str) -> Iterator[Note]:
    """Yield a warning for each encoder that was trained on the queries on which its weight was chosen."""
    for leaf in encoded_leaves(retriever):
        if dataset in leaf.encoder.trained_on():
            yield Note(
                "seen in training",
                f"{type(leaf.encoder).__name__} {model_name(leaf.encoder)} was trained on the queries of {dataset}, on which "
                "weights are chosen: it looks better there than it is, and its weight may be too large",
            )


def _choice_note(rule: str, position: str, best: "BestWeights", measure: str, tuning: _TuningQueries) -> Note:
    """Return the note on one choice."""
    weights = f"weights [{', '.join(f'{weight:.4g}' for weight in best.weights)}]"
    weights += f" of member {position}" if position else ""
    count = len(tuning.dataset.queries)
    queries = f"{count} {'query' if count == 1 else 'queries'} of {tuning.dataset.contract.id}"
    mean = f"{measure} {best.mean:.4f} is the best of {best.tried}, in steps of {best.step:g}"
    if rule == "oracle":
        return Note("bound", f"upper bound, no result: {weights}, chosen on the very {queries} that are scored; {mean}")
    left_out = f"; test queries left out: {tuning.left_out}" if tuning.left_out else ""
    return Note("chosen weights", f"{weights}, tuned on {queries}, where {mean}{left_out}")


# ---- the search for the best weights ---------------------------------------------------------------------------------------


class BestWeights(msgspec.Struct, frozen=True):
    """The best of the weights that were tried."""

    weights: tuple[float, ...]  # of sum 1
    mean: float  # of the measure
    step: float
    tried: int


@dataclass(frozen=True)
class FusionWeights(Node[BestWeights]):
    """The weights of a fusion with the largest mean of *measure*, with its threshold, on the dataset *tuning*.

    Its corpus is that of the tested *data*. Of equal means the most even weights count, then those with more on earlier
    members. Lists are searched and cut as for a run of *depth*. Until the weights have been chosen, the scores of the members
    are kept, block by block. Messages call the system *name*.
    """

    fusion: Any
    data: Data
    tuning: Dataset
    measure: str
    depth: int
    name: str
    kind: ClassVar[str] = "weights"
    resumable: ClassVar[bool] = True

    def label(self) -> str:
        """Return the tested dataset, and what is tuned where."""
        return f"{self.data.dataset.contract.id} {self._what}"

    @property
    def _what(self) -> str:
        return f"{self.name} on {self.tuning.contract.id}"

    @property
    def _plain(self) -> Any:
        return replace(self.fusion, weights=())

    def parts(self) -> Mapping[str, Node[Any]]:
        """Return the corpus, and the search of the fusion without weights."""
        return {"corpus": self.data.corpus, "system": Search(self.data.corpus, self._plain)}

    def facts(self) -> KeyFacts:
        """Return what else decides the choice."""
        return {
            "version": _FORMAT,
            "retriever": describe(self._plain),
            **self.tuning.digests,
            "self_match": self.tuning.contract.protocol.self_match,
            "depth": self.depth,
            "measure": self.measure,
        }

    def make(self, draft: Draft, parts: Parts) -> None:
        """Search all members once, and try all weights. Raises LexbenchError if the fusion does not show their scores."""
        data, corpus, queries = Data(self.tuning, self.data.corpus), parts["corpus"], self.tuning.queries
        cutoff = min(cutoff_of(self.measure) or self.depth, self.depth)
        with opened_search(parts, self.data.corpus, self._plain, draft) as (searcher, turns):
            if type(searcher).score_matrix is Searcher.score_matrix:
                raise LexbenchError(f"no weights can be chosen: {type(searcher).__name__} has no score_matrix(encoded, k)")
            size = block_size(searcher)
            search = partial(_score_matrix, data, corpus, searcher, self.depth)
            blocks = draft.blocks(queries, size, self._what, "search", "queries")
            for block, matrix in turns.answers(blocks, search, draft.watch):
                kept = candidates(matrix, cutoff)
                draft.keep(block, {"docs": kept.docs, **{f"{member:04d}": one for member, one in enumerate(kept.values)}})
        whole = draft.joined(len(queries), size)
        matrix = ScoreMatrix(whole.pop("docs"), [whole[member] for member in sorted(whole)])
        with draft.watch.time("choose"):
            best = self._best(matrix, corpus, cutoff, draft.progress)
        atomic.write_bytes(draft.folder / _WEIGHTS, msgspec.json.encode(best) + b"\n")
        draft.forget_blocks()

    def _best(self, matrix: ScoreMatrix, corpus: StoredCorpus, cutoff: int, progress: Progress) -> BestWeights:
        """Try all weights of the grid."""
        step, rows = grid(len(matrix.values))
        ids = [query.query_id for query in self.tuning.queries]
        means = []
        progress.start(self._what, "choose weights", len(rows), "weights")
        for weights in rows:
            hits = top_k(matrix.docs, weighted_sum(matrix, weights), cutoff)
            scores = score_run(Run.from_hits(ids, hits, corpus.doc_ids), self.tuning.qrels, [self.measure])
            means.append(round(scores.means[self.measure], 12))  # equal means of other orders differ in the last digits
            progress.advance()
        progress.end()
        return BestWeights(rows[means.index(max(means))], max(means), step, len(rows))

    def open(self, stored: Stored | None, parts: Parts) -> BestWeights:
        """Return the weights."""
        assert stored is not None
        return msgspec.json.decode((stored.folder / _WEIGHTS).read_bytes(), type=BestWeights)


def _score_matrix(
    data: Data, corpus: StoredCorpus, searcher: Searcher, depth: int, block: DraftBlock, watch: Stopwatch
) -> ScoreMatrix:
    """Search all members for a block of queries; return the scores to be weighted, with self-matches dropped as for a run."""
    drop = data.drops_self_matches
    with watch.time("search"):
        matrix = searcher.score_matrix(data.encoded(searcher, block.items, corpus), depth + drop)
        own = own_positions(corpus, block.items) if drop else np.full(len(block.items), -1)
        return ScoreMatrix(np.where(matrix.docs == own[:, None], -1, matrix.docs), matrix.values)


# ---- the weights that are tried, and the documents that any of them can rank near the top ----------------------------------

_STEPS = (20, 10, 5, 4, 2, 1)  # equal steps from 0 to 1, the finest first
_MOST = 1001  # combinations: five members in steps of 0.1
_ROUNDING = 2.0**-21  # of the largest score: more than the rounding error of float32 sums


def grid(members: int) -> tuple[float, list[tuple[float, ...]]]:
    """Return a step, 0.05 or more, and all non-negative weights of *members* in such steps that add up to 1, and equal weights.

    There are at most 1,002, the most even first, then those with more weight on earlier members.
    """
    steps = next((steps for steps in _STEPS if comb(steps + members - 1, members - 1) <= _MOST), 1)
    # "Stars and bars": each choice of bar positions divides the steps among the members.
    ends = [(-1, *bars, steps + members - 1) for bars in combinations(range(steps + members - 1), members - 1)]
    weights = [tuple((after - before - 1) / steps for before, after in pairwise(bars)) for bars in ends]
    distinct = dict.fromkeys([(1 / members,) * members, *weights])
    return 1 / steps, sorted(distinct, key=lambda row: (round(sum(w * w for w in row), 9), [-w for w in row]))


def candidates(matrix: ScoreMatrix, cutoff: int) -> ScoreMatrix:
    """Return *matrix* without padding (-1), and without most of the documents that no weights can rank in the top *cutoff*.

    A weighted mean lies between a document's lowest and highest value over the lists. So a document cannot come up if its
    highest value is below the lowest values of *cutoff* others.
    """
    values = np.where(matrix.docs >= 0, np.stack(matrix.values), -np.inf)  # (members, queries, n)
    lowest, highest = values.min(axis=0), values.max(axis=0)
    bar = np.sort(lowest, axis=1)[:, -cutoff:][:, :1]
    margin = _ROUNDING * np.where(matrix.docs >= 0, np.abs(values), 0).max(axis=(0, 2), initial=0)
    keep = (matrix.docs >= 0) & (highest >= bar - margin[:, None])
    order = np.argsort(~keep, axis=1, kind="stable")[:, : int(keep.sum(axis=1).max(initial=0))]
    docs, *kept = (np.take_along_axis(one, order, axis=1) for one in (np.where(keep, matrix.docs, -1), *matrix.values))
    return ScoreMatrix(docs, kept)
