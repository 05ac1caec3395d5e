"""The machine and the installed packages, as results record them; and the entry points of installed packages."""

import os
import platform
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

_by_module = cache(metadata.packages_distributions)  # it reads every distribution
_ALWAYS = ("lexbench", "numpy", "scipy", "numba", "ir-measures", "ir-datasets", "pyserini", "torch", "transformers")


def cores() -> list[int]:
    """Return the cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


@cache
def facts() -> dict[str, str]:
    """Return the processor, the number of cores that this process may use, the memory, and the system."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0
    return {
        "processor": _processor(),
        "cores": str(len(cores())),
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


def versions(packages: Iterable[str] = ()) -> dict[str, str]:
    """Return versions by distribution: of packages that always matter for scores or speed, and of *packages*.

    *packages* are what plug-ins need: modules (`faiss`) or distributions (`faiss-cpu`). Missing ones are left out.
    """
    needed = (found for package in packages for name in _distributions(package) if (found := _distribution(name)))
    return {name: found[1] for name in _ALWAYS if (found := _distribution(name))} | dict(needed)


def _distributions(package: str) -> list[str]:
    """Return the distributions of a package: the one of its name, or else those with a module of its name."""
    return [package] if _distribution(package) else _by_module().get(package, [])


def packages_of(plugin: Any) -> tuple[str, ...]:
    """Return the modules that a plug-in and its members need: those that they require, and the packages they come from."""
    if isinstance(plugin, tuple | list):
        return tuple(dict.fromkeys(package for item in plugin for package in packages_of(item)))
    members = [getattr(plugin, item.name) for item in fields(plugin)] if is_dataclass(plugin) else []
    packages = (
        (type(plugin).__module__ or "builtins").partition(".")[0],
        *getattr(plugin, "requires", ()),
        *packages_of(members),
    )
    return tuple(dict.fromkeys(package for package in packages if package not in ("builtins", "lexbench")))


def entries(group: str) -> metadata.EntryPoints:
    """Return the entry points of *group* of all installed packages."""
    return _selector(tuple(sys.path))(group=group)


@cache  # every installed package has a file of entry points; they are read again if the path has changed
def _selector(_path: tuple[str, ...]) -> Callable[..., metadata.EntryPoints]:
    return metadata.entry_points().select


@cache  # reads and parses a file
def _distribution(name: str) -> tuple[str, str] | None:
    """Return the name of a distribution in its own spelling, and its version; None if it is not installed."""
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return None
    return found.name, found.version
