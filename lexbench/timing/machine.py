"""The machine that a system is timed on: its fingerprint, the memory of a process, and disturbances by other processes.

Most facts are read from /proc and /sys of Linux. Facts that the kernel does not report are left out, never estimated.
"""

import gc
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lexbench.storage import environment
from lexbench.storage.artifact_folder import digest
from lexbench.storage.environment import cores

_KIB = 1024
_SELF = Path("/proc/self")
_STAT = Path("/proc/stat")
_CPU = Path("/sys/devices/system/cpu")
_RESET_PEAK = "5"  # see proc(5), clear_refs
_STEAL = 7  # place in a line of /proc/stat, see proc(5)
_THROTTLES = (Path("/sys/fs/cgroup/cpu.stat"), Path("/sys/fs/cgroup/cpu/cpu.stat"))
_MOST_STOLEN = 0.01  # share of the time
_LEAST_CPU = 0.95  # share of the time that a process should have its pinned core
_VECTORS = ("avx", "avx2", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16", "asimd", "sve", "sve2", "amx_tile")
_SOFTWARE = ("numpy", "scipy", "numba", "torch", "transformers", "pyserini")
_LIMITS = {  # of the control group, versions 2 and 1
    "cpu": ("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
    "memory": ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
}
_UNLIMITED = 1 << 60
_PATIENCE = 30  # seconds for nvidia-smi, which may have to wake a card


def _text(path: Path) -> str:
    """Return the text of a file without blanks around it; "" if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


# ---- the fingerprint -------------------------------------------------------------------------------------------------------


def fingerprint(gpus: Sequence[str] = ()) -> str:
    """Return the digest of `performance()`. Speeds are comparable only between results with the same fingerprint.

    *gpus* are the names of those that computed: what a GPU computes is compared with what the same GPU computes.
    """
    return digest(performance() | ({"computed_on": list(gpus)} if gpus else {}))


@cache
def performance() -> dict[str, Any]:
    """Return the facts of this machine that decide speed; unknown ones are left out."""
    lines = _text(Path("/proc/cpuinfo")).partition("\n\n")[0].splitlines()  # of the first processor
    cpu = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    flags = cpu.get("flags", cpu.get("Features", "")).split()
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    facts: dict[str, Any] = {
        "processor": environment.facts()["processor"],
        "stepping": cpu.get("stepping"),
        "microcode": cpu.get("microcode"),
        "logical_cores": os.cpu_count(),
        "physical_cores": len({_text(path) for path in _CPU.glob("cpu[0-9]*/topology/thread_siblings_list")}) or None,
        "usable_cores": len(cores()),
        "smt": _text(_CPU / "smt/active"),
        "governor": _text(_CPU / "cpu0/cpufreq/scaling_governor"),
        "boost": _text(_CPU / "cpufreq/boost"),
        "no_turbo": _text(_CPU / "intel_pstate/no_turbo"),
        "caches": _caches(),
        "vectors": [flag for flag in _VECTORS if flag in flags],
        "numa_nodes": len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or None,
        "memory_gib": environment.facts()["memory_gib"],
        "virtual": "hypervisor" in flags,
        "container": any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv")),
        "limits": {name: limit for name, paths in _LIMITS.items() if (limit := _limit(paths))},
        "system": environment.facts()["system"],
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()).strip(),
        "gpus": _gpus(),
        "python": platform.python_version(),
        "blas": f"{blas.get('name')} {blas.get('version')}",
        **{name: version for name, version in environment.versions().items() if name in _SOFTWARE},
    }
    return {name: value for name, value in facts.items() if value not in (None, "", [], {})}


def siblings(core: int) -> str | None:
    """Return the logical cores that share the physical one of *core*, e.g. "0-1"; None if unknown."""
    return _text(_CPU / f"cpu{core}/topology/thread_siblings_list") or None


def _caches() -> list[str]:
    """Return the caches of the first core, e.g. "L2 1024K"."""
    caches = sorted((_CPU / "cpu0/cache").glob("index[0-9]*"))
    kinds = {"Data": "d", "Instruction": "i"}
    return [f"L{_text(p / 'level')}{kinds.get(_text(p / 'type'), '')} {_text(p / 'size')}" for p in caches]


def _limit(paths: tuple[str, ...]) -> str | None:
    """Return the limit in the first of *paths* that can be read; None if there is no limit."""
    limit = next((text for path in paths if (text := _text(Path(path)))), "")
    unlimited = limit.startswith(("max", "-1")) or (limit.isdigit() and int(limit) > _UNLIMITED)
    return None if unlimited or not limit else limit


def _gpus() -> list[str]:
    """Return the name, memory, highest clock and power limit of each NVIDIA card, and the driver."""
    if smi := shutil.which("nvidia-smi"):
        command = [smi, "--query-gpu=name,memory.total,clocks.max.sm,power.limit,driver_version", "--format=csv,noheader"]
        with suppress(OSError, subprocess.SubprocessError):
            found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_PATIENCE).stdout
            return [line.strip() for line in found.splitlines()]
    cards = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    lines = (line for card in cards for line in _text(card).splitlines())
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("Model")]
    driver = _text(Path("/proc/driver/nvidia/version")).partition("\n")[0]
    return [*models, driver] if models else []


# ---- memory ----------------------------------------------------------------------------------------------------------------


# A mapping in /proc/PID/smaps, see proc(5): permissions, inode, file, and the KiB of Pss (a page that n processes share counts
# 1/n) and Anonymous (pages that belong to no file). Anonymous memory has the inode 0.
_MAPPING = re.compile(
    r"^[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ (\d+) *(.*)\n(?:\w+: .*\n)*?Pss: +(\d+) kB\n(?:\w+: .*\n)*?Anonymous: +(\d+) kB$",
    re.MULTILINE,
)


def memory(folder: Path = _SELF) -> dict[str, int]:
    """Return the bytes of this process by kind: pss_anonymous, and pss_file for the files that it maps, e.g. an index.

    Libraries do not count, because how much of their code is in memory does not depend on the measured system. {} if the
    kernel does not report it.
    """
    mappings = _MAPPING.findall(_text(folder / "smaps"))
    if not mappings:
        return {}
    libraries = {file for permissions, _, file, _, _ in mappings if "x" in permissions}
    indexes = [(pss, own) for _, inode, file, pss, own in mappings if inode != "0" and file not in libraries]
    files = sum(int(pss) - int(own) for pss, own in indexes)
    return {"pss_anonymous": sum(int(own) for *_, own in mappings) * _KIB, "pss_file": max(0, files) * _KIB}


def peak_memory() -> int:
    """Return the most bytes that this process has had since `reset_peak_memory`; 0 if the kernel does not tell."""
    lines = _text(_SELF / "status").splitlines()
    return next((int(line.split()[1]) * _KIB for line in lines if line.startswith("VmHWM:")), 0)


def reset_peak_memory() -> None:
    """Let `peak_memory` count from now on, if the kernel can."""
    with suppress(OSError):
        (_SELF / "clear_refs").write_text(_RESET_PEAK)


def model_bytes() -> int:
    """Return the bytes of the parameters of all torch models in this process, shared ones once."""
    if "torch" not in sys.modules:
        return 0
    from torch import nn

    sizes: dict[int, int] = {}
    for module in gc.get_objects():
        if isinstance(module, nn.Module):
            sizes |= {tensor.data_ptr(): tensor.numel() * tensor.element_size() for tensor in module.parameters(recurse=False)}
    return sum(sizes.values())


# ---- noise -----------------------------------------------------------------------------------------------------------------


class Counters(NamedTuple):
    """The machine's counters at one moment; counters that the kernel does not have are 0."""

    load: float  # processes that run or want to, over the last minute
    stolen: int  # ticks of all cores that another guest of the host had
    ticks: int  # all ticks
    throttled: int  # how often the control group was held back
    hot: int  # how often a core was slowed down because of its heat


def read_counters() -> Counters:
    """Read the machine's counters."""
    ticks = [int(number) for number in _text(_STAT).partition("\n")[0].split()[1:]]
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    hot = [_text(_CPU / f"cpu{core}/thermal_throttle/core_throttle_count") for core in cores()]
    stolen = ticks[_STEAL] if len(ticks) > _STEAL else 0
    group = next(filter(None, map(_text, _THROTTLES)), "").splitlines()
    throttled = next((int(line.split()[1]) for line in group if line.startswith("nr_throttled ")), 0)
    return Counters(load, stolen, sum(ticks[: _STEAL + 1]), throttled, sum(int(text) for text in hot if text.isdigit()))


def disturbances(before: Counters, after: Counters, available: int) -> Iterator[str]:
    """Yield a line for each thing that disturbed the machine, with *available* cores, between two readings."""
    if before.load > available:
        yield f"the load was {before.load:.1f} on {available} cores before it"
    stolen = (after.stolen - before.stolen) / max(after.ticks - before.ticks, 1)
    if stolen > _MOST_STOLEN:
        yield f"other machines on the same host took {stolen:.0%} of the time"
    if after.throttled > before.throttled:
        yield f"the control group was held back {after.throttled - before.throttled} times"
    if after.hot > before.hot:
        yield f"a core was slowed down because of its heat {after.hot - before.hot} times"


def crowded(cpu_per_wall: float) -> str | None:
    """Return a line if one thread, pinned to a core, did not have that core to itself."""
    if cpu_per_wall >= _LEAST_CPU:
        return None
    return f"it had its core for {cpu_per_wall:.0%} of the time, or waited for the disk"
