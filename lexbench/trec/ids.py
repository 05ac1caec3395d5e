"""Document ids as fixed-width bytes, and as codes into a table of them.

A table is unique and sorted in descending byte order, so that the smaller code is the document that trec_eval puts first.
Ids are compared as UTF-8 bytes, as C's strcmp does; that is also the order of their code points. An id that is not
UTF-8 is as good as another: as text it has half of a surrogate pair for each byte that does not read (PEP 383).
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import LexbenchError

MANY = 1_600_000  # ids, as in a file of that size, for which compiled loops are worth loading


class Factors(NamedTuple):
    """Ids as codes: `table[codes]` gives them back."""

    table: NDArray[np.bytes_]  # (distinct,) descending
    codes: NDArray[np.int32]  # (ids,)


def bytes_of(text: str) -> bytes:
    """Return an id as bytes; LexbenchError where it is no text, nor made of bytes by `text_of`."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        raise LexbenchError(f"the id {text!r} is no text: it has half of a surrogate pair") from None


def text_of(encoded: bytes) -> str:
    """Return an id as text, whatever its bytes are; `bytes_of` gives them back."""
    return encoded.decode(errors="surrogateescape")


def encode(ids: Iterable[str]) -> NDArray[np.bytes_]:
    """Return *ids* (n,) as bytes of one width. LexbenchError for one that has a NUL, which numpy would cut off."""
    encoded = list(map(bytes_of, ids))
    if nul := next((name for name in encoded if b"\0" in name), None):
        raise LexbenchError(f"the id {text_of(nul)!r} has a NUL in it, and so can stand in no file")
    return np.array(encoded, dtype=np.bytes_)


def factorize(ids: NDArray[np.bytes_]) -> Factors:
    """Return the distinct *ids*, descending, and the code of each id (n,)."""
    if not len(ids):
        return Factors(ids, np.zeros(0, np.int32))
    width = -(-ids.itemsize // 8)
    return factorize_words(ids.astype(f"S{8 * width}").view(">u8").reshape(-1, width).astype(np.uint64))


def factorize_words(words: NDArray[np.uint64]) -> Factors:
    """Return the same for ids given as *words* (n, words), eight bytes of each as one number, the first byte highest.

    Numbers are sorted, or counted, which is several times as fast as comparing strings.
    """
    ranks = _ranks(words[:, 0])
    for column in range(1, words.shape[1]):
        low = _ranks(words[:, column])
        ranks = _ranks(ranks * (int(low.max()) + 1) + low)
    if len(words) >= MANY:
        from lexbench.trec import scan

        table, codes = scan.table_of(ranks, words)
    else:
        last = int(ranks.max())
        table, codes = np.empty((last + 1, words.shape[1]), np.uint64), (last - ranks).astype(np.int32)
        table[codes] = words
    used = np.bitwise_or.reduce(table).astype(">u8").tobytes().rstrip(b"\0")  # where any id has a byte
    return Factors(table.astype(">u8").view(f"S{8 * table.shape[1]}").ravel().astype(f"S{max(len(used), 1)}"), codes)


def _ranks(values: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the place of each value among the distinct ones, from 0: `np.unique`'s inverse, without its other results."""
    if len(values) >= MANY:
        from lexbench.trec import scan

        return scan.ranks(values)
    order = np.argsort(values)
    ordered = values[order]
    places = np.empty(len(values), np.int64)
    places[order] = np.cumsum(np.append(False, ordered[1:] != ordered[:-1]))
    return places


def changes(ids: NDArray[np.bytes_]) -> NDArray[np.int64]:
    """Return where in *ids* (n,) one differs from the one before, with the first."""
    if len(ids) >= MANY:
        from lexbench.trec import scan

        return np.flatnonzero(scan.changes(np.ascontiguousarray(ids).view(np.uint8).reshape(len(ids), -1)))
    return np.flatnonzero(np.append(len(ids) > 0, ids[1:] != ids[:-1]))


def lookup(table: NDArray[np.bytes_], ids: NDArray[np.bytes_]) -> NDArray[np.int64]:
    """Return the code in *table* of each of *ids* (n,), -1 where it is not there."""
    if not len(table) or not len(ids):
        return np.full(len(ids), -1)
    fits = np.strings.str_len(ids) <= table.itemsize  # a longer id is not there; casting would cut it to one that may be
    short = ids.astype(table.dtype)
    after = np.searchsorted(table[::-1], short, side="right")  # a view: tables can have millions of ids
    codes = len(table) - after
    present = fits & (table[np.minimum(codes, len(table) - 1)] == short)
    return np.where(present, codes, -1)


def check_writable(ids: NDArray[np.bytes_], what: str) -> None:
    """Raise LexbenchError for the first id that would not read back: white space splits it, # makes the line a comment."""
    for name in ids.tolist():
        if name.split() != [name] or name.startswith(b"#"):
            raise LexbenchError(
                f"{what} {text_of(name)!r} cannot be written: it is empty, has white space in it or begins with '#'"
            )
