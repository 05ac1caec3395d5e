"""Reranking on workers: while a worker scores the pairs of one block of queries, this process searches the next.

A worker gets the calls of `Reranker.score` that searching makes, so the scores have the same bits wherever they are computed.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Lock
from typing import Any, TypeVar

from lexbench.engines.kernels.checks import as_scores
from lexbench.plugins import Engine, Executor, Reranker, Retriever, ScoredPairs, Worker
from lexbench.registry import replace_plugins
from lexbench.storage.stopwatch import Stopwatch
from lexbench.types import Document

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def rerankers(retriever: Retriever) -> Iterator[Any]:
    """Yield the rerankers of *retriever* and of its members."""
    if retriever.reranker:
        yield retriever.reranker
    for member in retriever.members:
        yield from rerankers(member)


def on_workers(retriever: Any, executor: Executor | None, note: Callable[[str], None]) -> Any:
    """Return *retriever* with engines that the workers of *executor*, if any, build and search, where engines can do so."""
    if executor is None:
        return retriever
    return replace_plugins(
        retriever, lambda plugin: plugin.on_workers(executor, note) if isinstance(plugin, Engine) else plugin
    )


class Turns:
    """How many blocks are searched at once: one computes in this process while *workers* score the pairs of others.

    Without workers, blocks are searched one by one.
    """

    def __init__(self, workers: Sequence[Worker] = ()) -> None:
        self._count, self._lock = len(workers), Lock()
        self._free: SimpleQueue[Worker] = SimpleQueue()
        for worker in workers:
            self._free.put(worker)

    def scored_pairs(self, number: int, queries: Sequence[str], documents: Sequence[Document]) -> Any:
        """Return what reranker *number* of a free worker returns for pairs; another block can be searched meanwhile."""
        self._lock.release()
        try:
            worker = self._free.get()
            try:
                return worker.call("scored_pairs", number, queries, documents)
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

    def scored_pairs(self, queries: Sequence[str], documents: Sequence[Document]) -> ScoredPairs:
        """Return what a worker makes of pairs. Raises LexbenchError, naming the reranker, for what are no scores."""
        found: ScoredPairs = self.turns.scored_pairs(self.number, queries, documents)
        return found._replace(scores=as_scores(found.scores, type(self.reranker).__name__, (len(documents),)))

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
