"""The format of encodings on disk: the vectors of a corpus in shards, each of a fixed range of positions.

A shard holds positions i * SHARD up to (i + 1) * SHARD for any batch size and number of workers. It is written whole, so a
killed run loses at most one. It is a safetensors file:

    sparse    offsets  int64 (n + 1,): the terms of row i are terms[offsets[i]:offsets[i + 1]]
              terms    uint16 (nonzeros,), uint32 where the vocabulary has more than 65,536; ascending in each row
              weights  float32 (nonzeros,), or float16
    dense     vectors  float32 (n, dimensions), or float16
    multi     offsets  int64 (n + 1,): the vectors of text i are vectors[offsets[i]:offsets[i + 1]]
              vectors  float32 (tokens, dimensions), or float16
    all       facts    int64 (2,): the width of a vector, and the number of texts that were cut
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from safetensors.numpy import load_file

from lexbench.arrays.vectors import canonical, kind_of, offsets_of, ranges, stacked
from lexbench.errors import LexbenchError
from lexbench.storage import atomic
from lexbench.storage.array_files import array_bytes
from lexbench.types import Kind, MultiVectors

SHARD = 2048  # documents; a kill costs at most the work on one shard, a few minutes on one core of a laptop
_NARROW = 1 << 16  # terms that fit into two bytes
_TYPES = {"F16": np.float16, "F32": np.float32, "I64": np.int64, "U16": np.uint16, "U32": np.uint32}  # of safetensors


def missing(documents: int, path: Path) -> list[range]:
    """Return the positions of each shard of a corpus of *documents* documents that the folder *path* lacks."""
    shards = (range(start, min(start + SHARD, documents)) for start in range(0, documents, SHARD))
    there = {file.name for file in path.iterdir()} if path.is_dir() else set()  # listed once, because there may be 100,000
    return [shard for shard in shards if shard_file(path, shard).name not in there]


def shard_file(path: Path, shard: range) -> Path:
    """Return the file of the vectors of the positions *shard* in the folder *path*.

    From 100,000 shards on names are longer, so sort them by length first, as `Encodings.files` does.
    """
    return path / f"shard-{shard.start // SHARD:05d}.safetensors"


def write_shard(target: Path, vectors: Any, *, storage: str = "float32") -> None:
    """Write the vectors of one shard, whole or not at all; see `packed`."""
    atomic.write_bytes(target, packed(vectors, storage=storage))


def packed(vectors: Any, *, truncated: int = 0, storage: str = "float32") -> bytes:
    """Return the content of the file of one shard; *storage* is the type of its values.

    Raises LexbenchError if a value is not a number, or too large for *storage*.
    """
    with np.errstate(over="ignore"):  # infinity is refused below
        arrays, width = _arrays(vectors)
        name = "weights" if "weights" in arrays else "vectors"
        arrays[name] = np.ascontiguousarray(arrays[name], np.dtype(storage))
    if not np.isfinite(arrays[name]).all():
        raise LexbenchError(f"the encoder made values that are not finite {storage} numbers")
    # Not save_file, whose temporary file a kill would leave behind; and no metadata, because their order is random.
    return array_bytes(arrays | {"facts": np.array([width, truncated])})


def _arrays(vectors: Any) -> tuple[dict[str, NDArray[Any]], int]:
    """Return the arrays of a shard, by the names in the docstring of this module, and the width of a vector."""
    kind = kind_of(vectors)
    if kind is Kind.DENSE:
        return {"vectors": vectors}, vectors.shape[1]
    if kind is Kind.MULTI:
        offsets = vectors.offsets.astype(np.int64)
        if offsets[0] or offsets[-1] != len(vectors.values) or np.any(np.diff(offsets) < 0):
            raise LexbenchError(f"an encoder made offsets that are not those of its {len(vectors.values)} vectors")
        return {"offsets": offsets, "vectors": vectors.values}, vectors.values.shape[1]
    matrix = canonical(scipy.sparse.csr_array(vectors))
    terms = matrix.indices.astype(np.uint16 if matrix.shape[1] <= _NARROW else np.uint32)
    return {"offsets": matrix.indptr.astype(np.int64), "terms": terms, "weights": matrix.data}, matrix.shape[1]


@dataclass(frozen=True)
class Encodings:
    """The stored vectors of a corpus: the folder *path* of shards."""

    path: Path

    @property
    def files(self) -> list[Path]:
        """The shards in position order."""
        return sorted(self.path.glob("shard-*.safetensors"), key=lambda file: (len(file.name), file.name))

    def __len__(self) -> int:
        """Return the number of texts."""
        *whole, last = self.files
        return len(whole) * SHARD + int(read_shard(last).shape[0])

    def shards(self) -> Iterator[Any]:
        """Yield the vectors (n, width), float32, shard by shard in position order."""
        for file in self.files:
            yield read_shard(file)

    def truncated(self) -> int:
        """Return the number of texts that were cut to the encoder's length."""
        return sum(int(dict(_mapped(file))["facts"][1]) for file in self.files)


def read_shard(file: Path) -> Any:
    """Return the vectors (n, width) of one shard as float32."""
    return _vectors(load_file(file))


def read_rows(path: Path, positions: NDArray[np.int32]) -> Any:
    """Return the vectors (n, width) of ascending *positions*, at least one, as float32, without reading others."""
    shards, starts = np.unique(positions // SHARD, return_index=True)
    within = np.split(positions % SHARD, starts[1:])
    files = (shard_file(path, range(shard * SHARD, (shard + 1) * SHARD)) for shard in shards.tolist())
    return stacked([_vectors(_rows(dict(_mapped(file)), rows)) for file, rows in zip(files, within, strict=True)])


def _vectors(arrays: dict[str, NDArray[Any]]) -> Any:
    """Return the vectors (n, width) that the *arrays* of a shard stand for, as float32."""
    if "vectors" in arrays:
        values = arrays["vectors"].astype(np.float32, copy=False)
        return MultiVectors(values, arrays["offsets"]) if "offsets" in arrays else values
    parts = (arrays["weights"].astype(np.float32, copy=False), arrays["terms"].astype(np.int32), arrays["offsets"])
    return scipy.sparse.csr_array(parts, shape=(len(arrays["offsets"]) - 1, int(arrays["facts"][0])))


def _rows(arrays: dict[str, NDArray[Any]], rows: NDArray[np.int32]) -> dict[str, NDArray[Any]]:
    """Return the *arrays* of a shard, cut to some of its *rows*."""
    if "offsets" not in arrays:
        return {"vectors": arrays["vectors"][rows]}
    offsets = offsets_of(np.diff(arrays["offsets"])[rows])
    entries = ranges(arrays["offsets"][rows], offsets)
    kept = {name: arrays[name][entries] for name in ("vectors", "terms", "weights") if name in arrays}
    return kept | {"offsets": offsets, "facts": arrays["facts"]}


def _mapped(file: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the arrays of a shard as memory maps; the reader of safetensors would copy them whole."""
    with file.open("rb") as shard:
        length = int.from_bytes(shard.read(8), "little")
        header = json.loads(shard.read(length))
    content = np.memmap(file, np.uint8, "r", 8 + length)
    for name, fact in header.items():
        yield name, content[slice(*fact["data_offsets"])].view(_TYPES[fact["dtype"]]).reshape(fact["shape"])
