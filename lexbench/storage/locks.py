"""Locks between processes, as files. A lock is free again when its process has ended, also if it was killed."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from lexbench.errors import CannotStart

# Where the system call is missing, e.g. on Lustre, filelock writes a file that names the process, and says so in its own words.
warnings.filterwarnings("ignore", "flock not supported")


def taken(path: Path, on_wait: Callable[[], None] | None = None) -> BaseFileLock:
    """Take the lock *path* and return it; call *on_wait* if another process has it, and wait for that one.

    Raises Timeout if another process has it and *on_wait* is None. Raises CannotStart if it cannot be taken.
    """
    lock = FileLock(path, thread_local=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        free = _is_taken(lock)
    except OSError as error:
        what = f"cannot lock {path} ({error.strerror})"
        raise CannotStart(f"{what}; choose a folder that you may write to, on a disk whose file system has locks") from None
    if not free:
        if on_wait is None:
            raise Timeout(str(path))
        on_wait()
        lock.acquire()
    return lock


def _is_taken(lock: BaseFileLock) -> bool:
    """Try to take a lock, and return whether it was free."""
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    return True


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let no other process enter the same block for *folder*, which is created. The lock file is removed afterwards.

    On a file system without locks, nothing is locked.
    """
    path = folder / ".lock"
    try:
        lock = taken(path, on_wait=lambda: None)
    except CannotStart:  # results that cost hours must still be written; if nothing can be, the writer says so
        yield
        return
    with lock:
        try:
            yield
        finally:
            path.unlink(missing_ok=True)  # while it is locked: a process that waits finds no file, and makes a new one
