"""Progress on stderr: a live bar in a terminal, a plain line now and then elsewhere."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lexbench.progress import Progress

_EVERY = 30.0  # seconds between plain lines of one stage
_REDRAWN = 0.1  # seconds between what rich draws
_SHOWN = 0.5  # a stage shorter than this has no line of its own in a log


class Plain:
    """One line when a long stage starts, one every half minute, one when it ends."""

    def __init__(self) -> None:
        """Start with no stage."""
        self._what = self._unit = ""
        self._total: int | None = None
        self._done = 0
        self._start = self._said = 0.0

    def start(self, what: str, stage: str, total: int | None, unit: str) -> None:
        """Remember the stage."""
        self._what, self._total, self._unit, self._done = f"{what}: {stage}", total, unit, 0
        self._start = self._said = time.monotonic()

    def advance(self, count: int = 1) -> None:
        """Say how far it is, if the last line is long ago."""
        self._done += count
        now = time.monotonic()
        if now - self._said >= _EVERY:
            self._said = now
            of = f"/{self._total:,}" if self._total else ""
            left = f", {(self._total - self._done) / self._rate(now):.0f} s left" if self._total else ""
            self.note(f"{self._what}: {self._done:,}{of} {self._unit}, {self._rate(now):,.0f}/s{left}")

    def end(self) -> None:
        """Say how long it took."""
        now = time.monotonic()
        if now - self._start >= _SHOWN:
            self.note(f"{self._what}: {self._done:,} {self._unit} in {now - self._start:.1f} s")

    def _rate(self, now: float) -> float:
        return max(self._done, 1) / max(now - self._start, 1e-9)

    def note(self, line: str) -> None:
        """Print one line."""
        print(line, file=sys.stderr, flush=True)


class Live:
    """A bar with rate and time left; finished stages stay as one line."""

    def __init__(self) -> None:
        """Make the bar."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        rate = TextColumn("{task.fields[rate]}")
        columns = (TextColumn("{task.description}", markup=False), BarColumn(20), MofNCompleteColumn(), rate)
        self.bar = RichProgress(
            *columns,
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            speed_estimate_period=10,
        )
        self._task = self.bar.add_task("", visible=False, rate="")
        self._what = self._unit = ""
        self._start = self._drawn = 0.0
        self._pending = 0

    def start(self, what: str, stage: str, total: int | None, unit: str) -> None:
        """Show a new bar."""
        self._what, self._unit, self._start = f"{what}: {stage}", unit, time.monotonic()
        self.bar.reset(self._task, total=total, description=self._what, visible=True, rate="")

    def advance(self, count: int = 1) -> None:
        """Move the bar; rich redraws ten times a second whatever is asked, so counts are gathered."""
        self._pending += count
        now = time.monotonic()
        if now - self._drawn >= _REDRAWN:
            self._flush(now)

    def _flush(self, now: float) -> None:
        self.bar.advance(self._task, self._pending)
        self._pending, self._drawn = 0, now
        done = self.bar.tasks[0].completed
        self.bar.update(self._task, rate=f"{done / max(now - self._start, 1e-9):,.0f} {self._unit}/s")

    def end(self) -> None:
        """Leave a line with what was done."""
        now = time.monotonic()
        self._flush(now)
        done, seconds = self.bar.tasks[0].completed, now - self._start
        self.bar.console.print(
            f"{self._what}: {done:,.0f} {self._unit} in {seconds:.1f} s", style="dim", markup=False, highlight=False
        )
        self.bar.update(self._task, visible=False)

    def note(self, line: str) -> None:
        """Print one line above the bar."""
        self.bar.console.print(line, markup=False, highlight=False)


@contextmanager
def shown() -> Iterator[Progress]:
    """Yield the progress that suits stderr."""
    if sys.stderr.isatty():
        live = Live()
        with live.bar:
            yield live
    else:
        yield Plain()
