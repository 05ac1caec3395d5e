"""The processes of one training: one, or those that torchrun starts. The first one writes, and the others wait for it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Literal

import torch
from torch import distributed

from lexbench.errors import CommandError
from lexbench.lexmae.recipe import Fitting, Hardware
from lexbench.models.dtype_speed import slow_note

_PATIENCE = timedelta(days=30)  # the first process mines negatives, or tokenises a collection, while the others wait


def world() -> int:
    """Return how many processes train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def first() -> bool:
    """Return whether this process is the one that writes."""
    return os.environ.get("RANK", "0") == "0"


def device(hardware: Hardware) -> Literal["cpu", "cuda", "mps"]:
    """Return the kind of device that training runs on: the processor where *hardware* asks for it, or there is nothing else."""
    if hardware.device == "auto" and torch.cuda.is_available():
        return "cuda"
    return "mps" if hardware.device == "auto" and torch.backends.mps.is_available() else "cpu"


def check(fitting: Fitting, hardware: Hardware) -> None:
    """Raise CommandError for a precision that the device lacks, or a batch size that cannot be shared."""
    if hardware.precision == "fp16" and device(hardware) == "cpu":
        raise CommandError("precision fp16 is for GPUs; on the processor type --precision bf16, or fp32")
    piece(fitting, hardware)


def remark(hardware: Hardware) -> str:
    """Return what is to be said of the precision on this machine, "" for nothing."""
    dtype = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}[hardware.precision]
    return slow_note(dtype, torch.device(device(hardware)), "type --precision fp32")


def piece(fitting: Fitting, hardware: Hardware) -> int:
    """Return how many of a step's examples a device computes at a time; CommandError where they cannot be shared evenly."""
    shares = world() * hardware.accumulate
    size, left = divmod(fitting.batch_size, shares)
    if left:
        raise CommandError(
            f"batch_size={fitting.batch_size} cannot be shared evenly by {world()} devices that accumulate "
            f"{hardware.accumulate} times; give a multiple of {shares}"
        )
    return size


def join(hardware: Hardware) -> None:
    """Connect to the other processes, if there are any and it is not done yet."""
    if world() == 1 or distributed.is_initialized():
        return
    on_gpu = device(hardware) == "cuda"
    if on_gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # gloo, on the processor, is what waits: NCCL would keep the GPU busy, and gives up sooner
    distributed.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=_PATIENCE)


def wait() -> None:
    """Wait until every process has got here."""
    if distributed.is_initialized():
        distributed.all_reduce(torch.zeros(1))


@contextmanager
def first_goes_first() -> Iterator[None]:
    """Let the first process do what follows while the others wait; they then find it done."""
    if not first():
        wait()
    yield
    if first():
        wait()
