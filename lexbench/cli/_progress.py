"""Progress on stderr: live bars in a terminal, otherwise a plain line now and then."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

from lexbench.errors import visible
from lexbench.progress import Progress, clock

_EVERY = 30.0  # seconds between the plain lines of one stage
_REDRAWN = 0.1  # seconds between two drawings by rich
_ROOM = 80  # narrower terminals get no bars: names and figures need the room
_SHOWN = 0.5  # seconds; a shorter stage gets no line in a log


class Plain(Progress):
    """Progress for logs: one line every half minute and one when a stage ends."""

    def __init__(self) -> None:
        """Start without a stage."""
        self._what = self._unit = self._workers = ""
        self._total: int | None = None
        self._done = 0
        self._start = self._last = 0.0
        self._every = _EVERY
        self.damaged = False  # whether something stored is damaged

    def start(self, what: str, stage: str, total: int | None, unit: str) -> None:
        """Begin a stage."""
        self._what, self._total, self._unit = visible(f"{what}: {stage}"), total, unit
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
        of = f"/{self._total:,} {self._unit}" if self._total else f" {self._unit}"
        left = f", {self._left(rate)} left" if self._total else ""
        self.note(f"{self._what}: {self._done:,}{of}, {rate:,.0f}/s{left}{self._workers}")

    def _left(self, rate: float) -> str:
        return str(timedelta(seconds=round((self._total - self._done) / rate))) if self._total else ""

    def end(self) -> None:
        """Print how long the stage took."""
        if clock() - self._start >= _SHOWN:
            self.note(self._summary())

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
        with suppress(OSError):  # a closed stderr must not stop the work
            print(visible(line), file=sys.stderr, flush=True)


class Live(Plain):
    """Progress for terminals: a bar per stage with rate and time left, and a bar of all jobs. Finished stages stay as lines."""

    def __init__(self) -> None:
        """Make the bars; there is no bar of all jobs before they are known."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars
        from rich.table import Column

        super().__init__()
        self._every = _REDRAWN
        text = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True))  # is cut first
        rate, left = (TextColumn(f"{{task.fields[{name}]}}", table_column=Column(no_wrap=True)) for name in ("rate", "left"))
        console = Console(stderr=True)
        bars = [BarColumn(12)] if console.width >= _ROOM else []
        columns = (text, *bars, MofNCompleteColumn(), rate, TimeElapsedColumn(), left)
        self.bar = Bars(*columns, console=console, transient=True, expand=True)
        self._task = self.bar.add_task("", visible=False, rate="", left="")
        self._whole = self.bar.add_task("", total=0, visible=False, rate="", left="")

    def jobs(self, whole: str, count: int) -> None:
        """Show the bar of all jobs."""
        self.bar.reset(self._whole, total=count, description=visible(whole), visible=count > 0, rate="", left="")

    def start(self, what: str, stage: str, total: int | None, unit: str) -> None:
        """Show a new bar."""
        super().start(what, stage, total, unit)
        self._last = 0.0  # show the first item at once
        self.bar.reset(self._task, total=total, description=self._what, visible=True, rate="", left="")

    def _show(self, rate: float) -> None:
        done, description, left = self._done, self._what + self._workers, self._left(rate)
        self.bar.update(self._task, completed=done, description=description, rate=f"{rate:,.0f} {self._unit}/s", left=left)

    def end(self) -> None:
        """Replace the bar by a line with what was done."""
        self.bar.console.print(self._summary(), style="dim", markup=False, highlight=False)
        self.bar.update(self._task, visible=False)

    def job_done(self) -> None:
        """Count a finished job."""
        self.bar.advance(self._whole)

    def note(self, line: str) -> None:
        """Print one line above the bars."""
        self.bar.console.print(visible(line), markup=False, highlight=False)


@contextmanager
def shown() -> Iterator[Plain]:
    """Yield the progress display that suits stderr."""
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") not in {"dumb", "unknown"}:
        live = Live()
        with live.bar:
            yield live
    else:
        yield Plain()
