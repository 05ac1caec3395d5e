"""Joules that the processor packages took, from RAPL's counters where they can be read (mostly by root alone).

They count the whole machine, idle power included; nothing is subtracted. There is no estimate where there is no counter.
"""

from pathlib import Path
from typing import Any

_POWERCAP = Path("/sys/class/powercap")
_MICRO = 1e6


def counters(root: Path = _POWERCAP) -> dict[str, tuple[int, int]]:
    """Return the microjoules of each zone and the range after which its counter begins anew; none where they cannot be read."""
    found = {}
    for zone in sorted(root.glob("intel-rapl:*")):
        try:
            energy = int((zone / "energy_uj").read_text(encoding="utf-8"))
            most = int((zone / "max_energy_range_uj").read_text(encoding="utf-8"))
            name = (zone / "name").read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            continue
        found[f"{zone.name.removeprefix('intel-rapl:')} {name}"] = energy, most
    return found


def spent(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]], queries: int) -> dict[str, Any]:
    """Return joules by zone and for a query of the packages; or why there are none."""
    if not before:
        return {"joules": None, "reason": "no counters of RAPL that this user may read in /sys/class/powercap"}
    joules = {zone: (after[zone][0] - energy) % most / _MICRO for zone, (energy, most) in before.items() if zone in after}
    packages = sum(value for zone, value in joules.items() if "package" in zone)
    return {"joules": joules, "per_query": packages / queries, "of": "the whole machine, idle power included"}
