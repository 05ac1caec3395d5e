"""The one module that reads a clock: how long stages took, kept beside their files with the machine they ran on."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from lexbench import atomic, machine, results, store
from lexbench.results import Measured

_running: list[float] = []  # when each block that is being timed began, or went on; a block inside another comes after it


@dataclass
class Stopwatch:
    """Wall time by stage, written beside a stage's files. What is timed inside a block is not counted for the block too."""

    seconds: dict[str, float] = field(default_factory=dict)
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    resumed: bool = False  # an earlier process did a part

    @contextmanager
    def time(self, stage: str) -> Iterator[None]:
        """Add the time that the block takes to *stage*, without that of blocks inside it."""
        start = time.perf_counter()
        _running.append(start)
        try:
            yield
        finally:
            end, begun = time.perf_counter(), _running.pop()
            self.seconds[stage] = self.seconds.get(stage, 0.0) + end - begun
            if _running:  # the block around this one, which hands it on in its turn
                _running[-1] += end - start

    def add(self, part: Measured) -> None:
        """Take over the times of a part that was made before."""
        self.seconds = part.seconds | self.seconds
        self.resumed |= part.resumed

    def write(self, draft: Path) -> None:
        """Write the times, with the machine, into the draft of a stage."""
        measured = Measured(
            seconds=self.seconds,
            resumed=self.resumed,
            machine=machine.facts(),
            versions=machine.versions(),
            started=self.started,
        )
        atomic.write_bytes(draft / store.MEASURED, results.to_bytes(measured))


def measured(folder: Path) -> Measured:
    """Return what was measured when a finished folder was made."""
    return msgspec.json.decode((folder / store.MEASURED).read_bytes(), type=Measured)
