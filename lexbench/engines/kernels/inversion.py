"""Postings of many documents, in memory that does not grow with the collection: runs on disk, merged some terms at a time.

A run is a matrix (terms, documents) in CSR form, of consecutive documents. scipy inverts and joins matrices in linear time and
without the interpreter lock.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, hstack


class SortedRun(NamedTuple):
    """A run: the three arrays of its matrix, in files of the folder *path*."""

    path: Path
    terms: int
    documents: int
    dtype: "np.dtype[Any]"  # of data; indices and indptr are int32


def write_run(path: Path, postings: csr_array) -> SortedRun:
    """Write *postings* (terms, documents) as a run into the new folder *path*."""
    path.mkdir()
    postings.data.tofile(path / "data")  # no .npy: reading its header takes longer than reading a small part of the array
    for name in ("indices", "indptr"):
        getattr(postings, name).astype(np.int32, copy=False).tofile(path / name)
    return SortedRun(path, *postings.shape, postings.dtype)


def merge_runs(runs: Sequence[SortedRun], terms: slice) -> csr_array:
    """Return the postings (terms, documents) of some *terms* in *runs*, which are in the order of documents."""
    merged: csr_array = hstack([_read(run, terms) for run in runs], format="csr")
    return merged


def _read(run: SortedRun, terms: slice) -> csr_array:
    """Return the postings of some *terms* in one run, which may end before the last of them."""
    start, stop = min(terms.start, run.terms), min(terms.stop, run.terms)
    ends = np.fromfile(run.path / "indptr", np.int32, stop - start + 1, offset=start * 4)
    ends = np.append(ends, np.full(terms.stop - terms.start - (stop - start), ends[-1]))
    count, first = ends[-1] - ends[0], int(ends[0])
    indices = np.fromfile(run.path / "indices", np.int32, count, offset=first * 4)
    data = np.fromfile(run.path / "data", run.dtype, count, offset=first * run.dtype.itemsize)
    return csr_array((data, indices, ends - first), (len(ends) - 1, run.documents))
