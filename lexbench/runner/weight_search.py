"""The best weights of a fusion for the queries of one dataset: its parts are searched once, then all weights are tried.

What the parts find comes block by block, as that of a run, and is kept until the weights are chosen; these stay in the store.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from safetensors.numpy import load_file, save

from lexbench import measures
from lexbench.datasets.dataset import Dataset
from lexbench.errors import LexbenchError
from lexbench.fusion.normalise import ScoreMatrix, top_k, weighted_sum
from lexbench.fusion.weight_grid import candidates, grid
from lexbench.plugins import Retriever, Searcher
from lexbench.runner.pairs import forget_pairs, learn
from lexbench.runner.stages import DatasetRunner, block_size, own_positions
from lexbench.runner.stored_run import block_files
from lexbench.runner.systems import describe
from lexbench.storage import atomic
from lexbench.storage.artifacts import key_of
from lexbench.storage.stopwatch import Stopwatch
from lexbench.storage.store import Recipe
from lexbench.trec.runs import Run

_FORMAT = 1  # goes up when other weights would be chosen
_WEIGHTS = "weights.json"


class BestWeights(msgspec.Struct, frozen=True):
    """The best weights of those that were tried."""

    weights: tuple[float, ...]  # of sum 1
    mean: float  # of the measure
    step: float
    tried: int


@dataclass(frozen=True)
class WeightSearch:
    """Chooses weights by *measure*, with its threshold, on the queries of *dataset*, whose corpus is that of *runner*.

    Lists are searched and cut as those of a run of *depth*; *label* is what progress calls the system.
    """

    runner: DatasetRunner
    dataset: Dataset
    measure: str
    depth: int
    label: str

    def best(self, retriever: Retriever) -> BestWeights:
        """Return the weights for *retriever* that have the largest mean; of equals the most even, then more on earlier parts.

        LexbenchError where there are no judgements.
        """
        plain: Any = replace(retriever, weights=())  # type: ignore[type-var]  # retrievers are dataclasses
        index = self.runner.index(plain, self.label)
        recipe: Recipe = {
            "format": _FORMAT,
            "index": key_of(index),
            "retriever": describe(plain),
            "queries": self.dataset.queries_sha256,
            "qrels": self.dataset.qrels_sha256,
            "self_match": self.dataset.contract.protocol.self_match,
            "depth": self.depth,
            "measure": self.measure,
        }
        with self.runner.draft("weights", self._what, recipe, resumable=True) as draft:
            if draft.unfinished:
                watch = Stopwatch()
                matrix = self._searched(plain, index, draft.unfinished, watch)
                with watch.time("choose"):
                    weights = self._choose(matrix)
                atomic.write_bytes(draft.unfinished / _WEIGHTS, msgspec.json.encode(weights) + b"\n")
                for part in draft.unfinished.glob("part-*"):
                    part.unlink()
                forget_pairs(draft.unfinished)
                watch.write(draft.unfinished)
        return msgspec.json.decode((draft.folder / _WEIGHTS).read_bytes(), type=BestWeights)

    @property
    def _what(self) -> str:
        return f"{self.label} on {self.dataset.contract.id}"

    @property
    def _cutoff(self) -> int:
        return min(measures.cutoff(self.measure) or self.depth, self.depth)

    def _searched(self, retriever: Any, index: Path, path: Path, watch: Stopwatch) -> ScoreMatrix:
        """Search all parts; return what is to be weighted, self-matches dropped as for a run."""
        opened = self.runner.with_workers(retriever).open(index)
        if type(opened).score_matrix is Searcher.score_matrix:
            raise LexbenchError(f"{type(opened).__name__} has no score_matrix(encoded, k), so no weights can be chosen")
        searcher: Any = opened  # it is a searcher, too
        drop = self.dataset.contract.protocol.self_match == "drop"
        runner = replace(self.runner, dataset=self.dataset)
        size = block_size(searcher)
        with watch.time("search"):
            scored = runner.scored_pairs(retriever, searcher, path, self._what, drop=drop)
        for number, block, file in runner.blocks(path, size, watch, self._what):
            with watch.time("search"):
                own = own_positions(self.runner.corpus, block) if drop else np.full(len(block), -1)
                encoded = runner.encoded(searcher, block, drop=drop)
                learn(searcher, encoded, [scores.of(number) for scores in scored])
                matrix = searcher.score_matrix(encoded, self.depth + drop)
            others = np.where(matrix.docs == own[:, None], -1, matrix.docs)
            docs, values = candidates(ScoreMatrix(others, matrix.values), self._cutoff)
            atomic.write_bytes(file, save({"docs": docs, "values": np.stack(values)}))
        return _joined(block_files(path, len(self.dataset.queries), size))

    def _choose(self, matrix: ScoreMatrix) -> BestWeights:
        """Try all weights of the grid."""
        step, rows = grid(len(matrix.values))
        ids = [query.query_id for query in self.dataset.queries]
        means = []
        self.runner.progress.start(self._what, "choose weights", len(rows), "weights")
        for weights in rows:
            hits = top_k(matrix.docs, weighted_sum(matrix, weights), self._cutoff)
            scores = measures.score(Run.from_hits(ids, hits, self.runner.corpus.doc_ids), self.dataset.qrels, [self.measure])
            means.append(round(scores.means[self.measure], 12))  # equal means of other orders differ in the last digits
            self.runner.progress.advance()
        self.runner.progress.end()
        return BestWeights(rows[means.index(max(means))], max(means), step, len(rows))


def _joined(paths: Sequence[Path]) -> ScoreMatrix:
    """Read blocks and join them; rows of fewer documents get some of -1."""
    blocks: list[dict[str, Any]] = [load_file(path) for path in paths]
    width = max(block["docs"].shape[1] for block in blocks)
    short = [width - block["docs"].shape[1] for block in blocks]
    docs = [np.pad(block["docs"], ((0, 0), (0, by)), constant_values=-1) for block, by in zip(blocks, short, strict=True)]
    values = [np.pad(block["values"], ((0, 0), (0, 0), (0, by))) for block, by in zip(blocks, short, strict=True)]
    return ScoreMatrix(np.concatenate(docs), list(np.concatenate(values, axis=1)))
