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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
    damaged: list[str] = field(default_factory=list)  # what *on_damage* got
    _sound: set[Path] = field(default_factory=set, repr=False)  # checked by this process already

    def finished(self, stage: str, recipe: Recipe) -> Path | None:
        """Return the finished folder of *recipe*, or None; one that is damaged counts for none.

        A folder that lexbench 0.1 made of the same recipe is as good.
        """
        folder = self._folder(stage, recipe)
        return folder if folder and (folder in self._sound or next(self.damage(folder), None) is None) else None

    def _folder(self, stage: str, recipe: Recipe) -> Path | None:
        keys = digest(recipe), digest(legacy.of_0_1(recipe))
        return next((path for key in keys for path in (self.root / stage).glob(f"*-{key}")), None)

    def _mended(self, stage: str, recipe: Recipe) -> Path | None:
        """Return the finished folder of *recipe*, whose lock is held, or None; one that is damaged is removed, and said."""
        if (folder := self.finished(stage, recipe)) is None and (damaged := self._folder(stage, recipe)):
            self._tell(f"{damaged}: {next(self.damage(damaged), 'damaged')}; removed, it will be made again")
            shutil.rmtree(damaged)
        return folder

    def sound(self, folder: Path, only: Sequence[str] = ()) -> bool:
        """Whether a finished folder, or the files *only* of it, is as it was written; what is wrong is said, with the file."""
        if folder in self._sound:
            return True
        if damage := next(self.damage(folder, only), None):
            self._tell(f"{folder / MANIFEST if damage.startswith(MANIFEST) else folder}: {damage}; it is left out")
            return False
        if not only:
            self._trust(folder)
        return True

    def _trust(self, folder: Path) -> None:
        """Check no more what is sound; say where it has lost its times, without which it is as good."""
        if folder not in self._sound and measured_text(folder) is None and (folder / MEASURED).exists():
            self._tell(f"{folder / MEASURED} is damaged: how long this took, and on which machine, is not known any more")
        self._sound.add(folder)

    def _tell(self, line: str) -> None:
        if line not in self.damaged:
            self.damaged.append(line)
            self.on_damage(line)

    def damage(self, folder: Path, only: Sequence[str] = ()) -> Iterator[str]:
        """Yield what is wrong with a finished folder, or with the files *only* of it: one missing, cut, or changed."""
        try:
            manifest = json.loads((folder / MANIFEST).read_bytes())
            expected = {str(name): (int(fact["bytes"]), str(fact["sha256"])) for name, fact in manifest["files"].items()}
            key = digest(manifest["recipe"])
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            yield f"{MANIFEST} does not read ({error})"
            return
        if key != key_of(folder) or manifest.get("stage") != folder.parent.name:
            yield f"{MANIFEST} is that of another folder"
            return
        for name, (size, sha256) in expected.items():
            path = folder / name
            if only and name not in only:
                continue
            if not path.is_file():
                yield f"{name} is missing"
            elif path.stat().st_size != size:
                yield f"{name} has {path.stat().st_size} bytes, not {size}"
            elif file_digest(path) != sha256:
                yield f"{name} has changed since it was written"

    @contextmanager
    def draft(self, stage: str, label: str, recipe: Recipe, *, resumable: bool = False) -> Iterator["Draft"]:
        """Yield the folder for *recipe*: finished, or to be filled; what was filled is finished when the block ends.

        The folder's name begins with *label*, for people; it decides nothing. With *resumable* the files of a draft that was
        cut off are still in it (those that `lexbench.storage.atomic` finished).
        """
        if folder := self.finished(stage, recipe):
            self._trust(folder)
            yield Draft(folder)
            return
        self._check_writable()
        with self._locked(stage, digest(recipe), label):
            if folder := self._mended(stage, recipe):  # another process made it while this one waited
                self._trust(folder)
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
        """Make the folder of the store. CannotStart where that is not possible; what is finished can be read all the same."""
        with suppress(OSError):
            (self.root / "locks").mkdir(parents=True, exist_ok=True)
        if not (self.root / "results").is_dir():
            self._check_writable()

    def _check_writable(self) -> None:
        """Raise CannotStart where nothing can be written into the store."""
        try:
            (self.root / "locks").mkdir(parents=True, exist_ok=True)
            reason = "" if os.access(self.root, os.W_OK) else "no permission"
        except OSError as error:
            reason = str(error.strerror)
        if reason:
            raise CannotStart(f"cannot write to the store {self.root} ({reason}); set LEXBENCH_STORE to another folder")

    def bytes_used(self) -> int:
        """Return how much the store holds already, of whatever."""
        total = 0
        for path in self.root.rglob("*"):
            with suppress(OSError):  # another process may have removed it since
                total += path.stat().st_size if path.is_file() else 0
        return total

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


def finished_files(store: Store, stage: str, name: str) -> Iterator[Path]:
    """Yield the file of that name of every finished folder of a stage that is as it was written, sorted by folder."""
    for path in sorted(store.root.glob(f"{stage}/*/{name}")):
        if path.parent.suffix != _DRAFT and store.sound(path.parent):
            yield path


def measured_text(folder: Path) -> bytes | None:
    """Return what `measured.json` of a finished folder holds, None where it is not there, cut, or changed.

    It is in no manifest, for it differs from run to run, and so it has a digest of its own; of before 0.2.0 it has none.
    """
    try:
        content = (folder / MEASURED).read_bytes()
        values = json.loads(content)
        expected = values.pop("sha256", None)
        return content if isinstance(values["seconds"], dict) and expected in (None, digest(values)) else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


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
