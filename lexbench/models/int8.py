"""Linear layers in int8 on a processor: weights and states are whole numbers, their products exact, the rest float32.

Each output's weights have one scale and 7 bits, each token's state one scale and 8 bits. The scale of a state depends on that
state alone, not on what else is in its batch. Weights have 7 bits because AVX2, and AVX-512 without VNNI, add pairs of products
in 16 bits and cut larger sums: 2 x 255 x 63 fits. States are sent as 1 to 255, because without AMX the
operation falls back on plain loops for signed ones.

The product is an operation that `torch.compile` puts into its programs and that is not public, so `int8_works` tries it first.
The loops between products are compiled and read a layer's states once; torch would read them a dozen times. Models import this
module only for dtype="int8".
"""

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from lexbench.compiling.loops import njit
from lexbench.errors import CannotStart

_WEIGHT_MOST, _STATE_MOST = 63, 127  # the largest whole numbers
_ZERO = 128  # what 0 is in a state
_TINY = torch.finfo(torch.float32).tiny  # divides a row of zeros
_TOKENS = 768  # the number of tokens that the layout of weights is optimised for
_HAS_BFLOAT16 = getattr(torch.cpu, "_is_avx512_bf16_supported", bool)()  # not public, and not in every torch
_LONG = 64  # tokens: with such products, attention is faster in bfloat16 for texts as long as this, else in float32


class QuantisedStates(NamedTuple):
    """Rows of (values - 128) * scales."""

    values: Tensor  # uint8 (tokens, inputs), 1 to 255
    scales: Tensor  # float32 (tokens,)

    @classmethod
    def empty(cls, tokens: int, width: int) -> "QuantisedStates":
        """Return states without values, to be written."""
        return cls(torch.empty((tokens, width), dtype=torch.uint8), torch.empty(tokens))


def quantised_states(states: Tensor) -> QuantisedStates:
    """Return *states* (tokens, inputs), float32, in whole numbers; a row with NaN or infinity gets that as its scale."""
    found = QuantisedStates.empty(*states.shape)
    quantise(states.contiguous().numpy(), found.values.numpy(), found.scales.numpy())
    return found


# ---- layers ----------------------------------------------------------------------------------------------------------------


class Int8Linear(nn.Module):
    """`states @ weight.T + bias`, the product by whole numbers."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        weight = weight.detach()
        self.scales = weight.abs().amax(1).clamp(min=_TINY) / _WEIGHT_MOST
        values = (weight / self.scales[:, None]).round().to(torch.int8)  # (outputs, inputs), -63 to 63
        self.values = torch.ops.onednn.qlinear_prepack(values, [_TOKENS, weight.shape[1]])
        self.zeros = torch.zeros(len(weight), dtype=torch.int32)
        self.bias = np.zeros(len(weight), np.float32) if bias is None else bias.detach().numpy()  # for the compiled loops

    def forward(self, states: Tensor) -> Tensor:
        """Return (..., outputs) for *states* (..., inputs), float32."""
        return self.product(quantised_states(states.reshape(-1, states.shape[-1]))).view(*states.shape[:-1], len(self.scales))

    def product(self, states: QuantisedStates) -> Tensor:
        """Return (tokens, outputs), float32."""
        products = self.unscaled(states)
        scale_and_add(products.numpy(), states.scales.numpy(), self.bias)
        return products

    def quantised_gelu(self, states: QuantisedStates) -> QuantisedStates:
        """Return GELU of the result, in whole numbers again."""
        products = self.unscaled(states)
        found = QuantisedStates.empty(*products.shape)
        quantise_gelu(products.numpy(), states.scales.numpy(), self.bias, found.values.numpy(), found.scales.numpy())
        return found

    def quantised_geglu(self, states: QuantisedStates, *, gate_first: bool = False) -> QuantisedStates:
        """Return GELU of one half of the result times the other half, in whole numbers again.

        GELU is that of the first half, with *gate_first* of the second one.
        """
        products = self.unscaled(states)
        half = products.shape[1] // 2
        found = QuantisedStates.empty(len(products), half)
        first = half if gate_first else 0
        quantise_geglu(products.numpy(), states.scales.numpy(), self.bias, first, found.values.numpy(), found.scales.numpy())
        return found

    def normalised(self, states: QuantisedStates, before: Tensor, norm: nn.LayerNorm) -> Tensor:
        """Return *norm* of the sum of the result and *before* (tokens, outputs), float32."""
        products = self.unscaled(states)
        added, weight, shift = (tensor.detach().numpy() for tensor in (before, norm.weight, norm.bias))
        epsilon = np.float32(norm.eps)
        add_and_normalise(products.numpy(), states.scales.numpy(), self.bias, added, weight, shift, epsilon)
        return products

    def unscaled(self, states: QuantisedStates) -> Tensor:
        """Return the products (tokens, outputs), float32, not yet multiplied by the scales of the states."""
        given = (states.values, 1.0, _ZERO, self.values, self.scales, self.zeros, None)
        products: Tensor = torch.ops.onednn.qlinear_pointwise(*given, 1.0, 0, torch.float32, "none", [], "")
        return products


def attention_dtype(length: int) -> torch.dtype:
    """Return the dtype of attention between products in int8, for texts of *length* tokens."""
    return torch.bfloat16 if _HAS_BFLOAT16 and length >= _LONG else torch.float32


def replace_layers(module: nn.Module) -> None:
    """Replace the layers of our own architectures inside *module* by layers in int8."""
    for parent in list(module.modules()):
        for name, layer in list(parent.named_children()):
            if (in_int8 := getattr(layer, "in_int8", None)) is not None:
                setattr(parent, name, in_int8())


def write_largest(layers: Sequence[Int8Linear], states: Tensor, lengths: Sequence[int], largest: Tensor) -> None:
    """Write the largest value of each output of all *layers* over each text's tokens into *largest* (texts, outputs), float32.

    *states* (tokens, inputs) belong to texts of *lengths* tokens, one text after the other. Nothing is written for a text
    without tokens.
    """
    quantised = quantised_states(states)
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    scales, written = quantised.scales.numpy(), largest.numpy()
    first = 0
    for layer in layers:
        largest_of_texts(layer.unscaled(quantised).numpy(), scales, layer.bias, starts, written, first)
        first += len(layer.bias)


# ---- checks ----------------------------------------------------------------------------------------------------------------


def check_int8(device: torch.device) -> None:
    """Raise CannotStart unless int8 can be computed on *device*."""
    if device.type != "cpu":
        raise CannotStart(f"dtype=int8 is for processors, and the device is {device}; type device=cpu, or dtype=bfloat16")
    if not int8_works():
        raise CannotStart(f"dtype=int8: torch {torch.__version__} has no such products for this processor; type dtype=float32")


@cache
def int8_works() -> bool:
    """Return whether this torch has the products for this processor, and the largest of them are exact."""
    most = torch.full((1, 64), float(_WEIGHT_MOST))
    states = torch.full((9, 64), float(_STATE_MOST))
    try:
        with torch.inference_mode():
            return bool((Int8Linear(torch.cat([most, -most]), None)(states).abs() == 64 * _WEIGHT_MOST * _STATE_MOST).all())
    except (AttributeError, NotImplementedError, RuntimeError, TypeError):
        return False


# ---- compiled loops --------------------------------------------------------------------------------------------------------
# All arrays are contiguous, and float32 unless stated otherwise.

_SMALLEST = np.finfo(np.float32).tiny.view(np.int32)  # the bits of _TINY
_NO_SIGN = np.int32(0x7FFFFFFF)
_MOST, _MIDDLE = np.float32(_STATE_MOST), np.float32(_ZERO)
_HALF, _ONE = np.float32(0.5), np.float32(1)
_ROOT_HALF = np.float32(np.sqrt(0.5))
_FAR = np.float32(4)  # erf is 1 in float32 from here on, nearly
_SUMS = {"reassoc", "contract", "nsz"}  # sums in any order, so that they run in vectors; values may be NaN or infinite


@njit(nogil=True, cache=True, error_model="numpy")
def _quantise_row(states, values):  # type: ignore[no-untyped-def]
    """Write *states* (width,) into *values* (width,), uint8, and return the scale: NaN or infinity if a state is.

    Bits without the sign, read as whole numbers, have the order of absolute values, NaN above all; their maximum is vectorised.
    """
    bits = states.view(np.int32)
    largest = _SMALLEST
    for i in range(len(states)):
        largest = max(largest, bits[i] & _NO_SIGN)
    most = np.int32(largest).view(np.float32)
    factor = _ONE / most * _MOST
    for i in range(len(states)):
        values[i] = np.uint8(np.int32(states[i] * factor + (_MIDDLE + _HALF)))  # rounds: the conversion cuts towards 0
    return most / _MOST


@njit(nogil=True, cache=True, error_model="numpy")
def quantise(states, values, scales):  # type: ignore[no-untyped-def]
    """Write *states* (tokens, width) as `(values - 128) * scales`: *values* uint8, 1 to 255, and *scales* (tokens,)."""
    for row in range(len(states)):
        scales[row] = _quantise_row(states[row], values[row])


@njit(nogil=True, cache=True)
def scale_and_add(products, scales, bias):  # type: ignore[no-untyped-def]
    """Multiply each row of *products* (tokens, outputs) by its scale, and add *bias* (outputs,)."""
    for row in range(len(products)):
        scale, of_row = scales[row], products[row]
        for i in range(len(bias)):
            of_row[i] = of_row[i] * scale + bias[i]


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_SUMS)
def gelu(x):  # type: ignore[no-untyped-def]
    """Return x * (1 + erf(x / sqrt(2))) / 2; up to 4, erf(z) is z P(z^2) / Q(z^2), fitted by least squares, error 4e-7."""
    z = min(max(x * _ROOT_HALF, -_FAR), _FAR)
    square = z * z
    above = np.float32(1.921721808e-08)
    above = above * square + np.float32(-1.990324256e-06)
    above = above * square + np.float32(1.555372115e-04)
    above = above * square + np.float32(4.293065912e-03)
    above = above * square + np.float32(5.243350573e-02)
    above = above * square + np.float32(2.139449860e-01)
    above = above * square + np.float32(1.128378677)
    below = np.float32(1.098041540e-03)
    below = below * square + np.float32(1.555111544e-02)
    below = below * square + np.float32(1.207997406e-01)
    below = below * square + np.float32(5.229314630e-01)
    below = below * square + _ONE
    return _HALF * x * (_ONE + z * above / below)


@njit(nogil=True, cache=True, fastmath=_SUMS)
def quantise_gelu(products, scales, bias, values, new_scales):  # type: ignore[no-untyped-def]
    """Quantise GELU(products * scales + bias) like `quantise`, into *values* and *new_scales*."""
    activated = np.empty(products.shape[1], np.float32)
    for row in range(len(products)):
        scale, of_row = scales[row], products[row]
        for i in range(len(bias)):
            activated[i] = gelu(of_row[i] * scale + bias[i])
        new_scales[row] = _quantise_row(activated, values[row])


@njit(nogil=True, cache=True, fastmath=_SUMS)
def quantise_geglu(products, scales, bias, first, values, new_scales):  # type: ignore[no-untyped-def]
    """Quantise GELU(half) * (other half) of products * scales + bias into *values* and *new_scales*.

    *products* are (tokens, 2 n); the half that goes through GELU begins at *first*, 0 or n.
    """
    half = products.shape[1] // 2
    second = half - first
    activated = np.empty(half, np.float32)
    for row in range(len(products)):
        scale, of_row = scales[row], products[row]
        for i in range(half):
            gate = of_row[second + i] * scale + bias[second + i]
            activated[i] = gelu(of_row[first + i] * scale + bias[first + i]) * gate
        new_scales[row] = _quantise_row(activated, values[row])


@njit(nogil=True, cache=True, error_model="numpy", fastmath=_SUMS)
def add_and_normalise(products, scales, bias, before, weight, shift, epsilon):  # type: ignore[no-untyped-def]
    """Turn *products* (tokens, outputs) into `products * scales + bias + before`, normalised, times *weight*, plus *shift*."""
    share = _ONE / np.float32(products.shape[1])
    for row in range(len(products)):
        scale, of_row, of_before = scales[row], products[row], before[row]
        total = np.float32(0)
        for i in range(len(bias)):
            of_row[i] = of_row[i] * scale + bias[i] + of_before[i]
            total += of_row[i]
        mean = total * share
        squares = np.float32(0)
        for i in range(len(bias)):
            squares += (of_row[i] - mean) * (of_row[i] - mean)
        factor = _ONE / np.sqrt(squares * share + epsilon)
        for i in range(len(bias)):
            of_row[i] = (of_row[i] - mean) * factor * weight[i] + shift[i]


@njit(nogil=True, cache=True)
def largest_of_texts(products, scales, bias, starts, largest, first):  # type: ignore[no-untyped-def]
    """Write the largest `products * scales + bias` (tokens, outputs) of each text into its row of *largest*, from *first* on.

    Text i has the tokens starts[i] to starts[i + 1]. Nothing is written for a text without tokens, and NaN if a scale is not
    finite.
    """
    for text in range(len(starts) - 1):
        of_text = largest[text, first : first + len(bias)]
        finite = True
        for row in range(starts[text], starts[text + 1]):
            scale, of_row = scales[row], products[row]
            finite &= np.isfinite(scale)
            if row == starts[text]:
                for i in range(len(bias)):
                    of_text[i] = of_row[i] * scale
            else:
                for i in range(len(bias)):
                    of_text[i] = max(of_text[i], of_row[i] * scale)
        if not finite:
            of_text[:] = np.nan
        if starts[text] < starts[text + 1]:
            for i in range(len(bias)):  # added last: the bias is the same for all tokens, so it does not change the order
                of_text[i] += bias[i]
