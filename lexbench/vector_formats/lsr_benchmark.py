"""Embeddings in the layout of lsr-benchmark: a folder `doc` for documents and a folder `query` for queries.

    doc/doc-embeddings.npz    data, indices, indptr: the arrays of a CSR matrix (documents, vocabulary)
    doc/doc-ids.txt           the ids of its rows, one per line

https://github.com/reneuir/lsr-benchmark, `lsr_benchmark/irds.py`. Some encoders leave out the offsets of texts without terms at
the end; these rows are read as empty. The strings of the tokens are lost. A matrix is in memory while it is read or written.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench.errors import InvalidFile
from lexbench.storage import atomic
from lexbench.vector_formats.blocks import ROWS, Block, Vocabulary, checked
from lexbench.vectors import canonical

_EMBEDDINGS, _IDS = "-embeddings.npz", "-ids.txt"
_ARRAYS = ("data", "indices", "indptr")
_TERM_LIMIT = 2**31


def read(path: Path, vocabulary: Vocabulary | None = None) -> Iterator[Block]:  # noqa: ARG001 - terms are numbers here
    """Yield the vectors of the folder *path*, in its order. Raises InvalidFile if a file is missing or malformed."""
    file = next(iter(sorted(path.glob(f"*{_EMBEDDINGS}"))), None)
    if file is None:
        raise InvalidFile(f"{path}: it has no file *{_EMBEDDINGS}; give the folder doc or query of lsr-benchmark's embeddings")
    data, terms, offsets = _arrays(file)
    ids = _ids(file.with_name(file.name.removesuffix(_EMBEDDINGS) + _IDS))
    if len(offsets) - 1 > len(ids):
        raise InvalidFile(f"{file}: {len(offsets) - 1:,} rows, and {len(ids):,} ids beside it")
    offsets = np.concatenate([offsets, np.full(len(ids) + 1 - len(offsets), offsets[-1])])
    width = int(terms.max(initial=-1)) + 1
    for start in range(0, len(ids), ROWS):
        own = offsets[start : start + ROWS + 1]
        inside = slice(int(own[0]), int(own[-1]))
        matrix = sparse.csr_array((data[inside], terms[inside], own - own[0]), shape=(len(own) - 1, width))
        yield Block(ids[start : start + ROWS], canonical(matrix))


def _arrays(file: Path) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.int64]]:
    """Return weights, terms and offsets. Raises InvalidFile if they are no sparse matrix of finite numbers."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            data, indices, indptr = (arrays[name] for name in _ARRAYS)
        terms = indices.astype(np.int64)  # some are strings of digits
        offsets = indptr.astype(np.int64)
    except (BadZipFile, EOFError, KeyError, OSError, TypeError, ValueError) as error:
        raise InvalidFile(f"{file}: {error}; it must hold the numbers {', '.join(_ARRAYS)}") from None
    weights = data.astype(np.float32)
    fits = len(offsets) and not offsets[0] and offsets[-1] == len(weights) == len(terms) and np.all(np.diff(offsets) >= 0)
    if not fits:
        raise InvalidFile(f"{file}: its indptr does not ascend from 0 to its {len(weights):,} weights")
    if len(terms) and not 0 <= terms.min() <= terms.max() < _TERM_LIMIT:
        raise InvalidFile(f"{file}: a term is below 0 or above 2^31")
    if not np.isfinite(weights).all():
        raise InvalidFile(f"{file}: a weight is no float32 number")
    return weights, terms.astype(np.int32), offsets


def _ids(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").strip().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidFile(f"{file}: {getattr(error, 'strerror', None) or error}") from None


def write(blocks: Iterable[Block], path: Path, vocabulary: Vocabulary) -> None:
    """Write the vectors of *blocks* into the folder *path*, `doc` or `query`; ids first, so that they are never missing."""
    kept = list(checked(blocks, None if vocabulary.grows else vocabulary))
    matrix: Any = sparse.vstack([block.vectors for block in kept], format="csr")
    ids = [name for block in kept for name in block.ids]
    path.mkdir(parents=True, exist_ok=True)
    atomic.write_text(path / f"{path.name}{_IDS}", "".join(f"{name}\n" for name in ids))
    arrays = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr.astype(np.int64)}
    with atomic.writer(path / f"{path.name}{_EMBEDDINGS}") as file:
        np.savez_compressed(file, **arrays)
