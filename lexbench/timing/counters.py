"""What the kernel counts while something is timed: memory, energy, and who else used the machine (Linux).

Where there is no counter there is no figure, and no estimate in its place. Joules are those of the processor packages, from
RAPL's counters where they can be read (mostly by root alone): of the whole machine, idle power included; nothing is subtracted.
"""

import gc
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from lexbench.timing.protocol import cores

_KIB = 1024
_SELF = Path("/proc/self")
_RESET_PEAK = "5"  # see proc(5), clear_refs
_POWERCAP = Path("/sys/class/powercap")
_MICRO = 1e6
_STAT = Path("/proc/stat")
_STEAL = 7  # place in a line of /proc/stat (proc(5))
_THROTTLES = (Path("/sys/fs/cgroup/cpu.stat"), Path("/sys/fs/cgroup/cpu/cpu.stat"))
_THERMAL = "thermal_throttle/core_throttle_count"
_MOST_STOLEN = 0.01  # of the time
_LEAST_CPU = 0.95  # of a core that is the process's alone


# -------------------------------------------------------------------------------------------------------------- memory


class _Mapping(NamedTuple):
    """What a process has mapped in one place, in bytes that are in memory."""

    file: str  # "" of none
    code: bool  # whether it can be executed
    own: int  # that no file has, shared with the process that it was forked from or not
    part: int  # of all, of shared pages its part (PSS)


def memory(folder: Path = _SELF) -> dict[str, int]:
    """Return the bytes of this process: its own, and those of files that it maps, of shared pages its part (PSS).

    Of a process that was forked what it still shares with the other is its own, too. Libraries are no such files: how much of
    their code is in memory, and who shares it, is no matter of the system that is measured.
    """
    mappings = list(_mappings(_text(folder / "smaps")))
    if not mappings:
        return {}
    libraries = {mapping.file for mapping in mappings if mapping.code}
    files = sum(mapping.part - mapping.own for mapping in mappings if mapping.file and mapping.file not in libraries)
    return {"pss_anonymous": sum(mapping.own for mapping in mappings), "pss_file": max(0, files)}


def _mappings(smaps: str) -> Iterator[_Mapping]:
    """Yield what /proc/PID/smaps tells of, see proc(5)."""
    file, permissions, part = "", "", 0
    for line in smaps.splitlines():
        first, _, rest = line.partition(" ")
        if first == "Pss:":
            part = int(rest.split()[0]) * _KIB
        elif first == "Anonymous:":
            yield _Mapping(file, "x" in permissions, int(rest.split()[0]) * _KIB, part)
        elif not first.endswith(":"):  # where the next mapping is, and of what
            permissions, _offset, _device, inode, *name = rest.split(maxsplit=4)
            file = name[0] if name and inode != "0" else ""


def peak_memory() -> int:
    """Return the most bytes that this process has had since *reset_peak_memory*; 0 where the kernel does not say."""
    return _bytes_by_field(_SELF / "status").get("VmHWM", 0)


def reset_peak_memory() -> None:
    """Let `peak_memory` begin anew, where the kernel can."""
    with suppress(OSError):
        (_SELF / "clear_refs").write_text(_RESET_PEAK)


def _bytes_by_field(path: Path) -> dict[str, int]:
    """Return the bytes that a file of /proc tells, by name."""
    rows = (line.replace(":", " ").split() for line in _text(path).splitlines())
    return {row[0]: int(row[1]) * _KIB for row in rows if row[-1:] == ["kB"]}


def model_bytes() -> int:
    """Return the bytes of the parameters of all models of torch in this process, each once, as they are held in memory."""
    if "torch" not in sys.modules:
        return 0
    from torch import nn

    sizes: dict[int, int] = {}
    for module in gc.get_objects():
        if isinstance(module, nn.Module):
            sizes |= {tensor.data_ptr(): tensor.numel() * tensor.element_size() for tensor in module.parameters(recurse=False)}
    return sum(sizes.values())


def imported_modules() -> list[str]:
    """Return the names of all modules that this process has imported, in order; not of one whose import starts Java."""
    return [name for name in sys.modules if not name.startswith(("__", "jnius"))]


def import_all(modules: Iterable[str]) -> None:
    """Import modules, and do nothing with them: one that does not import alone is left out."""
    for name in modules:
        with suppress(Exception):
            import_module(name)


# -------------------------------------------------------------------------------------------------------------- energy


def energy_counters(root: Path = _POWERCAP) -> dict[str, tuple[int, int]]:
    """Return the microjoules of each zone and the range after which its counter begins anew; none where they cannot be read."""
    zones = {}
    for zone in sorted(root.glob("intel-rapl:*")):
        try:
            energy = int((zone / "energy_uj").read_text(encoding="utf-8"))
            most = int((zone / "max_energy_range_uj").read_text(encoding="utf-8"))
            name = (zone / "name").read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            continue
        zones[f"{zone.name.removeprefix('intel-rapl:')} {name}"] = energy, most
    return zones


def energy_spent(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]], queries: int) -> dict[str, Any]:
    """Return joules by zone and for a query of the packages; or why there are none."""
    if not before:
        return {"joules": None, "reason": "no counters of RAPL that this user may read in /sys/class/powercap"}
    joules = {zone: (after[zone][0] - energy) % most / _MICRO for zone, (energy, most) in before.items() if zone in after}
    packages = sum(value for zone, value in joules.items() if "package" in zone)
    return {"joules": joules, "per_query": packages / queries, "of": "the whole machine, idle power included"}


# --------------------------------------------------------------------------------------------------------------- noise


@dataclass(frozen=True)
class Moment:
    """The machine's counters at one time; those that there are not are 0."""

    load: float  # processes that run or want to, over the last minute
    stolen: int  # ticks that another machine on the same host had, of all cores
    ticks: int  # all ticks
    throttled: int  # times that the control group was held back
    hot: int  # times that a core was slowed down for its heat


def moment() -> Moment:
    """Read the machine's counters."""
    ticks = [int(number) for number in _text(_STAT).partition("\n")[0].split()[1:]]
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    hot = sum(_number(Path(f"/sys/devices/system/cpu/cpu{core}") / _THERMAL) for core in cores())
    return Moment(load, ticks[_STEAL] if len(ticks) > _STEAL else 0, sum(ticks[: _STEAL + 1]), _throttled(), hot)


def _throttled() -> int:
    for path in _THROTTLES:
        try:
            fields = dict(line.split() for line in path.read_text(encoding="utf-8").splitlines())
        except (OSError, ValueError):
            continue
        return int(fields.get("nr_throttled", 0))
    return 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


def _number(path: Path) -> int:
    text = _text(path).strip()
    return int(text) if text.isdigit() else 0


def disturbances(before: Moment, after: Moment, available: int) -> Iterator[str]:
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
