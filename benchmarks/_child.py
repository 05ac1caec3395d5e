"""Runs the child processes of benchmarks: if one fails, its last lines are shown."""

import subprocess
import sys
from collections.abc import Mapping, Sequence

_LINES = 15  # of a child that failed


def run(command: Sequence[str], *, env: Mapping[str, str] | None = None, text: str | None = None, shown: bool = False) -> str:
    """Run *command*, with *text* as its standard input, and return its standard output; if it is *shown* meanwhile, "".

    If it fails, this program ends with the last lines that the child wrote.
    """
    output = None if shown else subprocess.PIPE
    done = subprocess.run(
        command, env=env, input=text, stdout=output, stderr=subprocess.PIPE, text=True, errors="replace", check=False
    )
    if done.returncode:
        lines = [*(done.stdout or "").splitlines(), *done.stderr.splitlines()][-_LINES:]
        sys.exit("\n".join([f"exit code {done.returncode} of: {' '.join(command)}", *lines]))
    return done.stdout or ""
