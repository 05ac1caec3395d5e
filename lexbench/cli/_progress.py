"""Progress on stderr: live bars in a terminal, otherwise a plain line now and then."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lexbench.errors import visible

if TYPE_CHECKING:
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

_EVERY = 30.0  # seconds between the plain lines of one stage
_REDRAWN = 0.1  # seconds between two drawings by rich
_ROOM = 80  # narrower terminals get no bars: names and figures need the room
_SHOWN = 0.5  # seconds; a shorter stage gets no line of its own in a log


class Plain:
    """Progress for logs: one line every half minute and one when a stage ends."""

    def __init__(self) -> None:
        """Start without a stage."""
        self._what = self._unit = self._workers = ""
        self._total: int | None = None
        self._done = 0
        self._start = self._last = 0.0

    def start(self, what: str, stage: str, total: int | None, unit: str) -> None:
        """Begin a stage."""
        self._what, self._total, self._unit, self._done = f"{what}: {stage}", total, unit, 0
        self._workers = ""
        self._start = self._last = time.monotonic()

    def workers(self, line: str) -> None:
        """Describe the workers of the stage in the next lines."""
        self._workers = f", {line}"

    def advance(self, count: int = 1) -> None:
        """Count finished items, and print a line if the last one was long ago."""
        self._done += count
        now = time.monotonic()
        if now - self._last >= _EVERY:
            self._last = now
            of = f"/{self._total:,}" if self._total else ""
            left = f", {(self._total - self._done) / self._rate(now):.0f} s left" if self._total else ""
            self.note(f"{self._what}: {self._done:,}{of} {self._unit}, {self._rate(now):,.0f}/s{left}{self._workers}")

    def end(self) -> None:
        """Print how long the stage took."""
        now = time.monotonic()
        if now - self._start >= _SHOWN:
            self.note(f"{self._what}: {self._done:,} {self._unit} in {now - self._start:.1f} s{self._workers}")

    def _rate(self, now: float) -> float:
        return max(self._done, 1) / max(now - self._start, 1e-9)

    def job_done(self) -> None:
        """Do nothing: the lines of the stages are enough for a log."""

    def note(self, line: str) -> None:
        """Print one line."""
        with suppress(OSError):  # a closed stderr must not stop the work
            print(visible(line), file=sys.stderr, flush=True)


class Live:
    """Progress for terminals: a bar per stage with rate and time left, and a bar of all jobs. Finished stages stay as lines."""

    def __init__(self, whole: str = "", jobs: int = 0) -> None:
        """Make the bars. Without *jobs* there is no bar of all jobs, and the stage shows the memory in use."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.table import Column

        text = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True))  # is cut first
        rate = TextColumn("{task.fields[rate]}", table_column=Column(no_wrap=True))
        console = Console(stderr=True)
        bars = [BarColumn(12)] if console.width >= _ROOM else []
        columns = (text, *bars, MofNCompleteColumn(), rate, TimeElapsedColumn(), _time_left())
        self.bar = Progress(*columns, console=console, transient=True, expand=True, speed_estimate_period=10)
        self._task = self.bar.add_task("", visible=False, rate="")
        self._whole = self.bar.add_task(whole, total=jobs, visible=jobs > 0, rate="", whole=True)
        self._alone = not jobs
        self._what = self._unit = self._workers = ""
        self._start = self._drawn = 0.0
        self._pending = 0

    def start(self, what: str, stage: str, total: int | None, unit: str) -> None:
        """Show a new bar."""
        self._what, self._unit, self._start = visible(f"{what}: {stage}"), unit, time.monotonic()
        self._workers = ""
        self.bar.reset(self._task, total=total, description=self._what, visible=True, rate="")
        self.bar.update(self._whole, rate=_memory())

    def workers(self, line: str) -> None:
        """Describe the workers of the stage behind its name."""
        if line != self._workers.removeprefix(", "):
            self._workers = f", {line}"
            self._flush(time.monotonic())

    def advance(self, count: int = 1) -> None:
        """Count finished items. Counts are gathered, because rich redraws only ten times a second anyway."""
        self._pending += count
        now = time.monotonic()
        if now - self._drawn >= _REDRAWN:
            self._flush(now)

    def _flush(self, now: float) -> None:
        self.bar.advance(self._task, self._pending)
        self._pending, self._drawn = 0, now
        done = self.bar.tasks[0].completed
        memory = _memory()
        description = self._what + self._workers + (f", {memory}" if self._alone and memory else "")
        rate = f"{done / max(now - self._start, 1e-9):,.0f} {self._unit}/s"
        self.bar.update(self._task, description=description, rate=rate)
        self.bar.update(self._whole, rate=memory)

    def end(self) -> None:
        """Replace the bar by a line with what was done."""
        now = time.monotonic()
        self._flush(now)
        done, seconds = self.bar.tasks[0].completed, now - self._start
        line = f"{self._what}: {done:,.0f} {self._unit} in {seconds:.1f} s{self._workers}"
        self.bar.console.print(line, style="dim", markup=False, highlight=False)
        self.bar.update(self._task, visible=False)

    def job_done(self) -> None:
        """Count a finished job."""
        self.bar.advance(self._whole)

    def note(self, line: str) -> None:
        """Print one line above the bars."""
        self.bar.console.print(visible(line), markup=False, highlight=False)


def _time_left() -> "ProgressColumn":
    """Return a column with the time left of a stage. The bar of all jobs has none: jobs differ too much to predict it."""
    from rich.progress import TimeRemainingColumn
    from rich.text import Text

    class TimeLeft(TimeRemainingColumn):
        def render(self, task: "Task") -> "Text":
            return Text("") if "whole" in task.fields else super().render(task)

    return TimeLeft()


def _memory() -> str:
    """Return the memory in use by this process and its children; "" where the system has no /proc."""
    pages, own = 0, Path("/proc/self")
    try:
        started = [pid for thread in (own / "task").iterdir() for pid in _words(thread / "children")]
        for process in (own, *(Path("/proc", pid) for pid in started)):
            pages += int((_words(process / "statm") or ["0", "0"])[1])
    except OSError:
        return ""
    return f"memory {pages * os.sysconf('SC_PAGE_SIZE') / 1e6:,.0f} MB"


def _words(file: Path) -> list[str]:
    """Return the words of a file of /proc; none if its process has ended or the system has no such file."""
    try:
        return file.read_text(encoding="ascii").split()
    except OSError:
        return []


@contextmanager
def shown(whole: str = "", jobs: int = 0) -> Iterator[Plain | Live]:
    """Yield the progress display that suits stderr. *whole* names what the *jobs* belong to, e.g. a suite."""
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") not in {"dumb", "unknown"}:
        live = Live(whole, jobs)
        with live.bar:
            yield live
    else:
        yield Plain()
