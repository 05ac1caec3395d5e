"""Compiling beforehand: a process compiles the loops that systems need, while their corpus is read and encoded.

numba compiles a loop when it is first called and keeps it in files. For a first run that takes ten seconds and more of one
core; encoding takes all cores, and none of these loops, so both are done at once. What the process does is in
`lexbench.runner.warm_up`. Where it fails nothing is lost: loops are then compiled when they are called.
"""

import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from lexbench.storage import children

MANY = 1000  # documents from which on encoding takes longer than starting a process


class Precompilation:
    """The process that compiles what *systems*, in the notation of parts, need; it does not outlive the block of this."""

    def __init__(self, systems: Sequence[str]) -> None:
        self._systems = systems
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, unless it has been."""
        if self._systems and self._process is None:
            command, environment = children.command("lexbench.runner.warm_up", *self._systems), children.environment()
            pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
            self._process = subprocess.Popen(command, stdin=pipe, stdout=nowhere, stderr=nowhere, env=environment)

    def wait(self) -> None:
        """Wait until it has ended, if it was started: what follows would compile the same again."""
        if self._process is not None:
            self._process.wait()

    def __enter__(self) -> Self:
        """Do nothing: `start` does."""
        return self

    def __exit__(self, *_error: object) -> None:
        """End it, whatever it does."""
        if self._process is not None:
            self._process.kill()
            with suppress(BrokenPipeError), self._process:
                pass
