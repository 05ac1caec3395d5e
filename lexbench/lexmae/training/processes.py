"""The processes of one training: one, or several started by torchrun. The first one writes, and the others wait for it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Literal

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed

from lexbench.devices import torch_threads
from lexbench.errors import CannotStart, CommandError
from lexbench.lexmae.recipe.settings import Fitting, Hardware, Recipe
from lexbench.models.dtype_speed import fastest, slow_note
from lexbench.storage.environment import cores

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}  # torch's names
_WORKERS = 4  # at most, per GPU: one masks a text in the time that an A100 takes for it
_PATIENCE = timedelta(days=30)  # the first process mines negatives, or tokenises a collection, while the others wait


def world_size() -> int:
    """Return the number of processes that train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_first() -> bool:
    """Return whether this is the process that writes."""
    return os.environ.get("RANK", "0") == "0"


def device(hardware: Hardware) -> Literal["cpu", "cuda", "mps"]:
    """Return the kind of device to train on: the processor if *hardware* says so, or if there is nothing else."""
    if hardware.device == "auto" and torch.cuda.is_available():
        return "cuda"
    return "mps" if hardware.device == "auto" and torch.backends.mps.is_available() else "cpu"


def resolved(recipe: Recipe) -> Recipe:
    """Return *recipe* with the precision that "auto" stands for: a half-precision type where it is faster on every process.

    The processes must be connected.
    """
    if recipe.hardware.precision != "auto":
        return recipe
    kind, dtype = device(recipe.hardware), "fp32"
    if kind == "cuda":
        dtype = "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    elif kind == "cpu" and not added_up(np.array([float(fastest() != "bfloat16")], np.float32))[0]:
        dtype = "bf16"
    hardware = msgspec.structs.replace(recipe.hardware, precision=dtype)
    return msgspec.structs.replace(recipe, hardware=hardware)


def autocast(precision: str, device: torch.device) -> torch.autocast:
    """Return the context in which a model computes in *precision*, fp32, bf16 or fp16."""
    dtype = getattr(torch, DTYPES[precision])
    return torch.autocast(device.type, dtype, enabled=dtype != torch.float32)


def check(fitting: Fitting, hardware: Hardware) -> None:
    """Raise CommandError if the device does not have the precision, or if the batch cannot be divided evenly."""
    if hardware.precision == "fp16" and device(hardware) == "cpu":
        raise CommandError("precision fp16 is for GPUs; on the processor type --set hardware.precision=bf16, or fp32")
    examples_per_device(fitting)


def precision_note(hardware: Hardware) -> str:
    """Return a note if the precision is slow on this machine, else ""."""
    dtype = DTYPES[hardware.precision]
    return slow_note(dtype, torch.device(device(hardware)), "type --set hardware.precision=fp32")


def examples_per_device(fitting: Fitting) -> int:
    """Return the number of examples of a batch for each device. Raises CommandError if they cannot be divided evenly."""
    devices = world_size()
    size, left = divmod(fitting.batch_size, devices)
    if left:
        batch = f"batch_size={fitting.batch_size}"
        raise CommandError(f"{batch} cannot be divided evenly by {devices} devices; give a multiple of {devices}")
    return size


@contextmanager
def joined(hardware: Hardware) -> Iterator[None]:
    """Take the threads of *hardware*, and connect to the other processes, if there are any, for the block.

    Raises CannotStart if another one has ended meanwhile.
    """
    if world_size() == 1:
        with torch_threads(hardware.threads):
            yield
        return
    if not distributed.is_initialized():
        on_gpu = device(hardware) == "cuda"
        if on_gpu:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        # Waiting uses gloo, on the processor: NCCL would keep the GPU busy and time out sooner.
        distributed.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=_PATIENCE)
    try:
        with torch_threads(hardware.threads):
            yield
    except RuntimeError as error:
        if isinstance(error, distributed.DistError) or "gloo" in str(error):  # gloo has no error type of its own
            raise CannotStart(
                "another process of this training has ended; its message says why, or torchrun's report if it was killed"
            ) from None
        raise


def wait() -> None:
    """Wait until every process has reached this point."""
    if distributed.is_initialized():
        distributed.all_reduce(torch.zeros(1))


def share(items: int) -> range:
    """Return the numbers of those of *items* that this process does, if every process does some."""
    return range(int(os.environ.get("RANK", "0")), items, world_size())


def added_up(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the sum of the *values* (n,) of all processes."""
    if not distributed.is_initialized():
        return values
    total = torch.from_numpy(values)
    distributed.all_reduce(total)
    return total.numpy()


def loading_workers(hardware: Hardware) -> int:
    """Return how many processes prepare the batches of this one, 0: itself."""
    if hardware.workers is not None:
        return hardware.workers
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return min(_WORKERS, len(cores()) // local - 1) if device(hardware) == "cuda" else 0


@contextmanager
def first_goes_first() -> Iterator[None]:
    """Let the first process run the block while the others wait; when they run it, the work is done already."""
    if not is_first():
        wait()
    yield
    if is_first():
        wait()
