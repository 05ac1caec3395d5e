"""Progress on stderr: live bars in a terminal, otherwise a plain line now and then."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from lexbench.display.progress import Plain, Share
from lexbench.errors import visible

_REDRAWN = 0.1  # seconds between two drawings by rich
_ROOM = 80  # narrower terminals get no bars: names and figures need the room


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

    def start(self, what: str, stage: str, total: int | None, unit: str, share: Share | None = None) -> None:
        """Show a new bar."""
        super().start(what, stage, total, unit, share)
        self._last = 0.0  # show the first item at once
        self.bar.reset(self._task, total=total, description=self._what, visible=True, rate="", left="")

    def _show(self, rate: float) -> None:
        done, description, left = self._done, self._what + self._workers, self._left()
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
