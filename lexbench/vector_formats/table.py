"""Sparse vectors by id, from a stream that is read once: on disk while this process lives, and mapped."""

from collections.abc import Callable, Iterable, Sequence
from tempfile import TemporaryFile
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench.errors import LexbenchError
from lexbench.trec.ids import encode, factorize, lookup
from lexbench.vector_formats.blocks import Block

_NAMED = 3  # ids in an error


class Lookup:
    """The vectors of *blocks*; *tokens* gives the strings of the terms when all have been read."""

    def __init__(self, blocks: Iterable[Block], tokens: Callable[[], list[str]]) -> None:
        ids: list[str] = []
        ends, self.width = [np.zeros(1, np.int64)], 0
        with (
            TemporaryFile() as terms,
            TemporaryFile() as weights,
        ):  # what is mapped outlives them
            for names, vectors in blocks:
                ids += names
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

    def find(self, wanted: Sequence[str], complaint: str) -> sparse.csr_array:
        """Return the vectors (n, width) of the ids *wanted*; LexbenchError, *complaint* and the first ids, for missing ones."""
        codes = lookup(self.ids, encode(wanted))
        missing = [wanted[place] for place in np.flatnonzero(codes < 0).tolist()]
        if missing:
            more = f" and {len(missing) - _NAMED:,} others" if len(missing) > _NAMED else ""
            raise LexbenchError(f"{complaint} {', '.join(map(repr, missing[:_NAMED]))}{more}")
        whole: Any = sparse.csr_array((*self._arrays, self._offsets), shape=(len(self._offsets) - 1, self.width))
        found: sparse.csr_array = whole[self._rows[codes]]
        return found


def _mapped(file: IO[bytes], kind: type[Any]) -> NDArray[Any]:
    file.flush()
    return np.memmap(file, kind, "r") if file.tell() else np.zeros(0, kind)  # an empty file cannot be mapped
