"""Notes on how fast a processor computes in a dtype: one without products of bfloat16 emulates them, up to 150 times slower.

Encoders, rerankers and training show these notes before their work. The time is measured, because the flags of a processor do
not decide it: with AVX512-BF16 and without AMX, large products took 1.6 times as long in bfloat16 as in float32 on one Intel
processor, and half as long on an AMD.
"""

from functools import cache
from time import thread_time
from timeit import repeat

import torch
from torch import nn

from lexbench.devices import torch_threads
from lexbench.models.transformer_model import PackedLinear, packing_works

_TOKENS, _WIDTH = 128, 512  # of the timed product: an emulated one takes milliseconds, others less than one
_ROUNDS = 5
_NOTABLE = 1.2  # times as long as float32; less is noise
_HAS = 0.75  # of float32's time: a processor that has products of bfloat16 stays below this


def slow_note(dtype: str, device: torch.device, instead: str) -> str:
    """Return a note if the processor computes more slowly in *dtype* (e.g. "bfloat16") than in float32, else "".

    *instead* is the hint what to type for float32. There are no notes about other devices.
    """
    if device.type != "cpu" or dtype == "float32":
        return ""
    if dtype == "int8":
        from lexbench.models.int8 import int8_works

        if not int8_works():  # it is refused later, with another message
            return ""
    if (times := times_as_long(dtype)) <= _NOTABLE:
        return ""
    return f"products in {dtype} take {times:.1f} times as long as in float32 on this processor; {instead}"


def faster() -> list[str]:
    """Return the dtypes whose products take less time than float32's on this processor."""
    from lexbench.models.int8 import int8_works

    return [dtype for dtype in ("bfloat16", "int8") if (dtype != "int8" or int8_works()) and times_as_long(dtype) < 1]


def fastest() -> str:
    """Return the dtype to choose for speed: bfloat16 where the processor has it, else int8 where that is faster, else float32.

    bfloat16 goes before int8 because its vectors are nearer to float32's. `make demo` uses this; `lexbench run` never does, so
    that stores are the same on every machine.
    """
    if times_as_long("bfloat16") <= _HAS:
        return "bfloat16"
    return "int8" if "int8" in faster() else "float32"


@cache
def times_as_long(dtype: str) -> float:
    """Return the time that products in *dtype* take on this processor, relative to float32."""
    with torch_threads(1), torch.inference_mode():  # with other work on the machine, threads would wait for each other
        return _seconds(dtype) / _seconds("float32")


def _seconds(dtype: str) -> float:
    """Return the shortest of some times of a linear layer in *dtype*, in seconds; it is packed where models pack theirs."""
    kind = torch.float32 if dtype == "int8" else getattr(torch, dtype)
    linear = nn.Linear(_WIDTH, _WIDTH).to(kind)
    layer: nn.Module = linear
    states = torch.ones(_TOKENS, _WIDTH, dtype=kind)
    if dtype == "int8":
        from lexbench.models.int8 import Int8Linear

        layer = Int8Linear(linear.weight, linear.bias)
    elif packing_works("cpu", kind):
        layer = PackedLinear(linear.weight, linear.bias)
    layer(states)  # the first call compiles
    return min(repeat(lambda: layer(states), timer=thread_time, number=1, repeat=_ROUNDS))
