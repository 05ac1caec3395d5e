"""The index files of `flat` and `maxsim`: all vectors of a collection as one raw matrix, float32 or float16."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexbench.engines.kernels.checks import all_finite, one_width
from lexbench.errors import CommandError

_STORAGE = ("float32", "float16")


def check_storage(engine: str, storage: str) -> None:
    """Raise CommandError unless vectors can be stored as *storage*."""
    if storage not in _STORAGE:
        raise CommandError(f"{engine}(storage=…) takes {' or '.join(map(repr, _STORAGE))}, not {storage!r}")


def write(engine: str, storage: str, blocks: Iterable[NDArray[np.float32]], path: Path) -> None:
    """Write *blocks* (n, dimensions), one after another, into the folder *path*.

    Raises LexbenchError, naming *engine*, for blocks of different widths, and for values that are not finite as *storage*.
    """
    width = 0
    with (path / "vectors").open("wb") as file:
        for block in blocks:
            width = one_width(engine, width, block.shape[1])
            with np.errstate(over="ignore"):
                stored = np.ascontiguousarray(block, np.dtype(storage))
            all_finite(stored, "a document vector")
            stored.tofile(file)
    (path / "facts.json").write_text(json.dumps({"width": width, "storage": storage}) + "\n", encoding="utf-8")


def mapped(path: Path) -> NDArray[Any]:
    """Return the matrix (n, dimensions) in the folder *path*, mapped into memory."""
    facts = json.loads((path / "facts.json").read_bytes())
    width, kind = facts["width"], np.dtype(facts["storage"])
    if (path / "vectors").stat().st_size == 0:  # an empty file cannot be mapped
        return np.empty((0, width), kind)
    return np.asarray(np.memmap(path / "vectors", kind, "r")).reshape(-1, width)
