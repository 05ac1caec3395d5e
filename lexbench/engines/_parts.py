"""The parts of an index that is in several, as workers hold them: one that is built, or one that is searched.

A worker that sees the same files works with them: it is on this machine, or shares the file system. Another is sent what it
lacks, and what it builds is fetched, in pieces, so that nobody holds a part in memory for that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from shutil import move
from tempfile import TemporaryDirectory
from typing import Any

from lexbench.encodings.shards import read_shard
from lexbench.plugins import Engine, Held, Holdable
from lexbench.types import Hits

_PIECE = 32 << 20  # bytes that travel at a time


@dataclass(frozen=True)
class PartToBuild(Holdable):
    """A part as it is to be built: *names* of files of vectors in the folder *vectors*, whose name no other folder has."""

    engine: Engine
    vectors: Path
    names: Sequence[str]

    def make(self) -> "BuiltPart":
        """Begin with nothing."""
        return BuiltPart(self, seen=self.vectors.is_dir())

    def fill(self, held: Held) -> None:
        """Send the vectors to a worker that does not see them."""
        for name in held.call("lacking"):
            _send(held, self.vectors, name)

    def close(self, made: "BuiltPart") -> None:
        """Remove what building wrote."""
        made.close()

    def fetch(self, held: Held, path: Path) -> None:
        """Let the worker build the part, and bring it to *path*, a folder that is not there yet."""
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


class BuiltPart:
    """A part where it is built: in the folder of the vectors if that is seen, which is removed whatever happens, or its own."""

    def __init__(self, asked: PartToBuild, *, seen: bool) -> None:
        self._asked, self._seen = asked, seen
        self._own = TemporaryDirectory(prefix="lexbench-", dir=asked.vectors if self._seen else None)
        self._vectors = asked.vectors if self._seen else Path(self._own.name, "vectors")

    def lacking(self) -> Sequence[str]:
        """Return the names of the files of vectors that are to be sent."""
        return () if self._seen else self._asked.names

    def write(self, name: str, at: int, piece: bytes) -> None:
        """Take one piece of a file of vectors."""
        _write(self._vectors / name, at, piece)

    @cached_property
    def _folder(self) -> Path:
        """The folder of the part, which is built when it is first asked for."""
        folder = Path(self._own.name, "part")
        folder.mkdir()
        self._asked.engine.build((read_shard(self._vectors / name) for name in self._asked.names), folder)
        return folder

    def built(self) -> tuple[str, Mapping[str, int]]:
        """Return the name of the part's folder below that of the vectors' folder, and the size of each of its files."""
        folder = self._folder
        return f"{folder.parent.name}/{folder.name}", {name: size for name, (size, _) in facts(folder).items()}

    def piece(self, name: str, at: int) -> bytes:
        """Return the piece of a file that begins at the byte *at*."""
        return _piece(self._folder / name, at)

    def close(self) -> None:
        """Remove what it wrote."""
        self._own.cleanup()


@dataclass(frozen=True)
class PartToSearch(Holdable):
    """A part as it is to be searched: the index of *engine* in *folder*."""

    engine: Engine
    folder: Path
    files: Mapping[str, tuple[int, int]] = field(repr=False)  # by name: size, and when it was changed

    def make(self) -> "OpenedPart":
        """Open nothing yet."""
        return OpenedPart(self)

    def fill(self, held: Held) -> None:
        """Send the files to a worker that does not see them, and let it open them."""
        for name in held.call("lacking"):
            _send(held, self.folder, name)
        held.call("open")

    def close(self, made: "OpenedPart") -> None:
        """Remove the files that were sent."""
        made.close()


class OpenedPart:
    """A part where it is searched."""

    def __init__(self, asked: PartToSearch) -> None:
        self._asked, self._folder = asked, asked.folder
        self._index: Any = None
        self._sent: TemporaryDirectory[str] | None = None
        if not self._folder.is_dir() or facts(self._folder) != asked.files:
            self._sent = TemporaryDirectory(prefix="lexbench-")
            self._folder = Path(self._sent.name)

    def lacking(self) -> Sequence[str]:
        """Return the names of the files that are to be sent."""
        return tuple(self._asked.files) if self._sent else ()

    def write(self, name: str, at: int, piece: bytes) -> None:
        """Take one piece of a file."""
        _write(self._folder / name, at, piece)

    def open(self) -> None:
        """Open the index."""
        self._index = self._asked.engine.open(self._folder)

    def search(self, queries: Any, k: int) -> Hits:
        """Return the best *k* documents of the part."""
        hits: Hits = self._index.search(queries, k)
        return hits

    def close(self) -> None:
        """Remove what it was sent."""
        self._index = None
        if self._sent:
            self._sent.cleanup()


def facts(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the size of each file in *folder*, and when it was changed, in nanoseconds, by its name below the folder."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): (file.stat().st_size, file.stat().st_mtime_ns) for file in files}


def _send(held: Held, folder: Path, name: str) -> None:
    """Send one file, an empty one too."""
    for at in range(0, max((folder / name).stat().st_size, 1), _PIECE):
        held.call("write", name, at, _piece(folder / name, at))


def _piece(file: Path, at: int) -> bytes:
    with file.open("rb") as content:
        content.seek(at)
        return content.read(_PIECE)


def _write(file: Path, at: int, piece: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("r+b" if at else "wb") as out:
        out.seek(at)
        out.write(piece)
