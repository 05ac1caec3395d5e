"""Linear layers in int8 on a processor: weights and states are whole numbers, their products exact, the rest float32.

Each output's weights have one scale and 7 bits, each token's state one scale and 8 bits, taken from that state alone: no text's
vector depends on what is in its batch. 7 bits, as AVX2 and AVX-512 without VNNI add pairs of products in 16 bits and cut what
does not fit: 2 x 255 x 63 does. The operation is what `torch.compile` puts into its programs and none of torch's public ones,
so it is tried before use. It is given states from 1 to 255, as without AMX it falls back on plain loops for signed ones.
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lexbench.errors import CannotStart

_WEIGHT_MOST, _STATE_MOST = 63, 127
_ZERO = 128  # what 0 is in a state
_SMALLEST = torch.finfo(torch.float32).tiny  # a state of zeros is not divided by 0
_ROWS = 768  # tokens that the layout of weights is chosen for


class QuantisedStates(NamedTuple):
    """Rows of (values - 128) * scales."""

    values: Tensor  # uint8 (tokens, inputs), 1 to 255
    scales: Tensor  # float32 (tokens,)


class QuantisedWeight(NamedTuple):
    """Rows of values * scales."""

    values: Tensor  # int8 (outputs, inputs), -63 to 63
    scales: Tensor  # float32 (outputs,)


def quantised_states(states: Tensor) -> QuantisedStates:
    """Return *states* (tokens, inputs), float32, each row in whole numbers; the scale of a row with NaN or infinity is that."""
    from lexbench.neural.int8_kernels import quantise

    found = _unfilled(*states.shape)
    quantise(states.contiguous().numpy(), *_arrays(found))
    return found


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
        self.bias = np.zeros(len(weight), np.float32) if bias is None else bias.detach().numpy()  # what compiled loops add

    def forward(self, states: Tensor) -> Tensor:
        """Return (..., outputs) for *states* (..., inputs), float32."""
        return self.product(quantised_states(states.reshape(-1, states.shape[-1]))).view(*states.shape[:-1], len(self.scales))

    def product(self, states: QuantisedStates) -> Tensor:
        """Return (tokens, outputs), float32."""
        from lexbench.neural.int8_kernels import scale_and_add

        products = self.unscaled(states)
        scale_and_add(products.numpy(), states.scales.numpy(), self.bias)
        return products

    def quantised_gelu(self, states: QuantisedStates) -> QuantisedStates:
        """Return GELU of the result, each row in whole numbers again."""
        from lexbench.neural.int8_kernels import quantise_gelu

        products = self.unscaled(states)
        found = _unfilled(*products.shape)
        quantise_gelu(products.numpy(), states.scales.numpy(), self.bias, *_arrays(found))
        return found

    def normalised(self, states: QuantisedStates, before: Tensor, norm: nn.LayerNorm) -> Tensor:
        """Return what *norm* makes of the result and *before* (tokens, outputs), float32, together."""
        from lexbench.neural.int8_kernels import add_and_normalise

        products = self.unscaled(states)
        added, weight, shift = (tensor.detach().numpy() for tensor in (before, norm.weight, norm.bias))
        epsilon = np.float32(norm.eps)
        add_and_normalise(products.numpy(), states.scales.numpy(), self.bias, added, weight, shift, epsilon)
        return products

    def unscaled(self, states: QuantisedStates) -> Tensor:
        """Return the products (tokens, outputs), float32, before they are multiplied by the scales of states."""
        given = (states.values, 1.0, _ZERO, self.values, self.scales, self.zeros, None)
        products: Tensor = torch.ops.onednn.qlinear_pointwise(*given, 1.0, 0, torch.float32, "none", [], "")
        return products


def write_largest(layers: Sequence[Int8Linear], states: Tensor, lengths: Sequence[int], largest: Tensor) -> None:
    """Write the largest of each output of all *layers* over each text's tokens into *largest* (texts, outputs), float32.

    Texts have *lengths* tokens, whose *states* (tokens, inputs) stand behind each other; for a text of none nothing is written.
    """
    from lexbench.neural.int8_kernels import largest_of_texts

    quantised = quantised_states(states)
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    first = 0
    scales, written = quantised.scales.numpy(), largest.numpy()
    for layer in layers:
        largest_of_texts(layer.unscaled(quantised).numpy(), scales, layer.bias, starts, written, first)
        first += len(layer.bias)


def _unfilled(tokens: int, width: int) -> QuantisedStates:
    return QuantisedStates(torch.empty((tokens, width), dtype=torch.uint8), torch.empty(tokens))


def _arrays(states: QuantisedStates) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    return states.values.numpy(), states.scales.numpy()


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
