"""The best weights of a combination for the queries of one dataset: its parts are searched once, then all weights are tried.

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
from lexbench.fusion.normalise import Columns, best, weighted
from lexbench.fusion.weight_grid import contenders, grid
from lexbench.retrievers._combination import Combination, encode_queries
from lexbench.runner.stages import Workbench, at_a_time
from lexbench.runner.systems import describe
from lexbench.storage import atomic
from lexbench.storage.stopwatch import Stopwatch
from lexbench.storage.store import Recipe
from lexbench.trec.ids import encode, lookup
from lexbench.trec.runs import Run
from lexbench.types import Query

_FORMAT = 1  # goes up when other weights would be chosen
_FOUND = "weights.json"


class Choice(msgspec.Struct, frozen=True):
    """The best weights of those that were tried."""

    weights: tuple[float, ...]  # of sum 1
    mean: float  # of the measure
    step: float
    tried: int


@dataclass(frozen=True)
class Chooser:
    """Chooses by *measure*, with its threshold, on the queries of *dataset*, whose corpus is that of *bench*.

    Lists are searched and cut as those of a run of *depth*; *label* is what progress calls the system.
    """

    bench: Workbench
    dataset: Dataset
    measure: str
    depth: int
    label: str

    def choose(self, retriever: Combination) -> Choice:
        """Return the weights for *retriever* that have the largest mean; of equals the most even, then more on earlier parts.

        LexbenchError where there are no judgements.
        """
        plain = replace(retriever, weights=())
        index = self.bench.index(plain, self.label)
        recipe: Recipe = {
            "format": _FORMAT,
            "index": index.name.rpartition("-")[2],
            "retriever": describe(plain),
            "queries": self.dataset.queries_sha256,
            "qrels": self.dataset.qrels_sha256,
            "self_match": self.dataset.contract.protocol.self_match,
            "depth": self.depth,
            "measure": self.measure,
        }

        def work(draft: Path) -> None:
            watch = Stopwatch()
            columns = self._searched(plain.open(index), draft, watch)
            with watch.time("choose"):
                found = self._best(columns)
            atomic.write_bytes(draft / _FOUND, msgspec.json.encode(found) + b"\n")
            for part in draft.glob("part-*"):
                part.unlink()
            watch.write(draft)

        folder = self.bench.produce("weights", self._what, recipe, work, resumable=True)
        return msgspec.json.decode((folder / _FOUND).read_bytes(), type=Choice)

    @property
    def _what(self) -> str:
        return f"{self.label} on {self.dataset.contract.id}"

    @property
    def _cutoff(self) -> int:
        return min(getattr(measures.parse(self.measure), "cutoff", None) or self.depth, self.depth)

    def _searched(self, searcher: Any, draft: Path, watch: Stopwatch) -> Columns:
        """Search all parts; return what is to be weighted, self-matches dropped as for a run."""
        drop = self.dataset.contract.protocol.self_match == "drop"
        table = self.bench.corpus.doc_ids

        def search(block: Sequence[Query], path: Path) -> None:
            with watch.time("search"):
                columns = searcher.columns(encode_queries(searcher, block), self.depth + drop)
            own = lookup(table, encode(query.query_id for query in block)) if drop else np.full(len(block), -1)
            others = np.where(columns.docs == own[:, None], -1, columns.docs)
            docs, values = contenders(Columns(others, columns.values), self._cutoff)
            atomic.write_bytes(path, save({"docs": docs, "values": np.stack(values)}))

        return _joined(self.bench.blocks(self.dataset.queries, draft, watch, self._what, search, at_a_time(searcher)))

    def _best(self, columns: Columns) -> Choice:
        """Try all weights of the grid."""
        step, every = grid(len(columns.values))
        ids = [query.query_id for query in self.dataset.queries]
        means = []
        self.bench.progress.start(self._what, "choose weights", len(every), "weights")
        for weights in every:
            hits = best(columns.docs, weighted(columns, weights), self._cutoff)
            scores = measures.score(Run.from_hits(ids, hits, self.bench.corpus.doc_ids), self.dataset.qrels, [self.measure])
            means.append(round(scores.means[self.measure], 12))  # equal means of other orders differ in the last digits
            self.bench.progress.advance()
        self.bench.progress.end()
        return Choice(every[means.index(max(means))], max(means), step, len(every))


def _joined(paths: Sequence[Path]) -> Columns:
    """Read blocks and join them; rows of fewer documents get some of -1."""
    blocks: list[dict[str, Any]] = [load_file(path) for path in paths]
    width = max(block["docs"].shape[1] for block in blocks)
    short = [width - block["docs"].shape[1] for block in blocks]
    docs = [np.pad(block["docs"], ((0, 0), (0, by)), constant_values=-1) for block, by in zip(blocks, short, strict=True)]
    values = [np.pad(block["values"], ((0, 0), (0, 0), (0, by))) for block, by in zip(blocks, short, strict=True)]
    return Columns(np.concatenate(docs), list(np.concatenate(values, axis=1)))
