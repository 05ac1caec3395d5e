"""How work tells that it goes on. The library never prints: `lexbench.cli` shows these, a notebook may."""

from typing import Protocol, runtime_checkable


class Progress(Protocol):
    """Hears of stages as they start, advance and end; one stage at a time."""

    def start(self, what: str, stage: str, total: int | None, unit: str) -> None:
        """Say that *stage* of *what* starts; *total* is how many *unit* it has, if that is known."""
        ...

    def advance(self, count: int = 1) -> None:
        """Say that *count* more are done; fewer than 0 where a worker died with them, and they are to be done again."""
        ...

    def end(self) -> None:
        """Say that the stage is finished."""
        ...

    def note(self, line: str) -> None:
        """Say something that the user should read."""
        ...


@runtime_checkable
class HearsOfWorkers(Protocol):
    """Progress that also shows who works on a stage."""

    def workers(self, line: str) -> None:
        """Show *line*, as "workers on Ray: 2, 812 MB", until the next one or the end of the stage."""
        ...


def tell_of_workers(progress: Progress, line: str) -> None:
    """Tell *progress* who works on the stage, if it hears of that."""
    if isinstance(progress, HearsOfWorkers):
        progress.workers(line)


class Silent:
    """Says nothing."""

    def start(self, what: str, stage: str, total: int | None, unit: str) -> None:
        """Ignore it."""

    def advance(self, count: int = 1) -> None:
        """Ignore it."""

    def end(self) -> None:
        """Ignore it."""

    def note(self, line: str) -> None:
        """Ignore it."""
