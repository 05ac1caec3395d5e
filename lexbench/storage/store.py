"""The store: a folder of artifacts, each named by a digest of what determines its content.

    <root>/corpora/<label>-<key>/  encodings/  indexes/  runs/  results/  timings/

In addition, `names/` has the names that users gave to systems.

The key is a digest of the *key facts*: everything that can change the answer, and nothing else (no threads, batch sizes,
devices or paths). An artifact is drafted beside its final place, gets its manifest last, and is renamed: a folder with its
final name is finished. So a repeated command continues where the first one stopped, and two commands that need the same thing
make it once.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from filelock import BaseFileLock, Timeout
from platformdirs import user_cache_path

from lexbench.errors import CannotStart, LexbenchError, NotEnoughDisk
from lexbench.storage import atomic, locks
from lexbench.storage.artifact_folder import MANIFEST, MEASURED, KeyFacts, Manifest, digest, key_of, measured_text, seal

_DRAFT = ".draft"
_CHECKED = "checked"  # for each artifact, the state of its files when they were last found intact
_NAMES = "names"
_PLACES = "places"  # of datasets in folders of the user, by the digests of their results
_SESSIONS = "sessions"  # a store for each process that makes what no other one can use
_LOCK = "alive.lock"
_LITTER = 3600  # age in seconds from which a temporary file in a shared draft counts as left by a killed process


def free_bytes(folder: Path) -> int:
    """Return what is free on the disk of *folder*, which need not exist."""
    return shutil.disk_usage(next(one for one in (folder, *folder.parents) if one.exists())).free


def default_root() -> Path:
    """Return $LEXBENCH_STORE, or else a folder in the user's cache folder. Raises CannotStart if there is neither."""
    named = os.environ.get("LEXBENCH_STORE")
    try:
        return Path(named) if named else user_cache_path("lexbench") / "store"
    except RuntimeError:  # e.g. in a container that runs under the number of a user whom it does not know
        raise CannotStart("this user has no home folder; set LEXBENCH_STORE to a folder for the store") from None


def readable(label: str) -> str:
    """Return *label* as part of a file name, for people."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", label).strip("-")[:60]


def readable_bytes(number: int) -> str:
    """Return a number of bytes in MB, or in GB from a thousand of them."""
    return f"{number / 1e9:,.1f} GB" if number >= 1e9 else f"{number / 1e6:,.1f} MB"  # noqa: PLR2004 - a thousand MB


def keep_traceback(name: str, text: str, root: Path | None = None) -> Path | None:
    """Save a traceback in the folder `logs` of the store. Returns its file, or None if it cannot be written."""
    try:
        log = (root or default_root()) / "logs" / f"{readable(name)}-{digest(text)}.txt"
        log.parent.mkdir(parents=True, exist_ok=True)
        atomic.write_bytes(log, text.encode(errors="backslashreplace"))
    except (OSError, CannotStart):
        return None
    return log


class RememberedPlace(NamedTuple):
    """Where a dataset of the user is."""

    judgements: Path
    split: str  # of the judgements, of which a file may have several
    columns: Mapping[str, str]  # what the user stated about its tables


class Slot(NamedTuple):
    """The place of an artifact that is finished or being made."""

    folder: Path  # finished, or the name that it will have
    unfinished: Path | None = None  # the folder to fill; None if *folder* is finished


@dataclass
class Store:
    """A folder of artifacts. *on_wait* and *on_damage* get one line each, for people."""

    root: Path = field(default_factory=default_root)
    on_wait: Callable[[str], None] = lambda _line: None
    on_damage: Callable[[str], None] = lambda _line: None
    damaged: list[str] = field(default_factory=list)  # the lines that *on_damage* got
    _intact: set[Path] = field(default_factory=set, repr=False)  # checked by this process already

    def __post_init__(self) -> None:
        """Raise CannotStart if the store is a file, in which nothing would be found."""
        if self.root.is_file():
            raise CannotStart(f"the store {self.root} is a file, and must be a folder; set LEXBENCH_STORE to another")

    # ---- reading

    def finished(self, kind: str, facts: KeyFacts) -> Path | None:
        """Return the artifact with those key facts, or None if there is none or it is damaged."""
        folder = self._folder(kind, facts)
        return folder if folder and (folder in self._intact or next(self.damage(folder), None) is None) else None

    def _folder(self, kind: str, facts: KeyFacts) -> Path | None:
        """Return the folder of an artifact, damaged or not; None if there is none."""
        return next((self.root / kind).glob(f"*-{digest(facts)}"), None)

    def folders(self, kind: str, label: str) -> list[Path]:
        """Return the artifacts of *kind* with that *label*, damaged or not, for people."""
        return [folder for folder in (self.root / kind).glob(f"{readable(label)}-*") if folder.suffix != _DRAFT]

    def is_intact(self, folder: Path, only: Sequence[str] = ()) -> bool:
        """Return whether an artifact, or only the files *only*, are unchanged. If not, `on_damage` gets a line."""
        if folder in self._intact:
            return True
        if damage := next(self.damage(folder, only), None):
            self.warn(f"{folder / MANIFEST if damage.startswith(MANIFEST) else folder}: {damage}; it is left out")
            return False
        if not only:
            self._trust(folder)
        return True

    def damage(self, folder: Path, only: Sequence[str] = (), *, thoroughly: bool = False) -> Iterator[str]:
        """Yield a line for each file of an artifact, or of the files *only*, that is missing, cut or changed.

        Every byte is read once, and again if the size or time of a file has changed since. With *thoroughly* every byte is read
        in any case, which finds what a disk has changed by itself.
        """
        try:
            manifest = Manifest.read(folder)
        except LexbenchError as error:
            yield str(error)
            return
        state = manifest.state(folder)
        with suppress(OSError):
            if state and not thoroughly and self._checked(folder).read_bytes() == state.encode():
                return
        intact = True
        for line in manifest.damage(folder, only):
            intact = False
            yield line
        if intact and not only:
            self._note_checked(folder, state)

    def _checked(self, folder: Path) -> Path:
        """Return the file with the state in which the files of an artifact were found intact."""
        return self.root / _CHECKED / f"{folder.parent.name}-{key_of(folder)}"

    def _note_checked(self, folder: Path, state: str) -> None:
        """Remember that an artifact was intact when its files were in that *state*."""
        with suppress(OSError):  # a read-only store is checked again by each process
            self._checked(folder).parent.mkdir(exist_ok=True)
            atomic.write_text(self._checked(folder), state)

    def _trust(self, folder: Path) -> None:
        """Mark an artifact as intact. Warn if its measurement is damaged; its content is still usable."""
        if folder not in self._intact and measured_text(folder) is None and (folder / MEASURED).exists():
            self.warn(f"{folder / MEASURED} is damaged: how long this took, and on which machine, is unknown")
        self._intact.add(folder)

    def warn(self, line: str) -> None:
        """Report damage to `on_damage`, each line once."""
        if line not in self.damaged:
            self.damaged.append(line)
            self.on_damage(line)

    # ---- writing

    @contextmanager
    def draft(
        self, kind: str, label: str, facts: KeyFacts, *, resumable: bool = False, shared: bool = False, anew: bool = False
    ) -> Iterator[Slot]:
        """Yield the artifact: finished, or to be filled by the block, after which it is finished.

        The folder's name begins with *label*, for people; it decides nothing. With *resumable* the block finds the files that
        an interrupted draft has finished by `lexbench.storage.atomic`; with *shared* other processes may be filling it as well;
        with *anew* the block fills a new one, which replaces the finished one.
        """
        if not anew and (folder := self.finished(kind, facts)):
            self._trust(folder)
            yield Slot(folder)
            return
        self._check_writable()
        with self._locked(kind, digest(facts), label):
            if not anew and (folder := self._mended(kind, facts)):  # another process made it while this one waited
                self._trust(folder)
                yield Slot(folder)
                return
            target, unfinished = self._places(kind, label, facts)
            if not resumable:
                shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True, exist_ok=True)
            _sweep(unfinished, older=_LITTER if shared else 0)
            try:
                yield Slot(target, unfinished)
            except BaseException:
                if not resumable:  # no other process could continue it, and it may be large
                    shutil.rmtree(unfinished, ignore_errors=True)
                raise
            _sweep(unfinished)
            seal(unfinished, kind, facts)
            if anew and (former := self._folder(kind, facts)):
                shutil.rmtree(former)
            unfinished.rename(target)
            atomic.sync(target.parent)
            self._note_checked(target, Manifest.read(target).state(target))
            self._intact.add(target)

    def shared_draft(self, kind: str, label: str, facts: KeyFacts) -> Slot:
        """Return the artifact: finished, or to be filled by several processes at once, on any machines.

        They must write the same bytes under the same names. None of them finishes it: `draft` does, when all files are there.
        """
        if folder := self.finished(kind, facts):
            self._trust(folder)
            return Slot(folder)
        self._check_writable()
        target, unfinished = self._places(kind, label, facts)
        unfinished.mkdir(parents=True, exist_ok=True)
        return Slot(target, unfinished)

    def part(self, kind: str, label: str, facts: KeyFacts, part: str) -> AbstractContextManager[None]:
        """Lock *part* (e.g. "0-of-4") of a shared draft: another process with the same part waits until the block has ended."""
        return self._locked(kind, f"{digest(facts)}-{part}", f"part {part} of {label}")

    def _mended(self, kind: str, facts: KeyFacts) -> Path | None:
        """Return the artifact, whose lock is held, or None; remove it with a warning if it is damaged."""
        if (folder := self.finished(kind, facts)) is None and (damaged := self._folder(kind, facts)):
            self.warn(f"{damaged}: {next(self.damage(damaged), 'damaged')}; removed, it will be made again")
            shutil.rmtree(damaged)
        return folder

    def _places(self, kind: str, label: str, facts: KeyFacts) -> tuple[Path, Path]:
        """Return the folder of the finished artifact, and that of its draft."""
        place, key = self.root / kind, digest(facts)
        return place / f"{readable(label)}-{key}", place / f"{key}{_DRAFT}"

    @contextmanager
    def _locked(self, kind: str, key: str, label: str) -> Iterator[None]:
        """Lock an artifact for the block. The operating system frees the lock if this process is killed."""
        waiting = f"another lexbench is making {label} in {kind}; waiting for it"
        with locks.taken(self.root / "locks" / f"{kind}-{key}.lock", on_wait=lambda: self.on_wait(waiting)):
            yield

    # ---- names of systems

    def remember_name(self, name: str, expression: str) -> None:
        """Remember that a user calls the system of *expression* by *name*."""
        path = self.root / _NAMES / f"{digest([name, expression])}.json"
        with suppress(OSError):  # the store is read-only, or full: only the name is lost
            if not path.exists():
                path.parent.mkdir(exist_ok=True)
                atomic.write_json(path, {"name": name, "expression": expression})

    def names(self) -> dict[str, list[str]]:
        """Return the sorted expressions that each name was given to."""
        found: dict[str, list[str]] = {}
        for path in (self.root / _NAMES).glob("*.json"):
            with suppress(OSError, ValueError, KeyError, TypeError):  # damaged files are ignored
                entry = json.loads(path.read_bytes())
                found.setdefault(str(entry["name"]), []).append(str(entry["expression"]))
        return {name: sorted(expressions) for name, expressions in found.items()}

    def remember_place(self, digests: Mapping[str, str], place: RememberedPlace) -> None:
        """Remember where the dataset with these *digests* is."""
        with suppress(OSError, UnicodeEncodeError):  # a locale without UTF-8 gives names that JSON cannot hold
            path = self.root / _PLACES / f"{digest(dict(digests))}.json"
            path.parent.mkdir(exist_ok=True)
            atomic.write_json(path, {"judgements": str(place.judgements), "split": place.split, "columns": dict(place.columns)})

    def place(self, digests: Mapping[str, str]) -> RememberedPlace | None:
        """Return where the dataset is whose results have these *digests*; None if it is unknown or missing."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads((self.root / _PLACES / f"{digest(dict(digests))}.json").read_bytes())
            place = RememberedPlace(Path(found["judgements"]), str(found["split"]), dict(found["columns"]))
            return place if place.judgements.is_file() else None
        return None

    # ---- the folder of the store

    def prepare(self) -> None:
        """Make the folder of the store, and remove temporary files that killed writers have left.

        Raises CannotStart if it cannot be made, unless there are results to read.
        """
        with suppress(OSError):
            (self.root / "locks").mkdir(parents=True, exist_ok=True)
            for name in (_NAMES, _PLACES):
                _sweep(self.root / name, older=_LITTER)
        if not (self.root / "results").is_dir():
            self._check_writable()

    def remove(self, folder: Path) -> None:
        """Remove the folder of an artifact, and what was remembered of it."""
        shutil.rmtree(folder, ignore_errors=True)
        self._intact.discard(folder)
        with suppress(OSError):
            self._checked(folder).unlink(missing_ok=True)

    # ---- what only one process can use

    def session(self) -> "Session":
        """Return a store inside this one for what only this process can use; `close` removes it."""
        self._check_writable()
        with self._sessions_locked():
            root = self.root / _SESSIONS / uuid4().hex
            root.mkdir(parents=True)
            return self._session(root)

    def dead_sessions(self) -> "list[Session]":
        """Return the sessions of processes that were killed, so that they can be closed."""
        dead = []
        with self._sessions_locked():
            for root in (self.root / _SESSIONS).glob("*"):
                with suppress(Timeout, CannotStart):  # its process is alive, or has just removed it
                    dead.append(self._session(root))
        return dead

    def _session(self, root: Path) -> "Session":
        return Session(replace(self, root=root, _intact=set()), locks.taken(root / _LOCK))

    def _sessions_locked(self) -> AbstractContextManager[object]:
        return locks.taken(self.root / "locks" / f"{_SESSIONS}.lock", on_wait=lambda: None)

    def _check_writable(self) -> None:
        """Raise CannotStart if nothing can be written into the store."""
        try:
            (self.root / "locks").mkdir(parents=True, exist_ok=True)
            reason = "" if os.access(self.root, os.W_OK) else "no permission"
        except OSError as error:
            reason = str(error.strerror)
        if reason:
            raise CannotStart(f"cannot write to the store {self.root} ({reason}); set LEXBENCH_STORE to another folder")

    def check_disk(self, needed: int) -> None:
        """Raise NotEnoughDisk if *needed* bytes, by estimate, are more than is free where the store is."""
        free = free_bytes(self.root)
        if needed > free:
            raise NotEnoughDisk(
                f"about {readable_bytes(needed)} will be written to {self.root} and {readable_bytes(free)} are free; "
                "free some, or set LEXBENCH_STORE to a folder on another disk"
            )


@dataclass(frozen=True)
class Session:
    """A store that only one process can use, which holds its lock. The operating system frees the lock if it is killed."""

    store: Store
    lock: BaseFileLock

    def artifacts(self) -> "list[Path]":
        """Return the folders of its artifacts, also of unfinished ones."""
        return [*finished_folders(self.store), *self.store.root.glob(f"*/*{_DRAFT}")]

    def close(self) -> None:
        """Remove everything in it."""
        self.lock.release()
        shutil.rmtree(self.store.root, ignore_errors=True)


def _sweep(draft: Path, older: float = 0) -> None:
    """Remove the temporary files that killed writers have left in a draft, if they are *older* than so many seconds."""
    for litter in draft.rglob(f"*{atomic.UNFINISHED}"):
        with suppress(FileNotFoundError):  # its writer is alive and has just renamed it
            if not older or time.time() - litter.stat().st_mtime > older:
                litter.unlink()


def finished_folders(store: Store) -> Iterator[Path]:
    """Yield every artifact, sorted, damaged or not."""
    yield from (path.parent for path in sorted(store.root.glob(f"*/*/{MANIFEST}")) if path.parent.suffix != _DRAFT)


def finished_files(store: Store, kind: str, name: str) -> Iterator[Path]:
    """Yield the file *name* of every intact artifact of *kind*, sorted by folder."""
    for path in sorted(store.root.glob(f"{kind}/*/{name}")):
        if path.parent.suffix != _DRAFT and store.is_intact(path.parent):
            yield path
