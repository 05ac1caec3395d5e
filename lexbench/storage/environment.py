"""What a result says of the machine and the software it was made with."""

import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("lexbench", "numpy", "scipy", "numba", "ir-measures", "ir-datasets", "pyserini", "torch", "transformers")


@cache
def facts() -> dict[str, str]:
    """Return the processor, the cores this process may use, the memory, and the system."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    return {
        "processor": _processor(),
        "cores": str(cores),
        "memory_gib": f"{memory / 2**30:.0f}",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or "unknown")


@cache
def versions() -> dict[str, str]:
    """Return the versions of the packages that scores or speed depend on; what is not installed is left out."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
