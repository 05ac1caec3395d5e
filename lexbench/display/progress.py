"""How long work reports its progress. The work never prints: it calls a `Progress`, and `Plain` writes lines on stderr."""

import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import TypeAlias

from lexbench import compiling
from lexbench.errors import visible

_EVERY = 30.0  # seconds between the lines of one stage
_SHOWN = 0.5  # seconds; a shorter stage gets no line


def clock() -> float:
    """Return the time in seconds, which stands still while loops are compiled."""
    return compiling.clock()


Share: TypeAlias = Callable[[int], float]


def give_warning(line: str, stacklevel: int) -> None:
    """Give a Python warning, as `warnings.warn` does: once per place in the code.

    Where warnings are errors, the line goes to stderr: an exception in the middle of the work would cost the work.
    """
    try:
        warnings.warn(line, stacklevel=stacklevel + 1)
    except UserWarning:
        Plain().line(line)


class Progress:
    """Receives the steps of the work, one at a time. The methods do nothing, so a `Progress()` shows nothing."""

    def start(self, what: str, stage: str, total: int | None, unit: str, share: Share | None = None) -> None:
        """Start the step *stage* of *what*; *total* is its number of *unit*, if known.

        *share* returns the share of the work, 0 to 1, that so many finished items are; by default all take the same time.
        """

    def jobs(self, whole: str, count: int) -> None:
        """Begin *count* jobs of *whole*, e.g. a suite."""

    def job_done(self) -> None:
        """Count a finished job of several."""

    def advance(self, count: int = 1) -> None:
        """Add *count* finished items; below 0 if a worker died and its items will be done again."""

    def end(self) -> None:
        """Finish the step."""

    def note(self, line: str) -> None:
        """Show a line that the user should read."""

    def warn(self, line: str) -> None:
        """Show that something stored is damaged and was left out, so the answer may lack it."""
        self.note(line)

    def workers(self, line: str) -> None:
        """Describe the workers of the step, e.g. "workers on Ray: 2, 812 MB", until the next call or the end of the step."""


class Plain(Progress):
    """Progress for logs: one line every half minute and one when a stage ends."""

    def __init__(self, every: float = _EVERY) -> None:
        """Start without a stage; *every* is the time between two lines of one in seconds."""
        self._what = self._unit = self._workers = ""
        self._total: int | None = None
        self._share: Share | None = None
        self._done = 0
        self._start = self._last = 0.0
        self._every = every
        self.damaged = False  # whether something stored is damaged

    def start(self, what: str, stage: str, total: int | None, unit: str, share: Share | None = None) -> None:
        """Begin a stage."""
        self._what, self._total, self._unit, self._share = visible(f"{what}: {stage}"), total, unit, share
        self._done, self._workers = 0, ""
        self._start = self._last = clock()

    def workers(self, line: str) -> None:
        """Describe the workers of the stage from now on."""
        self._workers = f", {line}"

    def advance(self, count: int = 1) -> None:
        """Count finished items, and show the count if the last one was shown long ago."""
        self._done += count
        now = clock()
        if now - self._last >= self._every:
            self._last = now
            self._show(max(self._done, 1) / max(now - self._start, 1e-9))

    def _show(self, rate: float) -> None:
        total = f"/{self._total:,} {self._unit}" if self._total else f" {self._unit}"
        left = f", {self._left()} left" if self._total else ""
        self.line(f"{self._what}: {self._done:,}{total}, {rate:,.0f}/s{left}{self._workers}")

    def _left(self) -> str:
        """Return the time that the rest takes if it goes on as it went so far; "" if nothing is known."""
        share = self._share(self._done) if self._share else self._done / self._total if self._total else 0.0
        return str(timedelta(seconds=round((clock() - self._start) * (1 - share) / share))) if share > 0 else ""

    def end(self) -> None:
        """Print how long the stage took."""
        if clock() - self._start >= _SHOWN:
            self.line(self._summary())

    def _summary(self) -> str:
        return f"{self._what}: {self._done:,} {self._unit} in {clock() - self._start:.1f} s{self._workers}"

    def jobs(self, whole: str, count: int) -> None:
        """Do nothing: the lines of the stages are enough for a log."""

    def job_done(self) -> None:
        """Do nothing, as for `jobs`."""

    def warn(self, line: str) -> None:
        """Print one line, and remember that something is damaged."""
        self.damaged = True
        self.note(line)

    def note(self, line: str) -> None:
        """Print one line."""
        self.line(line)

    def line(self, line: str) -> None:
        """Print one line on stderr."""
        with suppress(OSError):  # a closed stderr must not stop the work
            sys.stderr.write(f"{visible(line)}\n")
            sys.stderr.flush()
