"""Where finished work is kept: folders named by what determines their content.

    <root>/corpora/<key>/  encodings/  indexes/  runs/  results/

A key is a digest of the *recipe*: everything that can change the answer, and nothing else (no threads, batch sizes, devices
or paths). A folder is drafted beside its final place, given its manifest last, and renamed: what has its final name is
finished. So the same command run again continues, and two commands that need the same thing make it once.
"""

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from lexbench.errors import CannotStart, LexbenchError, NotEnoughDisk
from lexbench.storage import atomic
from lexbench.storage.manifest import MANIFEST, MEASURED, Listed, digest, key_of, measured_text, seal

_DRAFT = ".draft"
_CHECKED = "checked"  # the folder of the states in which folders were found to be as their manifests say
_LITTER = 3600  # seconds after which what a writer beside this one has not renamed is what a kill left of it

Recipe = Mapping[str, Any]


def default_root() -> Path:
    """Return $LEXBENCH_STORE, else the user's cache folder."""
    named = os.environ.get("LEXBENCH_STORE")
    return Path(named) if named else user_cache_path("lexbench") / "store"


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
        """Return the finished folder of *recipe*, or None if there is none or it is damaged."""
        folder = self._folder(stage, recipe)
        return folder if folder and (folder in self._sound or next(self.damage(folder), None) is None) else None

    def _folder(self, stage: str, recipe: Recipe) -> Path | None:
        return next((self.root / stage).glob(f"*-{digest(recipe)}"), None)

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

    def damage(self, folder: Path, only: Sequence[str] = (), *, thoroughly: bool = False) -> Iterator[str]:
        """Yield what is wrong with a finished folder, or with the files *only* of it: one missing, cut, or changed.

        Every byte of a folder is read once, and again where the size or time of a file is not what it was then;
        *thoroughly*: in any case, which finds what a disk has changed by itself.
        """
        try:
            listed = Listed.of(folder)
        except LexbenchError as error:
            yield str(error)
            return
        state = listed.state(folder)
        if state and not thoroughly and self._was_checked(folder, state):
            return
        sound = True
        for line in listed.damage(folder, only):
            sound = False
            yield line
        if sound and not only:
            self._note_checked(folder, state)

    def _checked(self, folder: Path) -> Path:
        return self.root / _CHECKED / f"{folder.parent.name}-{key_of(folder)}"

    def _was_checked(self, folder: Path, state: str) -> bool:
        """Whether a folder was found to be sound in that *state* of its files; a note of it that is damaged is none."""
        with suppress(OSError):
            return self._checked(folder).read_bytes() == state.encode()
        return False

    def _note_checked(self, folder: Path, state: str) -> None:
        """Remember that a folder was as its manifest says, in that *state* of its files."""
        with suppress(OSError):  # a store that is for reading only is read again
            self._checked(folder).parent.mkdir(exist_ok=True)
            atomic.write_text(self._checked(folder), state)

    @contextmanager
    def draft(
        self, stage: str, label: str, recipe: Recipe, *, resumable: bool = False, shared: bool = False
    ) -> Iterator[Draft]:
        """Yield the folder for *recipe*: finished, or to be filled; what was filled is finished when the block ends.

        The folder's name begins with *label*, for people; it decides nothing. With *resumable* the files of a draft that was
        cut off are still in it (those that `lexbench.storage.atomic` finished); with *shared* others may be filling it, too.
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
            target, unfinished = self._places(stage, label, recipe)
            if not resumable:
                shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True, exist_ok=True)
            _sweep(unfinished, older=_LITTER if shared else 0)
            try:
                yield Draft(target, unfinished)
            except BaseException:
                if not resumable:  # nothing could go on from it, and it may be large
                    shutil.rmtree(unfinished, ignore_errors=True)
                raise
            _sweep(unfinished)  # of writers beside this one, what a kill left
            seal(unfinished, stage, recipe)
            unfinished.rename(target)
            atomic.sync(target.parent)
            self._note_checked(target, Listed.of(target).state(target))
            self._sound.add(target)

    def shared_draft(self, stage: str, label: str, recipe: Recipe) -> Draft:
        """Return the folder for *recipe*: finished, or to be filled by several processes at once, of any machines.

        They must write the same bytes under the same names. None of them finishes the folder: `draft` does, when all is there.
        """
        if folder := self.finished(stage, recipe):
            self._trust(folder)
            return Draft(folder)
        self._check_writable()
        target, unfinished = self._places(stage, label, recipe)
        unfinished.mkdir(parents=True, exist_ok=True)
        return Draft(target, unfinished)

    def _places(self, stage: str, label: str, recipe: Recipe) -> tuple[Path, Path]:
        """Return what the folder of *recipe* is called when it is finished, and before."""
        place, key = self.root / stage, digest(recipe)
        return place / f"{readable(label)}-{key}", place / f"{key}{_DRAFT}"

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
        for folder, _, names in os.walk(self.root):  # which passes over folders that another process has just renamed
            for name in names:
                with suppress(OSError):  # likewise files
                    total += Path(folder, name).stat().st_size
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


def _sweep(draft: Path, older: float = 0) -> None:
    """Remove what writers that were killed have left in a draft: files without their names, *older* than so many seconds."""
    for litter in draft.rglob(f"*{atomic.UNFINISHED}"):
        with suppress(FileNotFoundError):  # its writer was not dead, and has just named it
            if not older or time.time() - litter.stat().st_mtime > older:
                litter.unlink()


def finished_folders(store: Store) -> Iterator[Path]:
    """Yield every finished folder, sorted, as it may be."""
    yield from (path.parent for path in sorted(store.root.glob(f"*/*/{MANIFEST}")) if path.parent.suffix != _DRAFT)


def finished_files(store: Store, stage: str, name: str) -> Iterator[Path]:
    """Yield the file of that name of every finished folder of a stage that is as it was written, sorted by folder."""
    for path in sorted(store.root.glob(f"{stage}/*/{name}")):
        if path.parent.suffix != _DRAFT and store.sound(path.parent):
            yield path
