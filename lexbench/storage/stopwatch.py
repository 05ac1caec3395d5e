"""Wall time by step, stored in the folder of an artifact with the machine and the versions of packages.

The clock stands still while loops are compiled, because that is done once per machine.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from glob import escape
from pathlib import Path
from typing import TypeVar

import msgspec

from lexbench import compiling
from lexbench.storage import atomic, environment
from lexbench.storage.artifact_folder import MEASURED, digest, measured_text

M = TypeVar("M", bound="Measurement")
_FIRST = datetime(2026, 11, 21, tzinfo=UTC)  # the first line of lexbench
_SKEW = timedelta(days=2)  # between clocks


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """What differs from machine to machine and from run to run."""

    seconds: dict[str, float] = {}  # wall time by step: build, encode_queries, search, score
    resumed: bool = False  # a step was interrupted and continued: its seconds are those of the last process
    machine: dict[str, str] = {}
    versions: dict[str, str] = {}
    started: str = ""  # UTC, ISO 8601


class ArtifactMeasurement(Measurement, frozen=True, kw_only=True):
    """The measurement of an artifact. Its `seconds` include those of all artifacts that it was made from, each once."""

    own: dict[str, float] = {}  # seconds of this artifact alone
    parts: dict[str, dict[str, float]] = {}  # own seconds of the artifacts that it was made from, by folder name
    sha256: str = ""  # the beginning of the digest of everything else, see `lexbench.storage.artifact_folder.measured_text`


@dataclass
class Stopwatch:
    """Measures wall time by step."""

    seconds: dict[str, float] = field(default_factory=dict)
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    resumed: bool = False  # an earlier process did a part
    packages: Sequence[str] = ()  # packages that the plug-ins need, see `environment.versions`
    parts: dict[str, dict[str, float]] = field(default_factory=dict)  # own seconds of artifacts, by folder name

    @contextmanager
    def time(self, step: str) -> Iterator[None]:
        """Add the time of the block to *step*."""
        start = compiling.clock()
        try:
            yield
        finally:
            self.seconds[step] = self.seconds.get(step, 0.0) + compiling.clock() - start

    def add(self, part: Path) -> None:
        """Include the times of an artifact that this one is made from, and of the artifacts that it was made from."""
        content = _read(part, ArtifactMeasurement)
        self.parts |= content.parts | {part.name: content.own}
        self.resumed |= content.resumed

    def write(self, draft: Path) -> None:
        """Write the times and the machine into the draft of an artifact."""
        seconds: dict[str, float] = {}
        for part in (self.seconds, *self.parts.values()):
            for step, spent in part.items():
                seconds[step] = seconds.get(step, 0.0) + spent
        content = ArtifactMeasurement(
            seconds=seconds,
            own=self.seconds,
            parts=self.parts,
            resumed=self.resumed,
            machine=environment.facts(),
            versions=environment.versions(self.packages),
            started=self.started,
        )
        values = msgspec.to_builtins(content)
        del values["sha256"]
        atomic.write_json(draft / MEASURED, {**values, "sha256": digest(values)})


def read_measurement(folder: Path) -> Measurement:
    """Return the measurement of an artifact; an empty one if it is damaged, because no score depends on it.

    It has no date if the clock was wrong: the artifact would be the newest for years, and nobody would accept its result.
    """
    found = _read(folder, Measurement)
    return msgspec.structs.replace(found, started="") if impossible_date(found.started) else found


def parts_of(folder: Path) -> Iterator[Path]:
    """Yield the folders in the store of everything that an artifact was made from, as far as it is there."""
    for name in _read(folder, ArtifactMeasurement).parts:
        yield from folder.parents[1].glob(f"*/{escape(name)}")


def _read(folder: Path, kind: type[M]) -> M:
    content = measured_text(folder)
    try:
        return kind() if content is None else msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError:
        return kind()


def impossible_date(written: str) -> str:
    """Return why nobody can have measured on a date, with the date; "" if it can be."""
    try:
        date = datetime.fromisoformat(written)
    except ValueError:
        return f"{written!r}, which is no date"
    date = date.replace(tzinfo=date.tzinfo or UTC)
    if date > datetime.now(UTC) + _SKEW:
        return f"{written}, which is in the future"
    return f"{written}, before lexbench was written" if date < _FIRST - _SKEW else ""
