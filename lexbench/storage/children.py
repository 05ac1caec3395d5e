"""Processes that run a module of ours, each started by another of ours, which it does not outlive."""

import os
import sys
import threading
from pathlib import Path


def command(module: str, *arguments: str) -> list[str]:
    """Return the command line of a process; the folder that the user is in is on its path only if it is on ours."""
    return [sys.executable, "-P", "-m", module, *arguments]


def environment(**more: str) -> dict[str, str]:
    """Return its environment, with *more*: it can import what this process can."""
    return {**os.environ, **more, "PYTHONPATH": os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)}


def end_with_parent() -> None:
    """End this process as soon as its parent has: then its input, to which nothing is written, is at its end.

    Where the parent was killed nobody wants what this process makes, and it would be in the way of the next.
    """

    def wait() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
