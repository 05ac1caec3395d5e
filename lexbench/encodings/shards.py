"""Encodings on disk: the vectors of a corpus in shards of a fixed range of positions.

A shard holds positions i * SHARD up to (i + 1) * SHARD whatever the batch size or the number of workers, and is written
whole, so a run that was killed loses at most one. Sparse shards hold a scipy CSR matrix, dense ones a matrix.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file
from scipy import sparse

from lexbench import atomic
from lexbench.errors import LexbenchError
from lexbench.types import Corpus, Encoder, Kind

SHARD = 4096  # documents
_BATCH = 256  # texts handed to an encoder at a time; encoders cut and sort further as suits them


def kind_of(vectors: Any) -> Kind:
    """Return what kind *vectors* are; an encoder that makes anything else is refused."""
    if sparse.issparse(vectors):
        return Kind.SPARSE
    if isinstance(vectors, np.ndarray) and vectors.ndim == 2:  # noqa: PLR2004 - a matrix
        return Kind.DENSE
    raise LexbenchError(f"an encoder returned {type(vectors).__name__}; it must be a scipy.sparse matrix or a 2-d numpy array")


def missing(corpus: Corpus, path: Path) -> list[range]:
    """Return the positions of each shard that is not in the folder *path* yet."""
    every = (range(start, min(start + SHARD, len(corpus))) for start in range(0, len(corpus), SHARD))
    return [shard for shard in every if not _file(path, shard).exists()]


def encode(encoder: Encoder[Any], corpus: Corpus, path: Path) -> None:
    """Encode *corpus* into the folder *path*, going on after the shards that are there."""
    for shard in missing(corpus, path):
        texts = [document.text for document in corpus.documents(shard.start, shard.stop)]
        blocks = [encoder.encode_document(texts[at : at + _BATCH]) for at in range(0, len(texts), _BATCH)]
        _write(_file(path, shard), blocks)


def _file(path: Path, shard: range) -> Path:
    return path / f"shard-{shard.start // SHARD:05d}.safetensors"


def _write(target: Path, blocks: list[Any]) -> None:
    if kind_of(blocks[0]) is Kind.SPARSE:
        matrix = sparse.csr_array(sparse.vstack(blocks, format="csr"))
        matrix.sort_indices()
        arrays = {"data": matrix.data.astype(np.float32), "indices": matrix.indices.astype(np.int32)}
        arrays |= {"indptr": matrix.indptr.astype(np.int64), "shape": np.array(matrix.shape, np.int64)}
    else:
        arrays = {"vectors": np.ascontiguousarray(np.concatenate(blocks), np.float32)}
    with atomic.atomic_path(target) as draft:
        save_file(arrays, draft)


@dataclass(frozen=True)
class Encodings:
    """Stored vectors of a corpus."""

    path: Path

    def shards(self) -> Iterator[Any]:
        """Yield the vectors (n, width) shard by shard, in position order."""
        for file in sorted(self.path.glob("shard-*.safetensors")):
            arrays = load_file(file)
            if "vectors" in arrays:
                yield arrays["vectors"]
            else:
                parts = (arrays["data"], arrays["indices"], arrays["indptr"])
                yield sparse.csr_array(parts, shape=tuple(arrays["shape"]))
