"""Which types a processor computes slowly or fast: one without products of bfloat16 emulates them, up to 150 times slower.

It is measured, as what a processor says of itself does not decide it: with AVX512-BF16 and without AMX, large products took 1.6
times as long in bfloat16 as in float32 on one Intel processor, and half as long on an AMD.
"""

import time
from functools import cache

import torch
from torch import Tensor, nn

from lexbench.neural.int8 import Int8Linear, int8_works
from lexbench.neural.transformer_model import PackedLinear, packing_works

_TOKENS, _WIDTH = 128, 512  # of the product that is timed: emulated ones take milliseconds, others less than one
_ROUNDS = 5
_NOTABLE = 1.2  # times as long: less is noise
_WORTH = 0.5  # of float32's time: what bfloat16 has to be below to be told of


def slow_note(dtype: str, device: torch.device, instead: str) -> str:
    """Return one line if *device* computes in *dtype* ("bfloat16") more slowly than in float32, else "".

    *instead* is what the user can type for float32. Of other devices than processors nothing is said.
    """
    if device.type != "cpu" or dtype == "float32" or (dtype == "int8" and not int8_works()):  # which is refused later
        return ""
    times = times_as_long(dtype)
    return (
        f"products in {dtype} take {times:.1f} times as long as in float32 on this processor; {instead}"
        if times > _NOTABLE
        else ""
    )


def fast_note(dtype: str, device: torch.device) -> str:
    """Return one line if *dtype* is float32 and *device* a processor that computes in bfloat16 much faster, else ""."""
    if device.type != "cpu" or dtype != "float32" or (share := times_as_long("bfloat16")) > _WORTH:
        return ""
    return (
        f"products in bfloat16 take {share:.2f} of float32's time on this processor; "
        'type dtype="bfloat16" if vectors of two to three digits will do'
    )


@cache
def times_as_long(dtype: str) -> float:
    """Return how many times as long as in float32 products of *dtype* take on this processor."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # other work on the machine would make threads wait for each other
    try:
        with torch.inference_mode():
            seconds = {kind: _seconds(kind) for kind in ("float32", dtype)}
    finally:
        torch.set_num_threads(threads)
    return seconds[dtype] / seconds["float32"]


def _seconds(dtype: str) -> float:
    """Return the processor's time for a linear layer of *dtype*, packed where models would have it so: the least of some."""
    kind = torch.float32 if dtype == "int8" else getattr(torch, dtype)
    linear = nn.Linear(_WIDTH, _WIDTH).to(kind)
    states = torch.ones(_TOKENS, _WIDTH, dtype=kind)
    packed = Int8Linear if dtype == "int8" else PackedLinear if packing_works("cpu", kind) else None
    layer = packed(linear.weight, linear.bias) if packed else linear
    layer(states)  # the first call makes the code
    return min(_timed(layer, states) for _ in range(_ROUNDS))


def _timed(layer: nn.Module, states: Tensor) -> float:
    start = time.thread_time()
    layer(states)
    return time.thread_time() - start
