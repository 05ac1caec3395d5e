"""How fast this machine multiplies matrices, and how much memory it has."""

import time

import torch

from lexbench.lexmae.estimate import Machine
from lexbench.lexmae.processes import world
from lexbench.lexmae.recipe import Hardware
from lexbench.storage import environment

_SIDE = {"cpu": 1024, "cuda": 8192, "mps": 2048}  # of a matrix: large enough for the device's best
_SECONDS = 1.0
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def measured(hardware: Hardware) -> Machine:
    """Return what one second of multiplying square matrices, in the recipe's precision and on its device, shows."""
    device = _device(hardware)
    side = _SIDE[device.type]
    matrix = torch.ones(side, side, dtype=_DTYPES[hardware.precision], device=device)
    threads = torch.get_num_threads()
    try:
        if hardware.threads:
            torch.set_num_threads(hardware.threads)
        rate = 2 * side**3 / _seconds(matrix)
    finally:
        torch.set_num_threads(threads)
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        return Machine(properties.name, hardware.precision, rate, properties.total_memory, world())
    facts = environment.facts()
    return Machine(facts["processor"], hardware.precision, rate, int(facts["memory_gib"]) * 2**30, world())


def _device(hardware: Hardware) -> torch.device:
    if hardware.device == "cpu":
        return torch.device("cpu")
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def _seconds(matrix: torch.Tensor) -> float:
    """Return the time of one product of *matrix* with itself, a mean over about a second."""
    torch.sum(matrix @ matrix).item()  # the first one compiles and allocates
    begun, count = time.perf_counter(), 0
    while time.perf_counter() - begun < _SECONDS:
        (matrix @ matrix)[0, 0].item()  # which waits for a GPU
        count += 1
    return (time.perf_counter() - begun) / count
