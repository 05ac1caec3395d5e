"""What a run asks of who times its systems; `lexbench.timing.timer.Timer` does it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lexbench.results import Timing
from lexbench.runner.stages import DatasetRunner
from lexbench.runner.systems import System


@dataclass(frozen=True)
class TimedRun:
    """What is timed: a system whose index and run are there."""

    named: System  # as it was given
    system: System  # with its weights chosen
    index: Path
    parts: Sequence[Path]  # the folders that the index consists of
    run: Path  # untimed
    depth: int


class Timer(Protocol):
    """Measures speed, a process at a time, so that systems can take turns."""

    @property
    def rounds(self) -> int:
        """How many processes each system is timed in."""
        ...

    def check(self, system: System) -> None:
        """Raise CannotStart where *system* cannot be timed."""
        ...

    def measure(self, timed: TimedRun, runner: DatasetRunner, number: int) -> None:
        """Time one system in process *number*, from 0, of each scenario that has so many."""
        ...

    def timings(self, timed: TimedRun, runner: DatasetRunner) -> list[Timing]:
        """Return the timing of each scenario, of all its processes, which have been measured."""
        ...
