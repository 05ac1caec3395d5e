"""Any engine with its index in several shards, here or on workers; their lists are merged exactly.

A worker that sees the same files works with them, because it is on this machine or shares its file system. Another worker is
sent the files that it needs, and what it builds is fetched, both in pieces, so that nobody holds a shard in memory for that.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from shutil import move
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, ClassVar, NamedTuple, Self
from weakref import finalize

import numpy as np

from lexbench.encodings.shards import read_shard, write_shard
from lexbench.engines.kernels.checks import in_threads, no_hits, ordered
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
            self._build(Path(folder).absolute(), filled, path.absolute())
        starts = [int(ends[some[0]] - counts[some[0]]) for some in filled]
        (path / _FACTS).write_text(json.dumps({"documents": total, "starts": starts}), encoding="utf-8")

    def _build(self, vectors: Path, shards: Sequence[Sequence[int]], path: Path) -> None:
        """Let workers build the *shards*, each from the files with its numbers in the folder *vectors*."""
        files = files_of(vectors)
        asked = [ShardToBuild(self.engine, vectors, {str(number): files[str(number)] for number in some}) for some in shards]

        def fetch(at: int) -> None:
            asked[at].fetch(built[at], _folder(path, at))
            for name in asked[at].files:  # no worker needs them again
                (vectors / name).unlink()

        with self.place.executor.hold(asked, self.place.note) as built:
            in_threads(fetch, range(len(built)), len({shard.worker for shard in built}) if self.place.elsewhere else 1)

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
            in_threads(lambda shard: shard.call("lacking"), self._shards, self._threads)  # the first call loads the shard
            finalize(self, stack.pop_all().close)
        self.transfer = 0.0

    def search(self, queries: Any, k: int) -> Hits:
        """Return the best *k* documents of each of *queries*, vectors of the engine's kind."""
        if not self._shards or not queries.shape[0]:
            return no_hits(int(queries.shape[0]), min(k, self._documents))
        begin, before = time.perf_counter(), self._spent()
        found = in_threads(lambda shard: shard.call("search", queries, k), self._shards, self._threads)
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


# ---- shards as workers hold them -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Recipe(Holdable):
    """What a worker makes a shard from: *engine*, and files in *folder*, which it is sent if it does not see them."""

    engine: Engine
    folder: Path
    files: Mapping[str, tuple[int, int]] = field(repr=False)  # see `files_of`

    def fill(self, held: Held) -> None:
        """Send the files that the worker lacks, in pieces; a file may be empty."""
        for name in held.call("lacking"):
            for at in range(0, max(self.files[name][0], 1), _PIECE):
                held.call("write", name, at, _piece(self.folder / name, at))

    def close(self, made: "_Shard") -> None:
        """Remove the files of *made*."""
        made.close()


class _Shard:
    """A shard on a worker, which works in the folder of its files if it sees them, else in one of its own."""

    def __init__(self, asked: _Recipe, *, seen: bool) -> None:
        self._asked = asked
        self._sent = None if seen else TemporaryDirectory(prefix="lexbench-")
        self._folder = asked.folder if self._sent is None else Path(self._sent.name)

    def lacking(self) -> Sequence[str]:
        """Return the names of the files that the worker needs."""
        return () if self._sent is None else tuple(self._asked.files)

    def write(self, name: str, at: int, piece: bytes) -> None:
        """Write one piece of a file at byte *at*."""
        file = self._folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("r+b" if at else "wb") as out:
            out.seek(at)
            out.write(piece)

    def close(self) -> None:
        """Remove the files that it was sent."""
        if self._sent:
            self._sent.cleanup()


class ShardToBuild(_Recipe):
    """A shard of the vectors in the files, which are in a folder with a unique name."""

    def make(self) -> "BuiltShard":
        """Return a shard that is not built yet."""
        return BuiltShard(self, seen=self.folder.is_dir())

    def fetch(self, held: Held, path: Path) -> None:
        """Let the worker build the shard, and move or copy it to the new folder *path*."""
        folder, files = held.call("built")
        if (self.folder / folder).is_dir():
            move(self.folder / folder, path)
            return
        for name, size in files.items():
            file = path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("wb") as out:
                for at in range(0, size, _PIECE):
                    out.write(held.call("piece", name, at))


class BuiltShard(_Shard):
    """A shard on the worker that builds it, in the folder of the vectors."""

    @cached_property
    def _built(self) -> Path:
        """The folder of the shard, built when it is first asked for."""
        folder = Path(mkdtemp(prefix="lexbench-", dir=self._folder), "part")
        folder.mkdir()  # not the temporary folder itself, which nobody else may read
        self._asked.engine.build((read_shard(self._folder / name) for name in self._asked.files), folder)
        return folder

    def built(self) -> tuple[str, Mapping[str, int]]:
        """Return the shard's folder, relative to the folder of the vectors, and the size of each of its files."""
        return str(self._built.relative_to(self._folder)), {name: size for name, (size, _) in files_of(self._built).items()}

    def piece(self, name: str, at: int) -> bytes:
        """Return the piece of a file that begins at byte *at*."""
        return _piece(self._built / name, at)


class ShardToSearch(_Recipe):
    """A shard whose index is in the files."""

    def make(self) -> "OpenedShard":
        """Return a shard that is not open yet."""
        return OpenedShard(self, seen=self.folder.is_dir() and files_of(self.folder) == self.files)

    def fill(self, held: Held) -> None:
        """Send the files, and let the worker open them."""
        super().fill(held)
        held.call("open")


class OpenedShard(_Shard):
    """A shard on the worker that searches it."""

    _index: Index | None = None

    def open(self) -> None:
        """Open the index."""
        self._index = self._asked.engine.open(self._folder)

    def search(self, queries: Any, k: int) -> Hits:
        """Return the best *k* documents of the shard."""
        assert self._index  # `ShardToSearch.fill` opened it
        return self._index.search(queries, k)

    def close(self) -> None:
        """Close the index, and remove the files that it was sent."""
        self._index = None
        super().close()


def files_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the size of each file below *folder* and its time of change in nanoseconds, by its relative name."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): (file.stat().st_size, file.stat().st_mtime_ns) for file in files}


def _piece(file: Path, at: int) -> bytes:
    """Return the piece of *file* that begins at byte *at*."""
    with file.open("rb") as content:
        content.seek(at)
        return content.read(_PIECE)
