"""Finished folders of a store, copied to and from any place that fsspec reaches, their digests checked on the way.

There a folder has the name and the files that it has in the store, its manifest last: what has a manifest is complete. Only
finished folders travel, drafts never do; what is there already is not copied again.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from lexbench.errors import CannotStart, InvalidFile, LexbenchError, echoed, require
from lexbench.progress import Progress
from lexbench.storage import atomic
from lexbench.storage.manifest import MANIFEST, MEASURED, Listed, key_of
from lexbench.storage.reading import file_digest
from lexbench.storage.store import Store, finished_folders

_CHUNK = 8 << 20  # bytes read at a time
_STAGE, _FOLDER = re.compile(r"[a-z]+"), re.compile(r"[A-Za-z0-9.-]*-[0-9a-f]{16}")


class Copied(NamedTuple):
    """What became of one folder."""

    folder: str  # its stage and name, as encodings/pydoc-SparseMLM-f9a5a568375fbbc0
    bytes: int  # that were copied; 0 where it was there already


def push(store: Store, url: str, patterns: Sequence[str], progress: Progress) -> Iterator[Copied]:
    """Copy the finished folders that match one of *patterns* (as encodings/*; none: all) to *url*; yield each that is there.

    LexbenchError for a file that is not what its manifest says; CannotStart where *url* cannot be written to.
    """
    there = Place(url)
    for folder in finished_folders(store):
        name = f"{folder.parent.name}/{folder.name}"
        if not _matches(name, patterns):
            continue
        listed, manifest = Listed.of(folder), (folder / MANIFEST).read_bytes()
        if there.read(f"{name}/{MANIFEST}") == manifest:
            yield Copied(name, 0)
            continue
        sizes = there.sizes(name)
        missing = {file: fact for file, fact in listed.items() if sizes.get(file) != fact[0]}
        progress.start(name, "push", sum(size for size, _ in missing.values()), "bytes")
        for file, (_, sha256) in missing.items():
            if there.write(f"{name}/{file}", folder / file, progress) != sha256:
                raise LexbenchError(f"{folder / file} has changed since it was written; see: lexbench doctor --verify")
        if (folder / MEASURED).is_file():
            there.write(f"{name}/{MEASURED}", folder / MEASURED, progress)
        there.write(f"{name}/{MANIFEST}", folder / MANIFEST, progress)
        progress.end()
        yield Copied(name, sum(size for size, _ in missing.values()))


def pull(store: Store, url: str, patterns: Sequence[str], progress: Progress) -> Iterator[Copied]:
    """Copy the folders at *url* that match one of *patterns* into the store; yield each that is there.

    InvalidFile for a file that is not what its manifest says, or that would lie elsewhere; nothing of it gets its final name.
    """
    there = Place(url)
    store.prepare()
    for name in there.folders():
        if not _matches(name, patterns):
            continue
        stage, folder = name.split("/")
        if not (_STAGE.fullmatch(stage) and _FOLDER.fullmatch(folder)):
            raise InvalidFile(f"{url}: {echoed(name)} is no name of a folder of a store")
        yield Copied(name, _pulled(store, there, stage, folder, progress))


def _pulled(store: Store, there: "Place", stage: str, folder: str, progress: Progress) -> int:
    """Copy one folder into the store unless it is there; return the bytes that were copied."""
    name, key = f"{stage}/{folder}", key_of(Path(folder))
    content = there.read(f"{name}/{MANIFEST}")
    try:
        listed = Listed.read(content, stage, key)
    except LexbenchError as error:
        raise InvalidFile(f"{there.url}/{name}: {error}") from None
    if outside := [file for file in listed if PurePosixPath(file).is_absolute() or ".." in PurePosixPath(file).parts]:
        raise InvalidFile(f"{there.url}/{name}: {echoed(outside[0])} would lie outside the folder")
    copied = 0
    with store.draft(stage, folder.removesuffix(f"-{key}"), listed.recipe, resumable=True, shared=True) as draft:
        if draft.unfinished:
            progress.start(name, "pull", sum(size for size, _ in listed.values()), "bytes")
            for file, fact in listed.items():
                copied += there.fetch(f"{name}/{file}", draft.unfinished / file, fact, progress)
            if (times := there.read(f"{name}/{MEASURED}")) is not None:
                atomic.write_bytes(draft.unfinished / MEASURED, times)
            progress.end()
    return copied


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


class Place:
    """A folder somewhere, by its URL. CannotStart for whatever the client of that place raises."""

    def __init__(self, url: str, what: str = "store push and pull") -> None:
        """Take a URL, or a path; *what* needs the extra `remote`."""
        require(what, ("fsspec",), "remote")
        import fsspec

        self.url = url.rstrip("/")
        with self._said():
            self._files, self._root = fsspec.core.url_to_fs(self.url)

    @contextmanager
    def _said(self) -> Iterator[None]:
        """Let whatever a client of some place raises be one line."""
        try:
            yield
        except LexbenchError:
            raise
        except Exception as error:  # noqa: BLE001 - each place has a client with errors of its own
            reason = " ".join(str(error).split())[:200]
            raise CannotStart(f"{self.url}: {type(error).__name__}: {reason}") from None

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def folders(self) -> list[str]:
        """Return the stages and names of the complete folders, sorted."""
        return sorted(name.removesuffix(f"/{MANIFEST}") for name in self.names(f"*/*/{MANIFEST}"))

    def names(self, pattern: str) -> list[str]:
        """Return the files that match *pattern*, as "results/*/*.json", by as many parts of their paths as that has; sorted."""
        with self._said():
            self._files.invalidate_cache()
            found = self._files.glob(f"{self._root}/{pattern}")
        return sorted("/".join(PurePosixPath(path).parts[-len(PurePosixPath(pattern).parts) :]) for path in found)

    def sizes(self, name: str) -> dict[str, int]:
        """Return the bytes of each file below a folder, by its name there."""
        with self._said():
            self._files.invalidate_cache()
            if not self._files.exists(self._path(name)):
                return {}
            found = self._files.find(self._path(name), detail=True)
        prefix = f"{self._path(name).strip('/')}/"
        return {path.strip("/").removeprefix(prefix): int(fact["size"]) for path, fact in found.items()}

    def read(self, name: str) -> bytes | None:
        """Return what a small file holds, None where it is not there."""
        with self._said():
            try:
                content: bytes = self._files.cat_file(self._path(name))
            except FileNotFoundError:
                return None
        return content

    def write(self, name: str, source: Path, progress: Progress) -> str:
        """Copy the file *source* there; return the SHA-256 of what was read."""
        digest = hashlib.sha256()
        with self._said(), source.open("rb") as file:
            self._files.makedirs(str(PurePosixPath(self._path(name)).parent), exist_ok=True)
            with self._files.open(self._path(name), "wb") as out:
                while block := file.read(_CHUNK):
                    digest.update(block)
                    out.write(block)
                    progress.advance(len(block))
        return digest.hexdigest()

    def fetch(self, name: str, target: Path, fact: tuple[int, str], progress: Progress) -> int:
        """Copy a file of that size and SHA-256 to *target*, unless it is there; return the bytes that were copied."""
        size, sha256 = fact
        if target.is_file() and target.stat().st_size == size and file_digest(target) == sha256:
            progress.advance(size)
            return 0
        target.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        with atomic.atomic_path(target) as unfinished, unfinished.open("wb") as out:
            with self._said(), self._files.open(self._path(name), "rb") as file:
                while block := file.read(_CHUNK):
                    digest.update(block)
                    out.write(block)
                    progress.advance(len(block))
            if digest.hexdigest() != sha256:
                raise InvalidFile(f"{self.url}/{name} is not what its manifest says: it was cut or changed; push it again")
        return size
