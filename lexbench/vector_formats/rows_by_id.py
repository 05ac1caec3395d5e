"""Where the vector of each id is in a table: what tables of sparse and of dense vectors have in common."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import LexbenchError
from lexbench.trec.ids import encode, factorize, lookup

_SHOWN = 3  # ids in an error


class RowsById:
    """The rows of a table by the ids that its rows have; of an id that several rows have, the last."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids, codes = factorize(encode(ids))  # (distinct,) sorted, in bytes
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
