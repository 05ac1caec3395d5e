"""The one module that reads a clock: how long stages took, kept beside their files with the machine they ran on."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from lexbench.storage import atomic, environment, manifest

M = TypeVar("M", bound="Measurement")

_running: list[float] = []  # when each block that is being timed began, or went on; a block inside another comes after it


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """What differs from machine to machine and from run to run."""

    seconds: dict[str, float] = {}  # wall time by stage: build, encode_queries, search, score
    resumed: bool = False  # a stage was cut off and went on later: its seconds are of the last process alone
    machine: dict[str, str] = {}
    versions: dict[str, str] = {}
    started: str = ""  # UTC, ISO 8601


class StageMeasurement(Measurement, frozen=True, kw_only=True):
    """What lies beside a stage's files. Its `seconds` are those of the stage and of all that it was made of, each once."""

    stage_seconds: dict[str, float] | None = msgspec.field(default=None, name="own")  # of it alone; old folders do not say
    parts: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)  # of all folders it was made of, by their names
    sha256: str | None = None  # beginning of the digest of all else, see `lexbench.storage.manifest.measured_text`


@dataclass
class Stopwatch:
    """Wall time by stage, written beside a stage's files. What is timed inside a block is not counted for the block too."""

    seconds: dict[str, float] = field(default_factory=dict)
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    resumed: bool = False  # an earlier process did a part
    packages: Sequence[str] = ()  # that plug-ins of the stage need, see `environment.versions`
    parts: dict[str, dict[str, float]] = field(default_factory=dict)  # own seconds of folders, by their names

    @contextmanager
    def time(self, stage: str) -> Iterator[None]:
        """Add the time that the block takes to *stage*, without that of blocks inside it."""
        start = time.perf_counter()
        _running.append(start)
        try:
            yield
        finally:
            end, began = time.perf_counter(), _running.pop()
            self.seconds[stage] = self.seconds.get(stage, 0.0) + end - began
            if _running:  # the block around this one, which hands it on in its turn
                _running[-1] += end - start

    def add(self, part: Path) -> None:
        """Take over the times of a finished folder that the stage is made of, and of the folders that this was made of."""
        content = _read(part, StageMeasurement)
        self.parts |= content.parts | {part.name: content.seconds if content.stage_seconds is None else content.stage_seconds}
        self.resumed |= content.resumed

    def write(self, draft: Path) -> None:
        """Write the times, with the machine, into the draft of a stage."""
        seconds: dict[str, float] = {}
        for part in (self.seconds, *self.parts.values()):
            for stage, spent in part.items():
                seconds[stage] = seconds.get(stage, 0.0) + spent
        content = StageMeasurement(
            seconds=seconds,
            stage_seconds=self.seconds,
            parts=self.parts,
            resumed=self.resumed,
            machine=environment.facts(),
            versions=environment.versions(self.packages),
            started=self.started,
        )
        values = msgspec.to_builtins(content)
        del values["sha256"]
        atomic.write_json(draft / manifest.MEASURED, {**values, "sha256": manifest.digest(values)})


def read_measurement(folder: Path) -> Measurement:
    """Return what was measured when a finished folder was made; nothing where that is damaged, for no score depends on it."""
    return _read(folder, Measurement)


def _read(folder: Path, kind: type[M]) -> M:
    content = manifest.measured_text(folder)
    try:
        return kind() if content is None else msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError:
        return kind()
