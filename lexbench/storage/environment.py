"""What a result says of the machine and the software it was made with."""

import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.metadata import (
    Distribution,
    EntryPoints,
    PackageNotFoundError,
    distribution,
    entry_points,
    packages_distributions,
)
from pathlib import Path
from typing import Any

_ALWAYS = ("lexbench", "numpy", "scipy", "numba", "ir-measures", "ir-datasets", "pyserini", "torch", "transformers")


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


def versions(packages: Iterable[str] = ()) -> dict[str, str]:
    """Return versions by distribution: of those that scores or speed depend on, and of those that *packages* belong to.

    *packages* are what plug-ins in use need: modules as they are imported (`faiss`), or distributions (`faiss-cpu`). What is
    not installed is left out.
    """
    return dict(_versions(tuple(packages)))


@cache
def _versions(packages: tuple[str, ...]) -> Mapping[str, str]:
    """Return the same, once a process: each version is in a file that is read and parsed."""
    needed = [item for package in packages for item in _distributions(package)]
    always = ((name, item) for name in _ALWAYS if (item := _distribution(name)))
    return {name: item.version for name, item in always} | {item.name: item.version for item in needed}


def packages_of(plugin: Any) -> tuple[str, ...]:
    """Return the modules that a plug-in and its parts need: those they require, and the packages that they are from."""
    if isinstance(plugin, tuple | list):
        return tuple(dict.fromkeys(package for item in plugin for package in packages_of(item)))
    parts = [getattr(plugin, item.name) for item in fields(plugin)] if is_dataclass(plugin) else []
    packages = (type(plugin).__module__.partition(".")[0], *getattr(plugin, "requires", ()), *packages_of(parts))
    return tuple(dict.fromkeys(package for package in packages if package not in ("builtins", "lexbench")))


def entries(group: str) -> EntryPoints:
    """Return the entry points of *group* of all installed packages."""
    return _selection(tuple(sys.path))(group=group)


@cache
def _selection(_places: tuple[str, ...]) -> Callable[..., EntryPoints]:
    """Return what selects among all entry points, read once for the places that packages are in: each has a file."""
    return entry_points().select


@cache
def _distributions(package: str) -> tuple[Distribution, ...]:
    """Return the distributions that a module is from, or the one of that name."""
    names = _by_module().get(package, [package])
    return tuple(item for name in dict.fromkeys(names) if (item := _distribution(name)))


@cache
def _distribution(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


@cache
def _by_module() -> dict[str, list[str]]:
    """Return the names of distributions by the modules that they install; it reads every distribution once."""
    return {module: list(names) for module, names in packages_distributions().items()}
