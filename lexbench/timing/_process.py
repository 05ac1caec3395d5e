"""Starting the process that measures: fresh, with its number of threads in the environment, and this one waiting for it."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from lexbench.errors import LexbenchError
from lexbench.storage import atomic
from lexbench.timing.protocol import DONE, Baseline, Calibrate, Task, cores

_THREADS = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "RAYON", "NUMBA")  # _NUM_THREADS
_TASK = "task.json"


def core() -> int | None:
    """Return the core to pin to: the last that this process may use, since the system's own work is mostly on the first.

    None where there is no pinning.
    """
    return cores()[-1] if hasattr(os, "sched_setaffinity") else None


def environment(threads: int) -> dict[str, str]:
    """Return the environment of a measuring process: the same modules can be imported, and libraries take so many threads."""
    told = {f"{name}_NUM_THREADS": str(threads) for name in _THREADS}
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return {**os.environ, **told, "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false", "PYTHONPATH": path}


def run(task: Task | Baseline | Calibrate, threads: int, done: Callable[[], None] = lambda: None) -> None:
    """Let a fresh process do *task*, telling *done* of each pass. LexbenchError, in one line, where it fails."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as errors:
        path = Path(folder) / _TASK
        atomic.write_bytes(path, msgspec.json.encode(task))
        # -P: the folder that the user happens to be in is on the path only if it was on this process's
        command = [sys.executable, "-P", "-m", "lexbench.timing", str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment(threads), text=True) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    if line == f"{DONE}\n":
                        done()
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines() or ["no word"]
            raise LexbenchError(f"the process that timed it ended with {process.returncode}: {lines[-1]}")
