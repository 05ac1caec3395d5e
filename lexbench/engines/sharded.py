"""Any engine, its index in several parts, here or with workers: each is built and searched, and their lists merged exactly."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple, Self
from weakref import finalize

import numpy as np

from lexbench.encodings.shards import write_shard
from lexbench.engines._parts import PartToBuild, PartToSearch, facts
from lexbench.engines.kernels.checks import no_hits, ordered
from lexbench.errors import CommandError
from lexbench.executors.here import Here
from lexbench.plugins import Engine, Executor, Held, Index
from lexbench.registry import runtime
from lexbench.types import Hits

_FACTS = "parts.json"


def _untold(_line: str) -> None:
    """Tell nobody."""


class _Place(NamedTuple):
    """Where parts are."""

    executor: Executor = Here()
    note: Callable[[str], None] = _untold  # told of workers that are replaced

    @property
    def elsewhere(self) -> bool:
        """Whether that is not this process, whose threads are a setting."""
        return not isinstance(self.executor, Here)


@dataclass(frozen=True)
class Sharded(Engine):
    """The lists are those of *engine* alone, where that is exact: scores are the same, and ties go to the lower position.

    Each of the *parts* has documents that follow one another, as many as the others but for a shard. Building takes the memory
    of one part, and a copy of the vectors on the disk meanwhile. *threads* search different parts at the same time. An engine
    that is not exact finds more in parts than in one index, since each is asked for k. With `--on` the parts are built and held
    by the workers that it names, all at the same time; a worker that dies is replaced, and its parts are loaded again.
    """

    engine: Engine
    parts: int = 2
    threads: int = runtime(1)
    place: _Place = field(default=_Place(), init=False, repr=False, compare=False)

    kind: ClassVar[Any] = None  # this and the next are those of the engine
    exact: ClassVar[Any] = None
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Refuse what is no engine, and fewer parts than one."""
        if not isinstance(self.engine, Engine):
            raise CommandError(f"sharded({self.engine!r}): name an engine, as in sharded(impact, parts=16)")
        if self.parts < 1 or self.threads < 1:
            raise CommandError(f"sharded(parts={self.parts}, threads={self.threads}): each is 1 or more")
        for name in ("kind", "exact", "impacts", "compressed", "deterministic"):
            object.__setattr__(self, name, getattr(self.engine, name))

    def on_workers(self, executor: Executor, note: Callable[[str], None]) -> Self:
        """Return a copy whose parts the workers of *executor* build and search."""
        inner = self.engine
        if isinstance(inner, Sharded):  # its parts are where the part is that they are of
            inner = replace(inner)
        copy = replace(self, engine=inner)
        object.__setattr__(copy, "place", _Place(executor, note))
        return copy

    def build(self, shards: Iterable[Any], path: Path) -> None:
        """Write an index of the engine for each part into a folder of *path*; a part without documents has none."""
        with TemporaryDirectory(dir=path) as folder:
            counts = []
            for number, shard in enumerate(shards):
                write_shard(Path(folder, str(number)), shard)
                counts.append(int(shard.shape[0]))
            ends = np.cumsum(counts)
            total = int(ends[-1]) if counts else 0
            # A shard belongs to the part in which its middle lies.
            belongs = (ends - np.array(counts) / 2) * self.parts // max(total, 1)
            numbers = [np.flatnonzero(belongs == part).tolist() for part in range(self.parts)]
            filled = [some for some in numbers if sum(counts[number] for number in some)]
            self._build(Path(folder), filled, path)
        starts = [int(ends[some[0]] - counts[some[0]]) for some in filled]
        (path / _FACTS).write_text(json.dumps({"documents": total, "starts": starts}), encoding="utf-8")

    def _build(self, vectors: Path, parts: Sequence[Sequence[int]], path: Path) -> None:
        """Let workers build the *parts*, each of the files with such numbers in the folder *vectors*."""
        asked = [PartToBuild(self.engine, vectors.absolute(), tuple(map(str, numbers))) for numbers in parts]

        def made(at: int, held: Held) -> None:
            asked[at].fetch(held, _part(path.absolute(), at))
            for name in asked[at].names:  # which no worker asks for again
                (vectors / name).unlink()

        with self.place.executor.hold(asked, self.place.note) as built:
            _at_once(made, built, len({part.worker for part in built}) if self.place.elsewhere else 1)

    def open(self, path: Path) -> "ShardedIndex":
        """Open the index of every part."""
        return ShardedIndex(self, path)


def _part(path: Path, number: int) -> Path:
    """Return the folder of one part of the index in *path*."""
    return path / f"part-{number}"


def _at_once(act: Callable[[int, Held], Any], held: Sequence[Held], threads: int) -> list[Any]:
    """Return what *act* returns of each object and its number, so many of them at the same time."""
    if threads <= 1:
        return list(map(act, range(len(held)), held))
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(act, range(len(held)), held))


class ShardedIndex(Index):
    """An opened index. Its workers end when nothing refers to it any more."""

    def __init__(self, settings: Sharded, path: Path) -> None:
        stored = json.loads((path / _FACTS).read_bytes())
        self._documents = int(stored["documents"])
        self._starts: list[int] = stored["starts"]
        folders = [_part(path.absolute(), number) for number in range(len(self._starts))]
        asked = [PartToSearch(settings.engine, folder, facts(folder)) for folder in folders]
        with ExitStack() as stack:
            self._parts = stack.enter_context(settings.place.executor.hold(asked, settings.place.note)) if asked else []
            self._elsewhere = settings.place.elsewhere
            self._threads = len({part.worker for part in self._parts}) if self._elsewhere else settings.threads
            _at_once(lambda _, part: part.call("lacking"), self._parts, self._threads)  # which loads them
            finalize(self, stack.pop_all().close)
        self.transfer = 0.0

    def search(self, queries: Any, k: int) -> Hits:
        """Return the best *k* documents of each of *queries*, whose kind is the engine's."""
        if not self._parts or not queries.shape[0]:
            return no_hits(int(queries.shape[0]), min(k, self._documents))
        begin, before = time.perf_counter(), self._spent()
        found = _at_once(lambda _, part: part.call("search", queries, k), self._parts, self._threads)
        last = np.iinfo(np.int32).max  # behind every document of the same score, which is that of nothing
        docs = [np.where(hits.docs >= 0, hits.docs + start, last) for hits, start in zip(found, self._starts, strict=True)]
        scores = [np.where(hits.docs >= 0, hits.scores, np.float32(-np.inf)) for hits in found]
        merged = ordered(np.concatenate(docs, axis=1).astype(np.int32), np.concatenate(scores, axis=1))
        width = min(k, self._documents)
        best, score = merged.docs[:, :width], merged.scores[:, :width]
        hits = Hits(np.where(best == last, np.int32(-1), best), np.ascontiguousarray(score))
        if self._elsewhere:
            longest = max((self._spent() - before).values(), default=0.0)
            self.transfer += time.perf_counter() - begin - longest
        return hits

    def _spent(self) -> Counter[int]:
        """Return the seconds that each worker has spent, by its number."""
        return Counter({part.worker: part.spent for part in self._parts})
