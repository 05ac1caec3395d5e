"""Any engine with its index in several shards, here or on workers; their lists are merged exactly.

A worker that sees the same files works with them, because it is on this machine or shares its file system. Another worker is
sent the files that it needs, and what it builds is fetched, both in pieces, so that nobody holds a shard in memory for that.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from shutil import move
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple, Self
from weakref import finalize

import numpy as np

from lexbench.encodings.shards import read_shard, write_shard
from lexbench.engines.kernels.checks import no_hits, ordered
from lexbench.errors import CommandError
from lexbench.executors.here import Here
from lexbench.plugins import Engine, Executor, Held, Holdable, Index
from lexbench.registry import runtime
from lexbench.types import Hits

_FACTS = "parts.json"
_PIECE = 32 << 20  # bytes that travel at a time


def _ignore(_line: str) -> None:
    """Ignore a note."""


class _Place(NamedTuple):
    """Where shards are built and searched."""

    executor: Executor = Here()
    note: Callable[[str], None] = _ignore  # called with a line for each worker that is replaced

    @property
    def elsewhere(self) -> bool:
        """Whether that is outside this process, so that `threads` does not count."""
        return not isinstance(self.executor, Here)


@dataclass(frozen=True)
class Sharded(Engine):
    """The lists are those of *engine* alone if it is exact: scores are the same, and ties go to the lower position.

    Each of the *shards* has consecutive documents, about as many as the others. Building takes the memory of one shard, and a
    copy of the vectors on the disk meanwhile. *threads* search different shards at the same time. An approximate engine finds
    more in shards than in one index, because each is asked for k. With `--on` the workers that it names build and hold the
    shards, all at the same time; a worker that dies is replaced, and its shards are loaded again.
    """

    engine: Engine
    shards: int = 2
    threads: int = runtime(1)
    place: _Place = field(default=_Place(), init=False, repr=False, compare=False)

    kind: ClassVar[Any] = None  # these two are those of the engine
    exact: ClassVar[Any] = None

    def __post_init__(self) -> None:
        """Raise CommandError unless there is an engine, and one shard or more."""
        if not isinstance(self.engine, Engine):
            raise CommandError(f"sharded({self.engine!r}): name an engine, e.g. sharded(impact, shards=16)")
        if self.shards < 1 or self.threads < 1:
            raise CommandError(f"sharded(shards={self.shards}, threads={self.threads}): each is 1 or more")
        for name in ("kind", "exact", "impacts", "compressed", "deterministic"):
            object.__setattr__(self, name, getattr(self.engine, name))

    def on_workers(self, executor: Executor, note: Callable[[str], None]) -> Self:
        """Return a copy whose shards the workers of *executor* build and search."""
        inner = self.engine
        if isinstance(inner, Sharded):
            inner = replace(inner)  # its shards are where the shard is that they belong to
        copy = replace(self, engine=inner)
        object.__setattr__(copy, "place", _Place(executor, note))
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
            self._build(Path(folder), filled, path)
        starts = [int(ends[some[0]] - counts[some[0]]) for some in filled]
        (path / _FACTS).write_text(json.dumps({"documents": total, "starts": starts}), encoding="utf-8")

    def _build(self, vectors: Path, shards: Sequence[Sequence[int]], path: Path) -> None:
        """Let workers build the *shards*, each from the files with its numbers in the folder *vectors*."""
        asked = [ShardToBuild(self.engine, vectors.absolute(), tuple(map(str, numbers))) for numbers in shards]

        def fetch(at: int, held: Held) -> None:
            asked[at].fetch(held, _folder(path.absolute(), at))
            for name in asked[at].names:  # no worker needs them again
                (vectors / name).unlink()

        with self.place.executor.hold(asked, self.place.note) as built:
            _at_once(fetch, built, len({shard.worker for shard in built}) if self.place.elsewhere else 1)

    def open(self, path: Path) -> "ShardedIndex":
        """Open the index of every shard."""
        return ShardedIndex(self, path)


class ShardedIndex(Index):
    """An opened index. Its workers end when nothing refers to it any more."""

    def __init__(self, settings: Sharded, path: Path) -> None:
        stored = json.loads((path / _FACTS).read_bytes())
        self._documents = int(stored["documents"])
        self._starts: list[int] = stored["starts"]
        folders = [_folder(path.absolute(), number) for number in range(len(self._starts))]
        asked = [ShardToSearch(settings.engine, folder, files_of(folder)) for folder in folders]
        with ExitStack() as stack:
            self._shards = stack.enter_context(settings.place.executor.hold(asked, settings.place.note)) if asked else []
            self._elsewhere = settings.place.elsewhere
            self._threads = len({shard.worker for shard in self._shards}) if self._elsewhere else settings.threads
            _at_once(lambda _, shard: shard.call("lacking"), self._shards, self._threads)  # the first call loads the shard
            finalize(self, stack.pop_all().close)
        self.transfer = 0.0

    def search(self, queries: Any, k: int) -> Hits:
        """Return the best *k* documents of each of *queries*, vectors of the engine's kind."""
        if not self._shards or not queries.shape[0]:
            return no_hits(int(queries.shape[0]), min(k, self._documents))
        begin, before = time.perf_counter(), self._spent()
        found = _at_once(lambda _, shard: shard.call("search", queries, k), self._shards, self._threads)
        last = np.iinfo(np.int32).max  # sorts behind every document of the same score, here -inf
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
        return Counter({shard.worker: shard.spent for shard in self._shards})


def _folder(path: Path, number: int) -> Path:
    """Return the folder of one shard of the index in *path*."""
    return path / f"part-{number}"


def _at_once(act: Callable[[int, Held], Any], held: Sequence[Held], threads: int) -> list[Any]:
    """Return the results of *act* for the number of each object and the object, with so many *threads*."""
    if threads <= 1:
        return list(map(act, range(len(held)), held))
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(act, range(len(held)), held))


# ---- shards as workers hold them -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShardToBuild(Holdable):
    """What a worker makes a `BuiltShard` from: *names* of files in the folder *vectors*, which has a unique name."""

    engine: Engine
    vectors: Path
    names: Sequence[str]

    def make(self) -> "BuiltShard":
        """Return a shard that is not built yet."""
        return BuiltShard(self, seen=self.vectors.is_dir())

    def fill(self, held: Held) -> None:
        """Send the vectors to a worker that does not see them."""
        for name in held.call("lacking"):
            _send(held, self.vectors, name)

    def close(self, made: "BuiltShard") -> None:
        """Remove the files of *made*."""
        made.close()

    def fetch(self, held: Held, path: Path) -> None:
        """Let the worker build the shard, and move or copy it to the new folder *path*."""
        folder, files = held.call("built")
        if (self.vectors / folder).is_dir():
            move(self.vectors / folder, path)
            return
        for name, size in files.items():
            file = path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("wb") as out:
                for at in range(0, size, _PIECE):
                    out.write(held.call("piece", name, at))


class BuiltShard:
    """A shard on the worker that builds it: in the folder of the vectors if it is *seen*, else in a folder of its own."""

    def __init__(self, asked: ShardToBuild, *, seen: bool) -> None:
        self._asked, self._seen = asked, seen
        self._own = TemporaryDirectory(prefix="lexbench-", dir=asked.vectors if self._seen else None)
        self._vectors = asked.vectors if self._seen else Path(self._own.name, "vectors")

    def lacking(self) -> Sequence[str]:
        """Return the names of the files of vectors that the worker needs."""
        return () if self._seen else self._asked.names

    def write(self, name: str, at: int, piece: bytes) -> None:
        """Write one piece of a file of vectors."""
        _write(self._vectors / name, at, piece)

    @cached_property
    def _folder(self) -> Path:
        """The folder of the shard, built when it is first asked for."""
        folder = Path(self._own.name, "part")
        folder.mkdir()
        self._asked.engine.build((read_shard(self._vectors / name) for name in self._asked.names), folder)
        return folder

    def built(self) -> tuple[str, Mapping[str, int]]:
        """Return the shard's folder, relative to the folder of the vectors, and the size of each of its files."""
        folder = self._folder
        return f"{folder.parent.name}/{folder.name}", {name: size for name, (size, _) in files_of(folder).items()}

    def piece(self, name: str, at: int) -> bytes:
        """Return the piece of a file that begins at byte *at*."""
        return _piece(self._folder / name, at)

    def close(self) -> None:
        """Remove what it wrote."""
        self._own.cleanup()


@dataclass(frozen=True)
class ShardToSearch(Holdable):
    """What a worker makes an `OpenedShard` from: the index of *engine* in *folder*."""

    engine: Engine
    folder: Path
    files: Mapping[str, tuple[int, int]] = field(repr=False)  # see `files_of`

    def make(self) -> "OpenedShard":
        """Return a shard that is not open yet."""
        return OpenedShard(self)

    def fill(self, held: Held) -> None:
        """Send the files to a worker that does not see them, and let it open them."""
        for name in held.call("lacking"):
            _send(held, self.folder, name)
        held.call("open")

    def close(self, made: "OpenedShard") -> None:
        """Remove the files of *made*."""
        made.close()


class OpenedShard:
    """A shard on the worker that searches it."""

    def __init__(self, asked: ShardToSearch) -> None:
        self._asked, self._folder = asked, asked.folder
        self._index: Any = None
        self._sent: TemporaryDirectory[str] | None = None
        if not self._folder.is_dir() or files_of(self._folder) != asked.files:
            self._sent = TemporaryDirectory(prefix="lexbench-")
            self._folder = Path(self._sent.name)

    def lacking(self) -> Sequence[str]:
        """Return the names of the files that the worker needs."""
        return tuple(self._asked.files) if self._sent else ()

    def write(self, name: str, at: int, piece: bytes) -> None:
        """Write one piece of a file."""
        _write(self._folder / name, at, piece)

    def open(self) -> None:
        """Open the index."""
        self._index = self._asked.engine.open(self._folder)

    def search(self, queries: Any, k: int) -> Hits:
        """Return the best *k* documents of the shard."""
        hits: Hits = self._index.search(queries, k)
        return hits

    def close(self) -> None:
        """Remove the files that it was sent."""
        self._index = None
        if self._sent:
            self._sent.cleanup()


def files_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the size of each file below *folder* and its time of change in nanoseconds, by its relative name."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): (file.stat().st_size, file.stat().st_mtime_ns) for file in files}


def _send(held: Held, folder: Path, name: str) -> None:
    """Send one file, which may be empty."""
    for at in range(0, max((folder / name).stat().st_size, 1), _PIECE):
        held.call("write", name, at, _piece(folder / name, at))


def _piece(file: Path, at: int) -> bytes:
    """Return the piece of *file* that begins at byte *at*."""
    with file.open("rb") as content:
        content.seek(at)
        return content.read(_PIECE)


def _write(file: Path, at: int, piece: bytes) -> None:
    """Write *piece* to *file* at byte *at*."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("r+b" if at else "wb") as out:
        out.seek(at)
        out.write(piece)
