"""What memory a process has, from the kernel's own books (Linux); nothing where there are none."""

import gc
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

_KIB = 1024
_SELF = Path("/proc/self")
_RESET_PEAK = "5"  # see proc(5), clear_refs


def proportional(rollup: Path = _SELF / "smaps_rollup") -> dict[str, int]:
    """Return the bytes of this process, of shared pages its part (PSS): its own, and those of mapped files."""
    found = _fields(rollup)
    if "Pss_Anon" not in found:
        return {}
    return {"pss_anonymous": found["Pss_Anon"] + found.get("Pss_Shmem", 0), "pss_file": found["Pss_File"]}


def peak() -> int:
    """Return the most bytes that this process has had since *reset_peak*; 0 where the kernel does not say."""
    return _fields(_SELF / "status").get("VmHWM", 0)


def reset_peak() -> None:
    """Let `peak` begin anew, where the kernel can."""
    with suppress(OSError):
        (_SELF / "clear_refs").write_text(_RESET_PEAK)


def _fields(path: Path) -> dict[str, int]:
    """Return the bytes that a file of /proc tells, by name."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    rows = (line.replace(":", " ").split() for line in lines)
    return {row[0]: int(row[1]) * _KIB for row in rows if row[-1:] == ["kB"]}


def model_bytes() -> int:
    """Return the bytes of the parameters of all models of torch in this process, each once, as they are held in memory."""
    if "torch" not in sys.modules:
        return 0
    from torch import nn

    sizes: dict[int, int] = {}
    for module in gc.get_objects():
        if isinstance(module, nn.Module):
            sizes |= {one.data_ptr(): one.numel() * one.element_size() for one in module.parameters(recurse=False)}
    return sum(sizes.values())


def modules() -> list[str]:
    """Return the names of all modules that this process has imported, in order; not of one whose import starts Java."""
    return [name for name in sys.modules if not name.startswith(("__", "jnius"))]


def import_all(names: list[str]) -> None:
    """Import modules, and do nothing with them: one that does not import alone is left out."""
    for name in names:
        with suppress(Exception):
            import_module(name)
