"""Arrays in files of safetensors: what runs, vectors and timings are kept in."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save


def array_bytes(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return the content of a file with *arrays*, by name.

    The library writes the memory of an array as it lies, so columns of a larger array, e.g. `docs[:, :k]`, would become others.
    """
    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
