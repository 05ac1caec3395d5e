"""Any engine with its index in several shards, here or on workers; their lists are merged exactly.

Workers need the folder of the index: they are on this machine, or share its file system.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self
from weakref import finalize

import numpy as np

from lexbench.encodings.shards import read_shard, write_shard
from lexbench.engines.kernels.checks import in_threads, no_hits, ordered
from lexbench.errors import CommandError, LexbenchError
from lexbench.executors.here import Here
from lexbench.plugins import Engine, Executor, Index, Worker
from lexbench.registry import runtime
from lexbench.types import Hits, Kind

_FACTS = "parts.json"


@dataclass(frozen=True)
class Sharded(Engine):
    """The lists are those of *engine* alone if it is exact: scores are the same, and ties go to the lower position.

    Each of the *shards* has consecutive documents, about as many as the others. Building needs the memory of one shard, and
    space on the disk for a copy of the vectors. *threads* search different shards at the same time. An approximate engine finds
    more in shards than in one index, because it searches each of them for k documents. With `--on` the workers named there
    build and open the shards, all at the same time. A worker that dies is replaced, and its shards are opened again.
    """

    engine: Engine
    shards: int = 2
    threads: int = runtime(1)

    kind: ClassVar[Any] = None  # these two are those of the engine
    exact: ClassVar[Any] = None
    # The executor whose workers build and search the shards, and a function that gets a line for each replaced worker.
    place: ClassVar[tuple[Executor, Callable[[str], None]]] = Here(), lambda _line: None

    def __post_init__(self) -> None:
        """Raise CommandError unless there is an engine, and one shard or more."""
        if not isinstance(self.engine, Engine):
            raise CommandError(f"sharded({self.engine!r}): name an engine, e.g. sharded(impact, shards=16)")
        if self.shards < 1 or self.threads < 1:
            raise CommandError(f"sharded(shards={self.shards}, threads={self.threads}): each is 1 or more")
        for name in ("kind", "exact", "impacts", "compressed", "deterministic"):
            object.__setattr__(self, name, getattr(self.engine, name))

    def for_kind(self, kind: Kind) -> Self:
        """Return a copy for vectors of *kind*."""
        return replace(self, engine=self.engine.for_kind(kind))

    def on_workers(self, executor: Executor, note: Callable[[str], None]) -> Self:
        """Return a copy whose shards the workers of *executor* build and search."""
        inner = self.engine
        if isinstance(inner, Sharded):
            inner = replace(inner)  # without workers: a worker searches all inner shards of its shard itself
        copy = replace(self, engine=inner)
        object.__setattr__(copy, "place", (executor, note))
        return copy

    def build(self, shards: Iterable[Any], path: Path) -> None:
        """Write an index of the engine for each shard into a folder of *path*; a shard without documents has none."""
        with TemporaryDirectory(dir=path) as folder:
            counts = []
            for number, vectors in enumerate(shards):
                write_shard(Path(folder, str(number)), vectors)
                counts.append(int(vectors.shape[0]))
            ends = np.cumsum(counts)
            total = int(ends[-1]) if counts else 0
            # A file of vectors belongs to the shard in which its middle lies.
            belongs = (ends - np.array(counts) / 2) * self.shards // max(total, 1)
            numbers = [np.flatnonzero(belongs == shard).tolist() for shard in range(self.shards)]
            filled = [some for some in numbers if sum(counts[number] for number in some)]
            made = _Shards(self.engine, path.absolute())

            def build(at: int) -> None:
                files = [Path(folder, str(number)).absolute() for number in filled[at]]
                _call(made, workers, at, "build", files)
                for file in files:  # the shard has been built from them
                    file.unlink()

            with self.workers(made, len(filled)) as workers:
                in_threads(build, range(len(filled)), len(workers))
        starts = [int(ends[some[0]] - counts[some[0]]) for some in filled]
        (path / _FACTS).write_text(json.dumps({"documents": total, "starts": starts}), encoding="utf-8")

    def workers(self, made: "_Shards", count: int) -> AbstractContextManager[Sequence[Worker]]:
        """Return a context with workers for *count* shards; without any, this process does the work."""
        executor, note = self.place
        return executor.index_workers(made, count, note)

    def drop(self, path: Path) -> None:
        """Remove what the engine keeps elsewhere of each shard."""
        for folder in path.glob("part-*"):
            self.engine.drop(folder)

    def open(self, path: Path) -> "ShardedIndex":
        """Open the index of every shard."""
        return ShardedIndex(self, path)


class ShardedIndex(Index):
    """An opened index. Its workers end when nothing refers to it any more."""

    def __init__(self, settings: Sharded, path: Path) -> None:
        stored = json.loads((path / _FACTS).read_bytes())
        self._documents = int(stored["documents"])
        self._starts: list[int] = stored["starts"]
        self._made = _Shards(settings.engine, path.absolute())
        with ExitStack() as stack:
            self._workers = stack.enter_context(settings.workers(self._made, len(self._starts))) if self._starts else ()
            self._threads = len(self._workers) or settings.threads
            self._each("open")
            finalize(self, stack.pop_all().close)
        self.transfer = 0.0

    def _each(self, method: str, *arguments: Any) -> list[Any]:
        """Return the answers of all shards, in order."""
        numbers = range(len(self._starts))
        return in_threads(lambda at: _call(self._made, self._workers, at, method, *arguments), numbers, self._threads)

    def search(self, queries: Any, k: int) -> Hits:
        """Return the best *k* documents of each of *queries*, vectors of the engine's kind."""
        if not self._starts or not queries.shape[0]:
            return no_hits(int(queries.shape[0]), min(k, self._documents))
        begin, before = time.perf_counter(), [worker.spent for worker in self._workers]
        found = self._each("search", queries, k)
        docs = [np.where(hits.docs >= 0, hits.docs + start, -1) for hits, start in zip(found, self._starts, strict=True)]
        scores = [np.where(hits.docs >= 0, hits.scores, np.float32(-np.inf)) for hits in found]
        merged = ordered(np.concatenate(docs, axis=1).astype(np.int32), np.concatenate(scores, axis=1))
        width = min(k, self._documents)
        hits = Hits(np.ascontiguousarray(merged.docs[:, :width]), np.ascontiguousarray(merged.scores[:, :width]))
        if self._workers:
            longest = max(worker.spent - spent for worker, spent in zip(self._workers, before, strict=True))
            self.transfer += time.perf_counter() - begin - longest
        return hits


@dataclass(frozen=True)
class _Shards:
    """The shards of an index in the folder *path*. Each process has a copy, with the shards that it has opened."""

    engine: Engine
    path: Path
    _opened: dict[int, Index] = field(default_factory=dict, repr=False, compare=False)

    def build(self, number: int, files: Sequence[Path]) -> None:
        """Build one shard of the vectors in *files*."""
        folder = self._folder(number)
        rmtree(folder, ignore_errors=True)  # of a worker that died
        folder.mkdir()
        self.engine.build(map(read_shard, files), folder)

    def open(self, number: int) -> None:
        """Open a shard, unless it is open."""
        if number not in self._opened:
            self._opened[number] = self.engine.open(self._folder(number))

    def search(self, number: int, queries: Any, k: int) -> Hits:
        """Return the best *k* documents of one shard."""
        self.open(number)
        return self._opened[number].search(queries, k)

    def _folder(self, number: int) -> Path:
        if not self.path.is_dir():
            raise LexbenchError(f"a worker on {os.uname().nodename} does not see {self.path}: share the store with its machine")
        return self.path / f"part-{number}"


def _call(made: _Shards, workers: Sequence[Worker], number: int, method: str, *arguments: Any) -> Any:
    """Return the answer of a shard of *made*, in this process or on its worker."""
    if workers:
        return workers[number % len(workers)].call(method, number, *arguments)
    return getattr(made, method)(number, *arguments)
