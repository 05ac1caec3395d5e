"""Searching: the corpus and the runs of systems on one dataset, and the files that runs are stored in.

A run is searched and stored block by block, so that an interrupted one continues.
"""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from queue import SimpleQueue
from sys import maxsize
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save

from lexbench.datasets.corpus import InvalidDocument, StoredCorpus, write_corpus
from lexbench.datasets.dataset import Dataset
from lexbench.encodings.counts import spread
from lexbench.errors import InvalidFile, LexbenchError
from lexbench.executors import executor
from lexbench.plugins import Executor, Reranker, Retriever, Searcher, Worker
from lexbench.progress import Progress
from lexbench.registry import replace_plugins
from lexbench.runner.artifacts import FORMAT, Artifacts, Workspace, counted
from lexbench.runner.systems import System, rerankers
from lexbench.storage import atomic
from lexbench.storage.artifact_folder import KeyFacts, key_of
from lexbench.storage.code import code_facts
from lexbench.storage.environment import packages_of
from lexbench.storage.stopwatch import Stopwatch
from lexbench.storage.store import Store
from lexbench.trec.ids import encode as encode_ids
from lexbench.trec.ids import lookup
from lexbench.trec.runs import Filtered, Run, without_self_matches
from lexbench.types import Document, Hits, Query

Item = TypeVar("Item")
Answer = TypeVar("Answer")

# ---- reranking on workers --------------------------------------------------------------------------------------------------
# A worker gets the calls of `Reranker.score` that searching makes, so the scores have the same bits wherever they are computed.


class Turns:
    """How many blocks are searched at once: one computes in this process while *workers* score the pairs of others.

    Without workers, blocks are searched one by one.
    """

    def __init__(self, workers: Sequence[Worker] = ()) -> None:
        self._count, self._lock = len(workers), Lock()
        self._free: SimpleQueue[Worker] = SimpleQueue()
        for worker in workers:
            self._free.put(worker)

    def score(self, number: int, queries: Sequence[str], documents: Sequence[Document]) -> NDArray[np.float32]:
        """Let a free worker score pairs by its reranker *number*; another block can be searched meanwhile."""
        self._lock.release()
        try:
            worker = self._free.get()
            try:
                return np.asarray(worker.call("score", number, queries, documents), np.float32)
            finally:
                self._free.put(worker)
        finally:
            self._lock.acquire()

    def answers(
        self, items: Iterable[Item], answer: Callable[[Item, Stopwatch], Answer], watch: Stopwatch
    ) -> Iterator[tuple[Item, Answer]]:
        """Yield each item with its *answer*, in order. With workers, all time counts as search time."""
        if not self._count:
            yield from ((item, answer(item, watch)) for item in items)
            return

        def locked(item: Item) -> Answer:
            with self._lock:
                return answer(item, Stopwatch())

        def result(future: Future[Answer]) -> Answer:
            with watch.time("search"):
                return future.result()

        pool = ThreadPoolExecutor(self._count)
        waiting: deque[tuple[Item, Future[Answer]]] = deque()
        try:
            for item in items:
                waiting.append((item, pool.submit(locked, item)))
                if len(waiting) > self._count:
                    first, future = waiting.popleft()
                    yield first, result(future)
            yield from ((first, result(future)) for first, future in waiting)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class RemoteReranker(Reranker):
    """A reranker of which workers have copies, by its number there."""

    reranker: Reranker
    number: int
    turns: Turns = field(compare=False)

    def score(self, queries: Sequence[str], documents: Sequence[Document]) -> NDArray[np.float32]:
        """Return the scores of a worker."""
        return self.turns.score(self.number, queries, documents)

    def identity(self) -> Mapping[str, Any]:
        """Return the identity of the reranker."""
        return self.reranker.identity()


@contextmanager
def with_remote_rerankers(
    retriever: Any, executor: Executor | None, note: Callable[[str], None]
) -> Iterator[tuple[Any, Turns]]:
    """Yield *retriever* with rerankers that score on workers of *executor*, if it has any, and the turns to search in."""
    distinct: list[Reranker] = []
    for reranker in rerankers(retriever):
        if reranker not in distinct:
            distinct.append(reranker)
    with executor.reranking_workers(distinct, note) if distinct and executor else nullcontext([]) as workers:
        turns = Turns(workers)

        def remote(plugin: Any) -> Any:
            return RemoteReranker(plugin, distinct.index(plugin), turns) if isinstance(plugin, Reranker) else plugin

        yield replace_plugins(retriever, remote) if workers else retriever, turns


# ---- runs ------------------------------------------------------------------------------------------------------------------

_QUERIES = 256  # searched at a time; each block is stored, so an interrupted run loses at most one
_WORK = "work."  # before the names of counts, in a block's file


@dataclass(frozen=True)
class MadeRun:
    """The artifacts of one search."""

    folder: Path  # of the run
    index: Path


class Block(NamedTuple):
    """Queries that are searched at once."""

    queries: Sequence[Query]
    file: Path  # of its hits; not there yet


@dataclass
class DatasetRunner:
    """Makes, or finds in the store, the corpus and the runs of one dataset."""

    dataset: Dataset
    store: Store
    progress: Progress
    executor: Executor | None = field(default_factory=executor)  # encodes corpora; None: the one that suits the encoder

    @cached_property
    def workspace(self) -> Workspace:
        """Where artifacts are made."""
        return Workspace(self.store, self.progress, self.executor)

    @cached_property
    def artifacts(self) -> Artifacts:
        """What is made from the corpus."""
        return Artifacts(self.corpus, self.dataset.contract.corpus, self.workspace)

    @property
    def drops_self_matches(self) -> bool:
        """Whether the contract drops a query's own document from its list."""
        return self.dataset.contract.protocol.self_match == "drop"

    # ---- the corpus

    @cached_property
    def corpus(self) -> StoredCorpus:
        """The corpus, read from its source once and checked against the contract before it is kept."""
        name, source = self.dataset.contract.corpus, self.dataset.source
        code = code_facts("lexbench.datasets.corpus", type(source))
        facts: KeyFacts = {"format": FORMAT, "source": source.identity(), **code}
        with self.store.draft("corpora", name, facts) as draft:
            if draft.unfinished:
                self.progress.start(name, "read corpus", self.dataset.contract.expected.documents, "documents")
                watch = Stopwatch()
                with watch.time("read"):
                    self._write_corpus(draft.unfinished)
                self.dataset.check_corpus(StoredCorpus(draft.unfinished))
                atomic.write_text(draft.unfinished / "remarks.json", json.dumps(source.notes()) + "\n")
                watch.write(draft.unfinished)
                self.progress.end()
        corpus = StoredCorpus(draft.folder)
        self.dataset.check_corpus(corpus)  # a corpus may have been kept under an older contract
        return corpus

    def _write_corpus(self, path: Path) -> None:
        """Write the corpus into *path*. Raises InvalidFile, with the place if the source knows it, for an invalid document."""
        source = self.dataset.source
        try:
            write_corpus(counted(source.documents(), self.progress), path)
        except InvalidDocument as error:
            if not (place := source.place("documents", error.doc_id)):
                raise
            raise InvalidFile(f"{place}: {error}") from None

    @property
    def notes(self) -> list[str]:
        """Notes about this copy of the corpus for readers of scores."""
        return list(json.loads((self.corpus.path / "remarks.json").read_bytes()))

    # ---- runs

    def run(self, system: System, depth: int) -> MadeRun:
        """Return the run of *system*: searched to *depth*, self-matches dropped, in canonical order; and its index."""
        index = self.artifacts.index(system.retriever, system.name)
        facts: KeyFacts = {
            "format": FORMAT,
            "index": key_of(index),
            "retriever": system.recipe,
            "queries": self.dataset.digests["queries"],
            "depth": depth,
            "self_match": "drop" if self.drops_self_matches else "keep",
            **code_facts("lexbench.runner.search"),
        }
        label = f"{self.dataset.contract.id} {system.name}"
        with self.workspace.draft("runs", label, facts, resumable=True) as draft:
            if draft.unfinished:
                self._search(system, index, depth, draft.unfinished)
        return MadeRun(draft.folder, index)

    def _search(self, system: System, index: Path, depth: int, path: Path) -> None:
        """Write a run into *path*: block by block, then all of it in one file."""
        retriever, what, drop = system.retriever, f"{system.name} on {self.dataset.contract.id}", self.drops_self_matches
        if retriever.finished:
            raise LexbenchError(f"{system.name} is a finished run, so there is nothing to search")
        watch = Stopwatch(packages=packages_of(retriever))
        if retriever.reranker:
            self.workspace.note_if_slow(retriever.reranker, what)
        with self.opened(retriever, index, watch) as (searcher, turns):

            def search(block: Block, watch: Stopwatch) -> tuple[Hits, Mapping[str, NDArray[np.int64]]]:
                with watch.time("encode_queries"):
                    encoded = self.encoded(searcher, block.queries)
                with watch.time("search"):
                    return searcher.search(encoded, depth + drop), searcher.work(encoded)

            blocks = self.blocks(path, block_size(searcher), watch, what)
            for block, (hits, work) in turns.answers(blocks, search, watch):
                # `save_file` would leave a temporary file behind if it is killed.
                atomic.write_bytes(block.file, save(hits._asdict() | {_WORK + name: counts for name, counts in work.items()}))
        found = joined([*map(load_file, block_files(path, len(self.dataset.queries), block_size(searcher)))])
        ids = (query.query_id for query in self.dataset.queries)
        run = Run.from_hits(ids, Hits(found["docs"], found["scores"]), self.corpus.doc_ids)
        write_run(without_self_matches(run, depth) if drop else Filtered(run.cut(depth), 0), path, self.corpus)
        spreads = {name.removeprefix(_WORK): spread(found[name]) for name in found if name.startswith(_WORK)}
        atomic.write_text(path / "work.json", json.dumps(spreads) + "\n")
        forget_blocks(path)
        watch.write(path)

    def encoded(self, searcher: Searcher, queries: Sequence[Query]) -> Any:
        """Return *queries* as *searcher* takes them; fusions leave out self-matches before scores are made comparable."""
        encoded = searcher.encode_queries(queries)
        return searcher.without(encoded, own_positions(self.corpus, queries)) if self.drops_self_matches else encoded

    @contextmanager
    def opened(self, retriever: Retriever, index: Path, watch: Stopwatch) -> Iterator[tuple[Searcher, Turns]]:
        """Open *index* with the workers of the executor, if any, and yield it with the turns to search it in."""
        with with_remote_rerankers(retriever, self.executor, self.progress.note) as (remote, turns):
            with watch.time("open"):
                searcher = self.workspace.with_workers(remote).open(index)
            yield searcher, turns

    def blocks(self, path: Path, size: int, watch: Stopwatch, what: str) -> Iterator[Block]:
        """Yield each block of *size* queries that has no file in *path* yet, and report progress."""
        queries = self.dataset.queries
        files = enumerate(block_files(path, len(queries), size))
        left = [Block(queries[at * size : (at + 1) * size], file) for at, file in files if not file.exists()]
        count = sum(len(block.queries) for block in left)
        watch.resumed = count < len(queries)
        self.progress.start(what, "search", count, "queries")
        for block in left:
            yield block
            self.progress.advance(len(block.queries))
        self.progress.end()


def block_size(searcher: Searcher) -> int:
    """Return how many queries a searcher is given at a time."""
    return maxsize if searcher.one_call else min(_QUERIES, searcher.queries_at_a_time)


def own_positions(corpus: StoredCorpus, queries: Sequence[Query]) -> NDArray[np.int32]:
    """Return the position of each query's own document (queries,), which has the query's id; -1 if there is none."""
    return lookup(corpus.doc_ids, encode_ids(query.query_id for query in queries)).astype(np.int32)


# ---- files of a run: arrays and query ids; the document ids stay with the corpus -------------------------------------------


def block_files(path: Path, queries: int, size: int) -> list[Path]:
    """Return the files of the blocks of *queries* queries, *size* each, in order."""
    starts = range(0, queries, size)
    return [path / f"part-{start:07d}-{min(start + size, queries):07d}.safetensors" for start in starts]


def forget_blocks(path: Path) -> None:
    """Remove the files of all blocks."""
    for file in path.glob("part-*"):
        file.unlink()


def joined(blocks: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Join the arrays of blocks by name, each (queries,) or (queries, k).

    A searcher may return fewer columns for some blocks, so these are padded to the largest k: `docs` with -1, others with 0.
    """
    whole = {}
    for name in blocks[0]:
        arrays, fill = [block[name] for block in blocks], -1 if name == "docs" else 0
        if arrays[0].ndim > 1:
            width = max(array.shape[1] for array in arrays)
            arrays = [np.pad(array, ((0, 0), (0, width - array.shape[1])), constant_values=fill) for array in arrays]
        whole[name] = np.concatenate(arrays)
    return whole


def write_run(ranked: Filtered, folder: Path, corpus: StoredCorpus) -> None:
    """Write a run: its arrays, its query ids, and the folder name of the corpus, which has the document ids."""
    run = ranked.run
    arrays = save({"offsets": run.offsets, "docs": run.docs, "scores": run.scores})
    atomic.write_bytes(folder / "run.safetensors", arrays)
    facts = {"corpus": corpus.path.name, "self_matches": ranked.dropped, "queries": run.query_ids}
    atomic.write_text(folder / "run.json", json.dumps(facts, ensure_ascii=False) + "\n")


def read_run(folder: Path) -> Filtered:
    """Read what `write_run` wrote into an artifact of the store, which also has its corpus."""
    arrays = load_file(folder / "run.safetensors")
    facts = json.loads((folder / "run.json").read_bytes())
    table = StoredCorpus(folder.parent.parent / "corpora" / facts["corpus"]).doc_ids
    run = Run(tuple(facts["queries"]), arrays["offsets"], arrays["docs"], arrays["scores"], table)
    return Filtered(run, facts["self_matches"])
