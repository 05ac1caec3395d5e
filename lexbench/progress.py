"""How long work reports its progress. The library never prints: `lexbench.cli` shows progress, and a notebook may."""

from lexbench import compiling


def clock() -> float:
    """Return the time in seconds, which stands still while loops are compiled."""
    return compiling.clock()


class Progress:
    """Receives the steps of the work, one at a time. The methods do nothing, so a `Progress()` shows nothing."""

    def start(self, what: str, stage: str, total: int | None, unit: str) -> None:
        """Start the step *stage* of *what*; *total* is its number of *unit*, if known."""

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
