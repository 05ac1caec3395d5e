"""Which types a processor computes slowly: one without products of bfloat16 or float16 emulates them, up to 150 times slower.

It is measured, as what a processor says of itself does not decide it: with AVX512-BF16 and without AMX, large products took 1.6
times as long in bfloat16 as in float32 on one Intel processor, and half as long on an AMD.
"""

import time
from functools import cache

import torch
from torch import Tensor, nn

from lexbench.neural.transformer_model import PackedLinear, packing_works

_TOKENS, _WIDTH = 128, 256  # of the product that is timed: emulated ones take a millisecond, others a tenth of one
_ROUNDS = 5
_NOTABLE = 1.2  # less is noise


def slow_note(dtype: str, device: torch.device, instead: str) -> str:
    """Return one line if *device* computes in *dtype* ("bfloat16") more slowly than in float32, else "".

    *instead* is what the user can type for float32. Of other devices than processors nothing is said.
    """
    if device.type != "cpu" or dtype == "float32":
        return ""
    times = times_slower(getattr(torch, dtype))
    return f"products in {dtype} take {times:.1f} times as long as in float32 on this processor; {instead}" if times > 1 else ""


@cache
def times_slower(dtype: torch.dtype) -> float:
    """Return how many times as long as in float32 products of *dtype* take on this processor; 1 where they take no longer."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # other work on the machine would make threads wait for each other
    try:
        with torch.inference_mode():
            seconds = {kind: _seconds(kind) for kind in (torch.float32, dtype)}
    finally:
        torch.set_num_threads(threads)
    ratio = seconds[dtype] / seconds[torch.float32]
    return ratio if ratio > _NOTABLE else 1.0


def _seconds(dtype: torch.dtype) -> float:
    """Return the processor's time for a linear layer of *dtype*, packed where models would have it so: the least of some."""
    linear = nn.Linear(_WIDTH, _WIDTH).to(dtype)
    layer = PackedLinear(linear.weight, linear.bias) if packing_works("cpu", dtype) else linear
    states = torch.ones(_TOKENS, _WIDTH, dtype=dtype)
    layer(states)  # the first call makes the code
    return min(_timed(layer, states) for _ in range(_ROUNDS))


def _timed(layer: nn.Module, states: Tensor) -> float:
    start = time.thread_time()
    layer(states)
    return time.thread_time() - start
