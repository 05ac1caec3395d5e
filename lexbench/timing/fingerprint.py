"""What kind of machine this is, in the facts that decide speed, and their digest: speeds compare only where it is the same."""

import os
import platform
from functools import cache
from pathlib import Path
from typing import Any

from lexbench.storage import environment
from lexbench.storage.manifest import digest
from lexbench.timing.protocol import cores

_CPU = Path("/sys/devices/system/cpu")
_VECTORS = ("avx", "avx2", "avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16", "asimd", "sve", "sve2", "amx_tile")
_SOFTWARE = ("numpy", "scipy", "numba", "torch", "transformers", "pyserini")
_LIMITS = {  # of the control group, of either version
    "cpu": ("/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us"),
    "memory": ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
}
_UNLIMITED = 1 << 60


def fingerprint() -> str:
    """Return the digest of `performance()`."""
    return digest(performance())


@cache
def performance() -> dict[str, Any]:
    """Return the facts that decide how fast things are; what the system does not tell is left out."""
    cpu = _cpuinfo()
    flags = cpu.get("flags", cpu.get("Features", "")).split()
    facts: dict[str, Any] = {
        "processor": environment.facts()["processor"],
        "stepping": cpu.get("stepping"),
        "microcode": cpu.get("microcode"),
        "logical_cores": os.cpu_count(),
        "physical_cores": _physical(),
        "usable_cores": len(cores()),
        "smt": _read(_CPU / "smt/active"),
        "governor": _read(_CPU / "cpu0/cpufreq/scaling_governor"),
        "boost": _read(_CPU / "cpufreq/boost"),
        "no_turbo": _read(_CPU / "intel_pstate/no_turbo"),
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
        "blas": _blas(),
        **{name: version for name, version in environment.versions().items() if name in _SOFTWARE},
    }
    return {name: value for name, value in facts.items() if value not in (None, "", [], {})}


def _cpuinfo() -> dict[str, str]:
    """Return the facts of the first processor in /proc/cpuinfo."""
    text = (_read(Path("/proc/cpuinfo")) or "").partition("\n\n")[0]
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return None


def _physical() -> int | None:
    """Return the number of cores, siblings counted once."""
    return len({_read(path) for path in _CPU.glob("cpu[0-9]*/topology/thread_siblings_list")}) or None


def siblings(core: int) -> str | None:
    """Return the logical cores that share the physical one of *core*."""
    return _read(_CPU / f"cpu{core}/topology/thread_siblings_list")


def _caches() -> list[str]:
    """Return the first core's caches, as "L2 1024K"."""
    caches = sorted((_CPU / "cpu0/cache").glob("index[0-9]*"))
    kinds = {"Data": "d", "Instruction": "i"}
    return [f"L{_read(p / 'level')}{kinds.get(_read(p / 'type') or '', '')} {_read(p / 'size')}" for p in caches]


def _limit(paths: tuple[str, ...]) -> str | None:
    limit = next((text for path in paths if (text := _read(Path(path)))), None)
    unlimited = limit is None or limit.startswith(("max", "-1")) or (limit.isdigit() and int(limit) > _UNLIMITED)
    return None if unlimited else limit


def _gpus() -> list[str]:
    """Return the model of each NVIDIA card, and the driver."""
    cards = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    lines = (line for card in cards for line in (_read(card) or "").splitlines())
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("Model")]
    driver = (_read(Path("/proc/driver/nvidia/version")) or "").partition("\n")[0]
    return [*models, driver] if models else []


def _blas() -> str:
    import numpy as np

    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{blas.get('name')} {blas.get('version')}"
