"""Linear layers in int8 on a processor: weights and states are whole numbers, their products exact, the rest float32.

Each output's weights have one scale and 7 bits, each token's state one scale and 8 bits, taken from that state alone: no text's
vector depends on what is in its batch. 7 bits, as AVX2 and AVX-512 without VNNI add pairs of products in 16 bits and cut what
does not fit: 2 x 255 x 63 does. The operation is what `torch.compile` puts into its programs and none of torch's public ones,
so it is tried before use. It is given states from 1 to 255, as without AMX it falls back on plain loops for signed ones.
"""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lexbench.errors import CannotStart

_WEIGHT_MOST, _STATE_MOST = 63, 127
_ZERO = 128  # what 0 is in a state
_SMALLEST = torch.finfo(torch.float32).tiny  # a state of zeros is not divided by 0
_ROWS = 768  # tokens that the layout of weights is chosen for


class QuantisedStates(NamedTuple):
    """Rows of (values - 128) * scales."""

    values: Tensor  # uint8 (tokens, inputs), 1 to 255
    scales: Tensor  # float32 (tokens, 1)


class QuantisedWeight(NamedTuple):
    """Rows of values * scales."""

    values: Tensor  # int8 (outputs, inputs), -63 to 63
    scales: Tensor  # float32 (outputs,)


def quantised_states(states: Tensor) -> QuantisedStates:
    """Return *states* (tokens, inputs), float32, each row in whole numbers; the scale of a row with NaN or infinity is that."""
    largest = torch.maximum(states.amax(1, keepdim=True), -states.amin(1, keepdim=True)).clamp(min=_SMALLEST)
    values = torch.mul(states, _STATE_MOST / largest).add_(_ZERO + 0.5).to(torch.uint8)  # which cuts towards 0
    return QuantisedStates(values, largest / _STATE_MOST)


def quantised_weight(weight: Tensor) -> QuantisedWeight:
    """Return *weight* (outputs, inputs), float32, each row in whole numbers."""
    scales = weight.abs().amax(1).clamp(min=_SMALLEST) / _WEIGHT_MOST
    return QuantisedWeight((weight / scales[:, None]).round().to(torch.int8), scales)


class Int8Linear(nn.Module):
    """`states @ weight.T + bias`, the product by whole numbers."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        values, self.scales = quantised_weight(weight.detach())
        self.values = torch.ops.onednn.qlinear_prepack(values, [_ROWS, weight.shape[1]])
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)
        self.bias = None if bias is None else bias.detach()

    def forward(self, states: Tensor) -> Tensor:
        """Return (..., outputs) for *states* (..., inputs), float32."""
        return self.product(quantised_states(states.reshape(-1, states.shape[-1]))).view(*states.shape[:-1], len(self.scales))

    def product(self, states: QuantisedStates) -> Tensor:
        """Return (tokens, outputs), float32."""
        given = (states.values, 1.0, _ZERO, self.values, self.scales, self.zeros, None)
        result: Tensor = torch.ops.onednn.qlinear_pointwise(*given, 1.0, 0, torch.float32, "none", [], "")
        result.mul_(states.scales)
        return result if self.bias is None else result.add_(self.bias)


def check_int8(device: torch.device) -> None:
    """Raise CannotStart unless int8 can be computed on *device*."""
    if device.type != "cpu":
        raise CannotStart(f"dtype=int8 is for processors, and the device is {device}; type device=cpu, or dtype=bfloat16")
    if not int8_works():
        raise CannotStart(f"dtype=int8: torch {torch.__version__} has no such products for this processor; type dtype=float32")


@cache
def int8_works() -> bool:
    """Return whether this torch has these products for this processor, and the largest ones are exact."""
    most = torch.full((1, 64), float(_WEIGHT_MOST))
    states = torch.full((9, 64), float(_STATE_MOST))
    try:
        with torch.inference_mode():
            return bool((Int8Linear(torch.cat([most, -most]), None)(states).abs() == 64 * _WEIGHT_MOST * _STATE_MOST).all())
    except (AttributeError, NotImplementedError, RuntimeError, TypeError):
        return False
