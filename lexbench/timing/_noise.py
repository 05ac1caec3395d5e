"""Who else used the machine while something was timed: read before and after, and told where it was too much."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lexbench.timing.protocol import cores

_STAT = Path("/proc/stat")
_THROTTLES = (Path("/sys/fs/cgroup/cpu.stat"), Path("/sys/fs/cgroup/cpu/cpu.stat"))
_THERMAL = "thermal_throttle/core_throttle_count"
_STEAL = 7  # place in a line of /proc/stat (proc(5))
_MOST_STOLEN = 0.01  # of the time
_LEAST_CPU = 0.95  # of a core that is the process's alone


@dataclass(frozen=True)
class Moment:
    """The machine's counters at one time."""

    load: float  # processes that run or want to, over the last minute
    stolen: int  # ticks that another machine on the same host had, of all cores
    ticks: int  # all ticks
    throttled: int  # times that the control group was held back
    hot: int  # times that a core was slowed down for its heat


def moment() -> Moment:
    """Read the counters; those that there are not are 0."""
    try:
        ticks = [int(number) for number in _STAT.read_text(encoding="utf-8").partition("\n")[0].split()[1:]]
    except OSError:
        ticks = []
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    hot = sum(_number(Path(f"/sys/devices/system/cpu/cpu{core}") / _THERMAL) for core in cores())
    return Moment(load, ticks[_STEAL] if len(ticks) > _STEAL else 0, sum(ticks[: _STEAL + 1]), _throttled(), hot)


def _throttled() -> int:
    for path in _THROTTLES:
        try:
            facts = dict(line.split() for line in path.read_text(encoding="utf-8").splitlines())
        except (OSError, ValueError):
            continue
        return int(facts.get("nr_throttled", 0))
    return 0


def _number(path: Path) -> int:
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0


def reasons(before: Moment, after: Moment, available: int) -> Iterator[str]:
    """Yield why what was timed between two moments on a machine of *available* cores was disturbed."""
    if before.load > available:
        yield f"the load was {before.load:.1f} on {available} cores before it"
    stolen = (after.stolen - before.stolen) / max(after.ticks - before.ticks, 1)
    if stolen > _MOST_STOLEN:
        yield f"other machines on the same host took {stolen:.0%} of the time"
    if after.throttled > before.throttled:
        yield f"the control group was held back {after.throttled - before.throttled} times"
    if after.hot > before.hot:
        yield f"a core was slowed down for its heat {after.hot - before.hot} times"


def crowded(cpu_per_wall: float) -> str | None:
    """Return a line where one thread, pinned to a core, did not have it to itself."""
    if cpu_per_wall >= _LEAST_CPU:
        return None
    return f"it had its core for {cpu_per_wall:.0%} of the time, or waited for the disk"
