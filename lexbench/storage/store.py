"""Where finished work is kept: folders named by what determines their content.

    <root>/corpora/<key>/  encodings/  indexes/  runs/  results/

A key is a digest of the *recipe*: everything that can change the answer, and nothing else (no threads, batch sizes, devices
or paths). A folder is drafted beside its final place, given its manifest last, and renamed: what has its final name is
finished. So the same command run again continues, and two commands that need the same thing make it once.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from lexbench.errors import CannotStart, LexbenchError, NotEnoughDisk
from lexbench.storage import atomic, legacy
from lexbench.storage.reading import file_digest

MANIFEST = "manifest.json"
MEASURED = "measured.json"  # durations and machine: differs from run to run, so it has no digest and is in no key
_DRAFT = ".draft"

Recipe = Mapping[str, Any]


def default_root() -> Path:
    """Return $LEXBENCH_STORE, else the user's cache folder."""
    named = os.environ.get("LEXBENCH_STORE")
    return Path(named) if named else user_cache_path("lexbench") / "store"


def digest(recipe: Any) -> str:
    """Return 16 hex digits of the SHA-256 of *recipe* as canonical JSON."""
    text = json.dumps(recipe, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()[:16]


def readable(label: str) -> str:
    """Return *label* as part of a file name, for people."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", label).strip("-")[:60]


def readable_bytes(number: int) -> str:
    """Return *number* of bytes in MB or, from a thousand of them, GB."""
    return f"{number / 1e9:,.1f} GB" if number >= 1e9 else f"{number / 1e6:,.1f} MB"  # noqa: PLR2004 - a thousand MB


def keep_traceback(name: str, text: str, root: Path | None = None) -> Path | None:
    """Keep a traceback in the folder `logs` of the store; return its file, None where it cannot be written."""
    log = (root or default_root()) / "logs" / f"{readable(name)}-{digest(text)}.txt"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_bytes(log, text.encode(errors="backslashreplace"))
    except OSError:
        return None
    return log


@dataclass(frozen=True)
class Draft:
    """The folder of a stage."""

    folder: Path  # finished, or its name when it will be
    unfinished: Path | None = None  # to be filled; None where *folder* is finished


@dataclass
class Store:
    """One folder of finished work. *on_wait* and *on_damage* get one line each, for people."""

    root: Path = field(default_factory=default_root)
    on_wait: Callable[[str], None] = lambda _line: None
    on_damage: Callable[[str], None] = lambda _line: None
    _sound: set[Path] = field(default_factory=set, repr=False)  # checked by this process already

    def finished(self, stage: str, recipe: Recipe) -> Path | None:
        """Return the finished folder of *recipe*, or None. One whose files differ from its manifest is removed and said.

        A folder that lexbench 0.1 made of the same recipe is as good.
        """
        keys = digest(recipe), digest(legacy.of_0_1(recipe))
        folder = next((path for key in keys for path in (self.root / stage).glob(f"*-{key}")), None)
        if folder is None:
            return None
        if folder not in self._sound:
            damaged = next(self.damage(folder), None)
            if damaged:
                self.on_damage(f"{folder}: {damaged}; removed, it will be made again")
                shutil.rmtree(folder)
                return None
            self._sound.add(folder)
        return folder

    def damage(self, folder: Path) -> Iterator[str]:
        """Yield what is wrong with a finished folder: a file missing, cut, or changed."""
        try:
            files = json.loads((folder / MANIFEST).read_bytes())["files"]
        except (OSError, ValueError, KeyError) as error:
            yield f"{MANIFEST} does not read ({error})"
            return
        for name, fact in files.items():
            path = folder / name
            if not path.is_file():
                yield f"{name} is missing"
            elif path.stat().st_size != fact["bytes"]:
                yield f"{name} has {path.stat().st_size} bytes, not {fact['bytes']}"
            elif file_digest(path) != fact["sha256"]:
                yield f"{name} has changed since it was written"

    @contextmanager
    def draft(self, stage: str, label: str, recipe: Recipe, *, resumable: bool = False) -> Iterator["Draft"]:
        """Yield the folder for *recipe*: finished, or to be filled; what was filled is finished when the block ends.

        The folder's name begins with *label*, for people; it decides nothing. With *resumable* the files of a draft that was
        cut off are still in it (those that `lexbench.storage.atomic` finished).
        """
        if folder := self.finished(stage, recipe):
            yield Draft(folder)
            return
        with self._locked(stage, digest(recipe), label):
            if folder := self.finished(stage, recipe):  # another process made it while this one waited
                yield Draft(folder)
                return
            target = self.root / stage / f"{readable(label)}-{digest(recipe)}"
            unfinished = self.root / stage / f"{digest(recipe)}{_DRAFT}"
            if not resumable:
                shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True, exist_ok=True)
            for litter in unfinished.rglob(f"*{atomic.UNFINISHED}"):
                litter.unlink()
            try:
                yield Draft(target, unfinished)
            except BaseException:
                if not resumable:  # nothing could go on from it, and it may be large
                    shutil.rmtree(unfinished, ignore_errors=True)
                raise
            _seal(unfinished, stage, recipe)
            unfinished.rename(target)
            atomic.sync(target.parent)
            self._sound.add(target)

    def produce(self, stage: str, label: str, recipe: Recipe, work: Callable[[Path], None], *, resumable: bool = False) -> Path:
        """Return the finished folder for *recipe*, calling *work* with the folder to fill only if it is not there yet."""
        with self.draft(stage, label, recipe, resumable=resumable) as draft:
            if draft.unfinished:
                work(draft.unfinished)
        return draft.folder

    @contextmanager
    def _locked(self, stage: str, key: str, label: str) -> Iterator[None]:
        """Hold the one lock of a folder; the operating system frees it when its owner is killed."""
        path = self.root / "locks" / f"{stage}-{key}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            self.on_wait(f"another lexbench is making {label} in {stage}; waiting for it")
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def prepare(self) -> None:
        """Make the folder of the store; CannotStart where that, or writing into it, is not possible."""
        try:
            (self.root / "locks").mkdir(parents=True, exist_ok=True)
            reason = "" if os.access(self.root, os.W_OK) else "no permission"
        except OSError as error:
            reason = str(error.strerror)
        if reason:
            raise CannotStart(f"cannot write to the store {self.root} ({reason}); set LEXBENCH_STORE to another folder")

    def bytes_used(self) -> int:
        """Return how much the store holds already, of whatever."""
        return sum(path.stat().st_size for path in self.root.rglob("*") if path.is_file())

    def check_disk(self, needed: int) -> None:
        """Raise NotEnoughDisk if *needed* bytes, by estimate, are more than is free where the store is."""
        disk = next(folder for folder in (self.root, *self.root.parents) if folder.exists())
        free = shutil.disk_usage(disk).free
        if needed > free:
            raise NotEnoughDisk(
                f"about {readable_bytes(needed)} will be written to {self.root} and {readable_bytes(free)} are free; "
                "free some, or set LEXBENCH_STORE to a folder on another disk"
            )


def _seal(draft: Path, stage: str, recipe: Recipe) -> None:
    """Write the manifest of a draft, last: sizes and digests of its files, and the recipe they came from."""
    files = {}
    for path in sorted(draft.rglob("*")):
        if path.is_dir():
            atomic.sync(path)
        elif path.name not in (MANIFEST, MEASURED):
            atomic.sync(path)
            files[path.relative_to(draft).as_posix()] = {"bytes": path.stat().st_size, "sha256": file_digest(path)}
    content = {"schema": 1, "stage": stage, "recipe": recipe, "files": files}
    atomic.write_text(draft / MANIFEST, json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def key_of(folder: Path) -> str:
    """Return the key of a finished folder: what its name ends in."""
    return folder.name.rpartition("-")[2]


def recipe_of(folder: Path) -> dict[str, Any]:
    """Return the recipe that a finished folder was made from, with the identities that plug-ins have today."""
    recipe = json.loads((folder / MANIFEST).read_bytes())["recipe"]
    if not isinstance(recipe, dict):
        raise LexbenchError(f"{folder / MANIFEST}: the recipe is no table")
    return dict(legacy.modern(recipe))


def size(folder: Path, part: str = "") -> int:
    """Return the bytes of the files of a finished folder, or of those in its folder *part* alone, where it has one.

    The manifest and what was measured do not count.
    """
    return sum(sizes(folder, part).values())


def sizes(folder: Path, part: str = "") -> dict[str, int]:
    """Return the bytes of each of the files that `size` counts, by its name below *folder*."""
    files = json.loads((folder / MANIFEST).read_bytes())["files"]
    inside = f"{part}/" if part and (folder / part).is_dir() else ""
    return {name: int(fact["bytes"]) for name, fact in files.items() if name.startswith(inside)}
