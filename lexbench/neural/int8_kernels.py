"""What stands between int8 products: states to whole numbers and back, GELU, normalisation, maxima; one pass over memory each.

torch has an operation for each step, so that a layer's states went through memory a dozen times. All arrays are contiguous,
and float32 where nothing else is said.
"""

import numpy as np
from numba import njit

_SMALLEST = np.finfo(np.float32).tiny.view(np.int32)  # the bits of what a state of zeros is divided by
_NO_SIGN = np.int32(0x7FFFFFFF)
_MOST, _ZERO = np.float32(127), np.float32(128)  # the largest whole number of a state, and what 0 is
_HALF, _ONE = np.float32(0.5), np.float32(1)
_ROOT_HALF = np.float32(np.sqrt(0.5))
_FAR = np.float32(4)  # from where on erf is 1 in float32, nearly
_SUMS = {"reassoc", "contract", "nsz"}  # sums in any order, so that they run in vectors; nothing is supposed of the values


@njit(nogil=True, cache=True, error_model="numpy")
def _quantise_row(states, values):  # type: ignore[no-untyped-def]
    """Write *states* (width,) into *values* (width,), uint8, and return the scale: NaN or infinity where one of them is.

    Bits without the sign, as whole numbers, have the order of absolute values, NaN above all: so their maximum runs in vectors.
    """
    bits = states.view(np.int32)
    largest = _SMALLEST
    for i in range(len(states)):
        largest = max(largest, bits[i] & _NO_SIGN)
    most = np.int32(largest).view(np.float32)
    factor = _ONE / most * _MOST
    for i in range(len(states)):
        values[i] = np.uint8(np.int32(states[i] * factor + (_ZERO + _HALF)))  # which cuts towards 0
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
    """Return x * (1 + erf(x / sqrt(2))) / 2; up to 4, erf(z) is z P(z^2) / Q(z^2), fitted by least squares and off by 4e-7."""
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
    """Quantise GELU(products * scales + bias), as `quantise` does it: into *values* and *new_scales*."""
    activated = np.empty(products.shape[1], np.float32)
    for row in range(len(products)):
        scale, of_row = scales[row], products[row]
        for i in range(len(bias)):
            activated[i] = gelu(of_row[i] * scale + bias[i])
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

    Text i has the tokens starts[i] to starts[i + 1]; where it has none nothing is written, and NaN where a scale is not finite.
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
            for i in range(len(bias)):  # of all tokens the same, so it changes no order
                of_text[i] += bias[i]
