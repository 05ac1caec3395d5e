"""Document ids as bytes of one width, and as codes into a table of them.

A table is unique and sorted in descending byte order, so the smaller code is the document that trec_eval puts first.
Ids are compared as UTF-8 bytes, like C's strcmp does; this is also the order of their code points. An id that is not UTF-8
is allowed: as text it has half of a surrogate pair for each undecodable byte (PEP 383).
"""

from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import InvalidFile, LexbenchError, shortened

_LONGEST_ID = 1000  # bytes: arrays of ids are as wide as the longest id


def bytes_of(text: str) -> bytes:
    """Return an id as bytes. Raises LexbenchError if it has a surrogate that `text_of` did not make."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        raise LexbenchError(f"the id {text!r} is no text: it has half of a surrogate pair") from None


def text_of(encoded: bytes) -> str:
    """Return an id as text, also if its bytes are not UTF-8; `bytes_of` gives them back."""
    return encoded.decode(errors="surrogateescape")


def id_of(value: Any) -> str:
    """Return an id as text. Places that cannot hold white space in it refuse it later.

    Raises TypeError if it is neither text nor a whole number, and ValueError if no run or qrels file can hold it.
    """
    if not isinstance(value, str):
        if isinstance(value, Integral) and not isinstance(value, bool):  # of Python or NumPy
            return str(int(value))  # qrels write it the same way
        how = "; write it as a text or a whole number" if isinstance(value, float) else ""
        raise TypeError(f"the _id {shortened(repr(value), 80)} is not a string{how}")
    if "\0" in value:
        raise ValueError(f"the id {value!r} has a NUL in it")
    if len(value) > _LONGEST_ID // 4 and len(value.encode(errors="surrogatepass")) > _LONGEST_ID:
        raise ValueError(f"an id of {len(value):,} characters; it may have at most {_LONGEST_ID:,} bytes")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"the _id {value!r} is no text: it has half of a surrogate pair") from None
    return value


def encode(ids: Iterable[str]) -> NDArray[np.bytes_]:
    """Return *ids* (n,) as bytes of one width. Raises LexbenchError if one has a NUL, which numpy would cut off."""
    encoded = list(map(bytes_of, ids))
    if nul := next((name for name in encoded if b"\0" in name), None):
        raise LexbenchError(f"the id {text_of(nul)!r} has a NUL in it, so no file can hold it")
    return np.array(encoded, dtype=np.bytes_)


def factorize(ids: NDArray[np.bytes_]) -> tuple[NDArray[np.bytes_], NDArray[np.int32]]:
    """Return the distinct *ids*, descending, and the code of each id (n,): `table[codes]` gives them back."""
    if not len(ids):
        return ids, np.zeros(0, np.int32)
    # Eight bytes become one number, the first byte highest: sorting numbers is several times faster than sorting strings.
    width = -(-ids.itemsize // 8)
    words = ids.astype(f"S{8 * width}").view(">u8").reshape(-1, width).astype(np.uint64)
    ranks = np.unique(words[:, 0], return_inverse=True)[1]
    for column in range(1, width):
        low = np.unique(words[:, column], return_inverse=True)[1]
        ranks = np.unique(ranks * (int(low.max()) + 1) + low, return_inverse=True)[1]
    last = int(ranks.max())
    table, codes = np.empty((last + 1, width), np.uint64), (last - ranks).astype(np.int32)
    table[codes] = words
    return (table.astype(">u8").view(f"S{8 * width}").ravel().astype(ids.dtype), codes)


def lookup(table: NDArray[np.bytes_], ids: NDArray[np.bytes_]) -> NDArray[np.int64]:
    """Return the code in *table* of each of *ids* (n,), -1 if it is not there."""
    if not len(table) or not len(ids):
        return np.full(len(ids), -1)
    fits = np.strings.str_len(ids) <= table.itemsize  # the cast cuts longer ids, which are not in the table
    short = ids.astype(table.dtype)
    after = np.searchsorted(table[::-1], short, side="right")  # a view: tables can have millions of ids
    codes = len(table) - after
    present = fits & (table[np.minimum(codes, len(table) - 1)] == short)
    return np.where(present, codes, -1)


class RowsById:
    """The row numbers of a table by id. Raises InvalidFile, with *problem* about the repeated id, if two rows have one id.

    *problem* has {} in the place of the id.
    """

    def __init__(self, ids: NDArray[np.bytes_], problem: str) -> None:
        self.ids, codes = factorize(ids)  # (distinct,) descending
        if len(self.ids) < len(ids):
            repeated = text_of(self.ids[np.argmax(np.bincount(codes) > 1)])
            raise InvalidFile(problem.replace("{}", repr(repeated)))
        self._rows = np.empty(len(ids), np.int64)
        self._rows[codes] = np.arange(len(ids))

    def find(self, ids: Iterable[str]) -> NDArray[np.int64]:
        """Return the row of each of *ids* (n,), -1 if there is none."""
        codes = lookup(self.ids, encode(ids))
        return np.where(codes >= 0, np.append(self._rows, -1)[codes], -1)  # the last one is for a table without rows


def check_writable(ids: NDArray[np.bytes_], what: str) -> None:
    """Raise LexbenchError for the first id that would not read back from lines of columns: it has white space or is `#`."""
    for name in ids.tolist():
        if name.split() != [name] or name == b"#":
            raise LexbenchError(f"{what} {text_of(name)!r} cannot be written: it is empty, is '#' or has white space in it")
