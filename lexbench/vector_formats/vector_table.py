"""A table of sparse vectors by id, filled from a stream that is read once; in temporary files while this process lives."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
import scipy
from numpy.typing import NDArray

from lexbench.vector_formats.blocks import Block
from lexbench.vector_formats.rows_by_id import RowsById


class VectorTable:
    """The vectors of *blocks* by id; *tokens* returns the strings of the terms, once all blocks have been read.

    InvalidFile, which names the file *where* they are, for an id that has two.
    """

    def __init__(self, blocks: Iterable[Block], tokens: Callable[[], list[str]], where: Path) -> None:
        ids: list[str] = []
        ends, self.width = [np.zeros(1, np.int64)], 0
        with TemporaryFile() as terms, TemporaryFile() as weights:  # what is mapped outlives them
            for block_ids, vectors in blocks:
                ids += block_ids
                ends.append(vectors.indptr[1:].astype(np.int64) + ends[-1][-1])
                vectors.indices.astype(np.int32).tofile(terms)
                vectors.data.astype(np.float32).tofile(weights)
                self.width = max(self.width, vectors.shape[1])
            self._arrays = _mapped(weights, np.float32), _mapped(terms, np.int32)
        self.tokens = tokens()
        self._offsets = np.concatenate(ends)
        self._rows = RowsById(ids, where)
        self.ids = self._rows.ids

    def find(self, ids: Sequence[str], complaint: str) -> "scipy.sparse.csr_array":
        """Return the vectors (n, width) of *ids*; LexbenchError, which is *complaint* and the first missing ids, for others."""
        rows = self._rows.find(ids, complaint)
        matrix: Any = scipy.sparse.csr_array((*self._arrays, self._offsets), shape=(len(self._offsets) - 1, self.width))
        vectors: scipy.sparse.csr_array = matrix[rows]
        return vectors


def _mapped(file: IO[bytes], kind: type[Any]) -> NDArray[Any]:
    file.flush()
    return np.memmap(file, kind, "r") if file.tell() else np.zeros(0, kind)  # an empty file cannot be mapped
