"""How work tells that it goes on. The library never prints: `lexbench.cli` shows these, a notebook may."""

from typing import Protocol


class Progress(Protocol):
    """Hears of stages as they start, advance and end; one stage at a time."""

    def start(self, what: str, stage: str, total: int | None, unit: str) -> None:
        """Say that *stage* of *what* starts; *total* is how many *unit* it has, if that is known."""
        ...

    def advance(self, count: int = 1) -> None:
        """Say that *count* more are done."""
        ...

    def end(self) -> None:
        """Say that the stage is finished."""
        ...

    def note(self, line: str) -> None:
        """Say something that the user should read."""
        ...


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
