"""A table of sparse vectors by id, filled from a stream that is read once; in temporary files while this process lives."""

from collections.abc import Callable, Iterable, Sequence
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
import scipy
from numpy.typing import NDArray

from lexbench.errors import LexbenchError
from lexbench.trec.ids import encode, factorize, lookup
from lexbench.vector_formats.blocks import Block

_SHOWN = 3  # ids in an error


class VectorTable:
    """The vectors of *blocks* by id; *tokens* returns the strings of the terms, once all blocks have been read."""

    def __init__(self, blocks: Iterable[Block], tokens: Callable[[], list[str]]) -> None:
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
        self.ids, codes = factorize(encode(ids))
        self._rows = np.empty(len(self.ids), np.int64)
        self._rows[codes] = np.arange(len(ids))

    def find(self, ids: Sequence[str], complaint: str) -> "scipy.sparse.csr_array":
        """Return the vectors (n, width) of *ids*; LexbenchError, which is *complaint* and the first missing ids, for others."""
        codes = lookup(self.ids, encode(ids))
        missing = [ids[index] for index in np.flatnonzero(codes < 0).tolist()]
        if missing:
            more = f" and {len(missing) - _SHOWN:,} others" if len(missing) > _SHOWN else ""
            raise LexbenchError(f"{complaint} {', '.join(map(repr, missing[:_SHOWN]))}{more}")
        matrix: Any = scipy.sparse.csr_array((*self._arrays, self._offsets), shape=(len(self._offsets) - 1, self.width))
        vectors: scipy.sparse.csr_array = matrix[self._rows[codes]]
        return vectors


def _mapped(file: IO[bytes], kind: type[Any]) -> NDArray[Any]:
    file.flush()
    return np.memmap(file, kind, "r") if file.tell() else np.zeros(0, kind)  # an empty file cannot be mapped
