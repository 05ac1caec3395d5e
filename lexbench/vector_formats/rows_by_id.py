"""Where the vector of each id is in a table: what tables of sparse and of dense vectors have in common."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import InvalidFile, LexbenchError
from lexbench.trec.ids import encode, factorize, lookup

_SHOWN = 3  # ids in an error


class RowsById:
    """The rows of a table by the ids that its rows have."""

    def __init__(self, ids: Sequence[str], where: Path) -> None:
        """Take the *ids* of all rows; InvalidFile, which names the file *where* they are, if two rows have one."""
        self.ids, codes = factorize(encode(ids))  # (distinct,) sorted, in bytes
        if len(self.ids) < len(ids):
            twice = self.ids[np.argmax(np.bincount(codes) > 1)].decode()
            raise InvalidFile(f"{where}: two vectors have the id {twice!r}, and nobody can tell which counts; keep one of them")
        self._rows = np.empty(len(self.ids), np.int64)
        self._rows[codes] = np.arange(len(ids))

    def find(self, ids: Sequence[str], complaint: str) -> NDArray[np.int64]:
        """Return the rows (n,) of *ids*; LexbenchError, which is *complaint* and the first missing ids, for others."""
        codes = lookup(self.ids, encode(ids))
        missing = [ids[index] for index in np.flatnonzero(codes < 0).tolist()]
        if missing:
            more = f" and {len(missing) - _SHOWN:,} others" if len(missing) > _SHOWN else ""
            raise LexbenchError(f"{complaint} {', '.join(map(repr, missing[:_SHOWN]))}{more}")
        rows: NDArray[np.int64] = self._rows[codes]
        return rows
