"""PISA's uncompressed collection, written from vectors in memory that grows with a shard, not with the collection.

Sequences of uint32, each after its length: `inv.docs` has [1, documents] and then the positions of every term that occurs,
`inv.freqs` the weights likewise, `inv.sizes` the number of terms of each document. `fwd.termlex` and `fwd.doclex` are lists of
names; a term is named by its number with leading zeros, because PISA wants the names sorted, and a document by its position.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench.engines.kernels.impacts import impacts

_DIGITS = 10
_NAMES = {"documents": "doclex", "terms": "termlex"}


def term_name(term: int) -> str:
    """Return what a term is called in PISA's lexicon."""
    return f"{term:0{_DIGITS}}"


def write(shards: Iterable[sparse.csr_array], path: Path, pisa: Any) -> int:
    """Write the collection of *shards* (n, vocabulary) into *path* with the library *pisa*; return the number of documents.

    Where no document has a term, there is nothing that PISA could index, and nothing is written.
    """
    counts: list[NDArray[np.int64]] = []  # per shard: (vocabulary,) postings of each term
    sizes = [np.empty(0, np.int64)]  # per shard: (n,) terms of each document
    for shard in shards:
        matrix = impacts(shard, "pisa")
        columns = matrix.tocsc()
        np.save(path / f"shard{len(counts)}-docs.npy", columns.indices.astype(np.uint32) + np.uint32(sum(map(len, sizes))))
        np.save(path / f"shard{len(counts)}-freqs.npy", columns.data.astype(np.uint32))
        counts.append(np.diff(columns.indptr).astype(np.int64))
        sizes.append(np.diff(matrix.indptr).astype(np.int64))
    lengths = np.concatenate(sizes)
    totals = np.sum(counts, axis=0) if counts else np.empty(0, np.int64)
    if totals.any():
        _invert(path, "docs", counts, totals, np.array([1, len(lengths)], np.uint32))
        _invert(path, "freqs", counts, totals, np.empty(0, np.uint32))
        np.concatenate([[len(lengths)], lengths]).astype(np.uint32).tofile(path / "inv.sizes")
        (path / "fwd.documents").write_text("".join(f"{i}\n" for i in range(len(lengths))), encoding="ascii")
        (path / "fwd.terms").write_text("".join(f"{term_name(t)}\n" for t in np.flatnonzero(totals).tolist()), encoding="ascii")
        for text, binary in _NAMES.items():
            pisa.build_binlex(str(path / f"fwd.{text}"), str(path / f"fwd.{binary}"))
    for file in path.glob("shard*.npy"):
        file.unlink()
    return len(lengths)


def remove(path: Path) -> None:
    """Remove all that searching a compressed index does not need."""
    for name in ("inv.docs", "inv.freqs", "inv.sizes", "fwd.documents", "fwd.terms"):
        (path / name).unlink(missing_ok=True)


def _invert(
    path: Path, name: str, counts: list[NDArray[np.int64]], totals: NDArray[np.int64], head: NDArray[np.uint32]
) -> None:
    """Write `inv.<name>`: every term's postings of all shards one after another, each list after its length."""
    present = totals > 0
    ends = len(head) + np.cumsum(totals + present)
    out = np.memmap(path / f"inv.{name}", np.uint32, "w+", shape=(int(ends[-1]),))
    out[: len(head)] = head
    free = ends - totals  # where a term's next posting goes
    out[free[present] - 1] = totals[present]
    for number, count in enumerate(counts):
        values = np.load(path / f"shard{number}-{name}.npy")
        starts = np.cumsum(count) - count
        out[np.repeat(free - starts, count) + np.arange(len(values))] = values
        free = free + count
    out.flush()
