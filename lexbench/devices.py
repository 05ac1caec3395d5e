"""The devices that torch computes on: their names as users type them, which of them are here, and their memory.

Encoders, rerankers and dense engines name devices alike. Timing asks which GPUs have worked, and waits for them. torch is
imported only for a device that was asked for by name, if the driver of a GPU is installed, or to change its threads.
"""

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from lexbench.errors import CannotStart, CommandError, require

if TYPE_CHECKING:
    import torch

_CUDA = re.compile(r"cuda(:\d+)?")
_DRIVERS = {"win32": "nvcuda.dll"}  # the library of NVIDIA's driver, by platform
_UNKNOWN = 1 << 30  # bytes of memory taken to be free on a system that tells nothing
_AMD = Path("/dev/kfd")  # the driver of AMD's GPUs, which torch calls cuda as well


def check_names(plugin: str, device: str, *, several: bool, also: tuple[str, ...] = ("mps",)) -> None:
    """Raise CommandError, naming the *plugin*, unless *device* is auto, cpu, cuda, cuda:0 or so, or one of *also*.

    With *several* it may be a list, e.g. "cuda:0,cuda:1".
    """
    names = device.split(",") if several else [device]
    known = ("auto", "cpu", *also)
    if not all(name in known or _CUDA.fullmatch(name) for name in names) or "auto" in names[1:]:
        exist = ", ".join(("auto", "cpu", "cuda", "cuda:0", *also))
        raise CommandError(f"{plugin}(device={device!r}): there is {exist}{'; several as cpu,cpu' if several else ''}")


@cache
def has_gpu() -> bool:
    """Return whether torch finds a GPU that "auto" takes. torch is imported only if the driver of one is installed."""
    if find_spec("torch") is None or not _has_driver():
        return False
    import torch

    return torch.cuda.device_count() > 0


def _has_driver() -> bool:
    try:
        ctypes.CDLL(_DRIVERS.get(sys.platform, "libcuda.so.1"))
    except OSError:
        return _AMD.exists()
    return True


def torch_device(name: str) -> "torch.device":
    """Return the device of that *name*; "auto" is the first GPU, or else the processor.

    Raises CannotStart if this machine does not have it, and MissingExtra without torch.
    """
    require(f"device={name}", ("torch",), "neural")
    import torch

    devices = torch.cuda.device_count()
    if name == "auto":
        return torch.device("cuda" if devices else "cpu")
    if name == "mps" and not torch.backends.mps.is_available():
        raise CannotStart("device=mps: torch finds no Apple GPU here; type device=cpu")
    if name.startswith("cuda") and int(name.partition(":")[2] or 0) >= devices:
        raise CannotStart(f"device={name}: torch {torch.__version__} finds {devices} CUDA devices here; type device=auto")
    return torch.device(name)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch use *count* threads of the processor in the block, and as many as before behind it; 0 changes nothing."""
    if not count:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ---- memory, and waiting ---------------------------------------------------------------------------------------------------


def free_memory(device: "torch.device") -> int:
    """Return the bytes of memory of *device* that nobody uses; for a processor that does not tell, a quarter of its memory."""
    import torch

    if device.type == "cuda":
        torch.cuda.empty_cache()  # what torch keeps of freed tensors is free for others too
        return int(torch.cuda.mem_get_info(device)[0])
    names = getattr(os, "sysconf_names", {})
    if "SC_AVPHYS_PAGES" in names:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4 if "SC_PHYS_PAGES" in names else _UNKNOWN


def used_gpus() -> list[int]:
    """Return the numbers of the GPUs on which this process has had tensors. Imports nothing."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return []
    return [number for number in range(torch.cuda.device_count()) if torch.cuda.max_memory_reserved(number)]


def used_gpu_names() -> list[str]:
    """Return the names of the GPUs on which this process has had tensors."""
    return [str(sys.modules["torch"].cuda.get_device_name(number)) for number in used_gpus()]


def wait_for_gpus() -> None:
    """Wait until the GPUs have finished what this process gave them: calls return earlier."""
    for number in used_gpus():
        sys.modules["torch"].cuda.synchronize(number)


def peak_gpu_memory() -> int:
    """Return the most bytes of tensors on all GPUs since `reset_peak_gpu_memory`; 0 without a GPU."""
    return sum(sys.modules["torch"].cuda.max_memory_allocated(number) for number in used_gpus())


def reset_peak_gpu_memory() -> None:
    """Let `peak_gpu_memory` count from now on."""
    for number in used_gpus():
        sys.modules["torch"].cuda.reset_peak_memory_stats(number)
