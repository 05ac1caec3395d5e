"""The run of a system on a dataset, as an artifact, and the files that runs are stored in.

A run is searched and stored block by block, so that an interrupted one continues.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from sys import maxsize
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from lexbench.artifacts.corpora import DatasetCorpus, StoredTexts
from lexbench.artifacts.describe import describe
from lexbench.artifacts.searches import Search
from lexbench.artifacts.turns import Turns, on_workers, with_remote_rerankers
from lexbench.datasets.corpus import StoredCorpus
from lexbench.datasets.dataset import Dataset
from lexbench.encodings.counts import spread
from lexbench.engines.kernels.checks import as_hits
from lexbench.errors import LexbenchError
from lexbench.plugins import Retriever, Searcher
from lexbench.runner.systems import System
from lexbench.storage import atomic
from lexbench.storage.array_files import array_bytes
from lexbench.storage.artifact_folder import CHANGED, KeyFacts
from lexbench.storage.code import code_facts, without_code
from lexbench.storage.drafting import Draft, DraftBlock
from lexbench.storage.environment import packages_of
from lexbench.storage.node import Node, Parts, Stored
from lexbench.storage.stopwatch import Stopwatch
from lexbench.trec.ids import encode as encode_ids
from lexbench.trec.ids import lookup
from lexbench.trec.runs import Filtered, Run, without_self_matches
from lexbench.types import Hits, Query

_QUERIES = 256  # searched at a time; each block is stored, so an interrupted run loses at most one
_WORK = "work."  # before the names of counts, in a block's file
_ENTRY = 16  # bytes per document of a list in a run, which is written in blocks, and then whole


class Data(NamedTuple):
    """A dataset and its corpus as an artifact, which the jobs of a dataset share."""

    dataset: Dataset
    corpus: StoredTexts

    @property
    def drops_self_matches(self) -> bool:
        """Whether the contract drops a query's own document from its list."""
        return self.dataset.contract.protocol.self_match == "drop"

    def encoded(self, searcher: Searcher, queries: Sequence[Query], corpus: StoredCorpus) -> Any:
        """Return *queries* as *searcher* takes them; fusions leave out self-matches before scores are made comparable."""
        encoded = searcher.encode_queries(queries)
        return searcher.without(encoded, own_positions(corpus, queries)) if self.drops_self_matches else encoded


def data_of(dataset: Dataset) -> Data:
    """Return a dataset with its corpus."""
    return Data(dataset, DatasetCorpus(dataset))


@dataclass(frozen=True)
class SystemRun(Node[Filtered]):
    """The run of a system: searched to *depth*, self-matches dropped, in canonical order."""

    data: Data
    system: System
    depth: int
    kind: ClassVar[str] = "runs"
    resumable: ClassVar[bool] = True

    def label(self) -> str:
        """Return the dataset and the name of the system."""
        return f"{self.data.dataset.contract.id} {self.system.name}"

    def parts(self) -> Mapping[str, Node[Any]]:
        """Return the corpus, whose ids a run needs, and what is searched."""
        return {"corpus": self.data.corpus, "system": Search(self.data.corpus, self.system.retriever)}

    def reads(self) -> tuple[str, ...]:
        """Return the corpus."""
        return ("corpus",)

    def facts(self) -> KeyFacts:
        """Return what else decides a run."""
        return {
            "retriever": self.system.recipe,
            "queries": self.data.dataset.digests["queries"],
            "depth": self.depth,
            "self_match": "drop" if self.data.drops_self_matches else "keep",
            **code_facts("lexbench.runner.search"),
        }

    def bytes_needed(self) -> float:
        """Return the bytes of full lists."""
        queries = len(self.data.dataset.queries) or self.data.dataset.contract.expected.queries or 0
        return queries * min(self.depth, self.data.corpus.documents) * _ENTRY

    def make(self, draft: Draft, parts: Parts) -> None:
        """Search: block by block, then all of it goes into one file."""
        data, watch, what = self.data, draft.watch, f"{self.system.name} on {self.data.dataset.contract.id}"
        queries, corpus, drop = data.dataset.queries, parts["corpus"], data.drops_self_matches
        watch.packages = packages_of(self.system.retriever)
        if self.system.retriever.reranker and (line := self.system.retriever.reranker.slow_note()):
            draft.progress.note(f"{what}: {line}")
        with opened_search(parts, self.data.corpus, self.system.retriever, draft) as (searcher, turns):

            def search(block: DraftBlock, watch: Stopwatch) -> tuple[Hits, Mapping[str, NDArray[np.int64]]]:
                with watch.time("encode_queries"):
                    encoded = data.encoded(searcher, block.items, corpus)
                with watch.time("search"):
                    found = searcher.search(encoded, self.depth + drop)
                return as_hits(found, type(searcher).__name__, len(block.items)), searcher.work(encoded)

            size = block_size(searcher)
            for block, (hits, work) in turns.answers(draft.blocks(queries, size, what, "search", "queries"), search, watch):
                if self.system.reusable and without_code(describe(self.system.retriever)) != without_code(self.system.recipe):
                    raise LexbenchError(f"{what}: {CHANGED}")
                draft.keep(block, hits._asdict() | {_WORK + name: counts for name, counts in work.items()})
        found = draft.joined(len(queries), size)
        run = Run.from_hits((query.query_id for query in queries), Hits(found["docs"], found["scores"]), corpus.doc_ids)
        write_run(without_self_matches(run, self.depth) if drop else Filtered(run.cut(self.depth), 0), draft.folder, corpus)
        spreads = {name.removeprefix(_WORK): spread(found[name]) for name in found if name.startswith(_WORK)}
        atomic.write_text(draft.folder / "work.json", json.dumps(spreads) + "\n")
        draft.forget_blocks()

    def open(self, stored: Stored | None, parts: Parts) -> Filtered:
        """Return the run."""
        assert stored is not None
        return _read_run(stored.folder, parts["corpus"])


@contextmanager
def opened_search(parts: Parts, corpus: StoredTexts, retriever: Retriever, draft: Draft) -> Iterator[tuple[Searcher, Turns]]:
    """Open the part "system" with the workers of the executor, if any, and yield it with the turns to search it in."""
    note = draft.progress.note
    with with_remote_rerankers(retriever, draft.executor, note) as (remote, turns):
        with draft.watch.time("open"):
            searcher = parts.opened_as("system", Search(corpus, on_workers(remote, draft.executor, note)))
        yield searcher, turns


def block_size(searcher: Searcher) -> int:
    """Return how many queries a searcher is given at a time."""
    return maxsize if searcher.one_call else min(_QUERIES, searcher.queries_at_a_time)


def own_positions(corpus: StoredCorpus, queries: Sequence[Query]) -> NDArray[np.int32]:
    """Return the position of each query's own document (queries,), which has the query's id; -1 if there is none."""
    return lookup(corpus.doc_ids, encode_ids(query.query_id for query in queries)).astype(np.int32)


# ---- files of a run: arrays and query ids; the document ids stay with the corpus -------------------------------------------


def write_run(ranked: Filtered, folder: Path, corpus: StoredCorpus) -> None:
    """Write a run: its arrays, its query ids, and the folder name of the corpus, which has the document ids."""
    run = ranked.run
    arrays = array_bytes({"offsets": run.offsets, "docs": run.docs, "scores": run.scores})
    atomic.write_bytes(folder / "run.safetensors", arrays)
    facts = {"corpus": corpus.path.name, "self_matches": ranked.dropped, "queries": run.query_ids}
    atomic.write_text(folder / "run.json", json.dumps(facts, ensure_ascii=False) + "\n")


def _read_run(folder: Path, corpus: StoredCorpus) -> Filtered:
    arrays = load_file(folder / "run.safetensors")
    facts = json.loads((folder / "run.json").read_bytes())
    run = Run(tuple(facts["queries"]), arrays["offsets"], arrays["docs"], arrays["scores"], corpus.doc_ids)
    return Filtered(run, facts["self_matches"])


def corpus_of_run(folder: Path) -> Stored:
    """Return the corpus that a run in the store names; it may be gone."""
    return Stored(folder.parent.parent / "corpora" / json.loads((folder / "run.json").read_bytes())["corpus"])


def read_run(folder: Path) -> Filtered:
    """Read what `write_run` wrote into an artifact of the store, which also has its corpus."""
    return _read_run(folder, StoredCorpus(corpus_of_run(folder).folder))
