"""Postings by term from documents that come one after the other, in bounded memory.

Terms are numbers. What fits into memory is sorted and written out as a run; in the end the runs are merged, as many terms at a
time as fit into memory. The files are numpy arrays, to be mapped into memory, and equal corpora give equal bytes.
"""

import json
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib.format import write_array_header_1_0
from numpy.typing import NDArray

from lexbench.retrievers._bm25_formula import length_classes

_AT_ONCE = 1 << 22  # occurrences sorted, or postings merged, at a time: a few hundred MB
_DOCUMENT_BITS = 32
_COMMON = 1 << 16  # pairs below it, of frequencies up to 255, are counted


class Inverter:
    """Collects documents, then writes their postings into *folder*."""

    def __init__(self, folder: Path, at_once: int = _AT_ONCE) -> None:
        self._folder = folder
        self._at_once = at_once
        self._terms = array("i")  # of the documents since the last run
        self._lengths = array("i")  # likewise
        self._runs: list[Path] = []
        self._classes = bytearray()  # by document, up to the last run
        self._document_frequencies = np.zeros(0, np.int64)  # by term, likewise
        self._pairs = np.zeros(0, np.int64)  # distinct, likewise
        self._nonempty = self._occurrences = 0

    def add(self, terms: Iterable[int]) -> None:
        """Add the next document, given as its terms, each a number, repetitions kept."""
        before = len(self._terms)
        self._terms.extend(terms)
        self._lengths.append(len(self._terms) - before)
        if len(self._terms) >= self._at_once:
            self._write_run()

    def add_block(self, terms: NDArray[np.int32], lengths: NDArray[np.int64]) -> None:
        """Add the next documents, which have *lengths* (documents,) of *terms*, one document after the other."""
        self._terms.frombytes(terms.astype(np.int32, copy=False).tobytes())
        self._lengths.frombytes(lengths.astype(np.int32).tobytes())
        if len(self._terms) >= self._at_once:
            self._write_run()

    def _write_run(self) -> None:
        """Sort what has been collected by term, then document, and write it out with the frequencies."""
        lengths = np.array(self._lengths)
        first = len(self._classes)
        docs = np.repeat(np.arange(first, first + len(lengths)), lengths)
        keys = (np.array(self._terms, np.int64) << _DOCUMENT_BITS) | docs
        keys.sort()
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        frequencies = np.diff(starts, append=len(keys)).astype(np.int32)
        keys = keys[starts]
        self._classes += length_classes(lengths).tobytes()
        self._nonempty += int(np.count_nonzero(lengths))
        self._occurrences += len(docs)
        pairs = self._pairs_of(keys, frequencies)
        common = np.flatnonzero(np.bincount(pairs[pairs < _COMMON]))  # sorting all of them takes ten times as long
        self._pairs = np.union1d(self._pairs, np.concatenate([common, pairs[pairs >= _COMMON]]))
        self._document_frequencies = _sum(self._document_frequencies, np.bincount(keys >> _DOCUMENT_BITS))
        run = self._folder / f"run-{len(self._runs)}"
        run.mkdir()
        np.save(run / "keys.npy", keys)
        np.save(run / "frequencies.npy", frequencies)
        self._runs.append(run)
        self._terms, self._lengths = array("i"), array("i")

    def _pairs_of(self, keys: NDArray[np.int64], frequencies: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return (frequency, length class) of each posting, as one number."""
        classes = np.frombuffer(self._classes, np.uint8)
        pairs: NDArray[np.int64] = (frequencies.astype(np.int64) << 8) | classes[keys & (2**_DOCUMENT_BITS - 1)]
        return pairs

    def finish(self) -> None:
        """Write the index and remove the runs."""
        self._write_run()
        offsets = np.concatenate([[0], np.cumsum(self._document_frequencies)])
        small = np.dtype(np.uint16 if len(self._pairs) <= 1 << 16 else np.uint32)
        with (
            _array(self._folder / "docs.npy", np.dtype(np.int32), offsets[-1]) as docs,
            _array(self._folder / "pairs.npy", small, offsets[-1]) as pairs,
        ):
            for keys, frequencies in self._merged(offsets):
                (keys & (2**_DOCUMENT_BITS - 1)).astype(np.int32).tofile(docs)
                np.searchsorted(self._pairs, self._pairs_of(keys, frequencies)).astype(small).tofile(pairs)
        np.save(self._folder / "offsets.npy", offsets)
        np.save(self._folder / "pair_frequencies.npy", (self._pairs >> 8).astype(np.int32))
        np.save(self._folder / "pair_classes.npy", (self._pairs & 0xFF).astype(np.uint8))
        facts = {"documents": len(self._classes), "nonempty": self._nonempty, "occurrences": self._occurrences}
        (self._folder / "facts.json").write_text(json.dumps(facts) + "\n")
        for run in self._runs:
            for path in run.iterdir():
                path.unlink()
            run.rmdir()

    def _merged(self, offsets: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32]]]:
        """Yield keys and frequencies of all runs in order, those of whole terms at a time."""
        term, terms = 0, len(offsets) - 1
        while term < terms:
            after = max(term + 1, int(np.searchsorted(offsets, offsets[term] + self._at_once, side="right")) - 1)
            parts = [_cut(run, term << _DOCUMENT_BITS, after << _DOCUMENT_BITS) for run in self._runs]
            keys = np.concatenate([part[0] for part in parts])
            order = np.argsort(keys, kind="stable")  # merges: each part is in order
            yield keys[order], np.concatenate([part[1] for part in parts])[order]
            term = after


def _cut(run: Path, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the keys of a run from *first* up to *last*, and their frequencies, still on disk."""
    keys, frequencies = (np.load(run / f"{name}.npy", mmap_mode="r") for name in ("keys", "frequencies"))
    part = slice(*np.searchsorted(keys, [first, last]))
    return keys[part], frequencies[part]


@contextmanager
def _array(path: Path, dtype: np.dtype[Any], size: int) -> Iterator[BinaryIO]:
    """Open a .npy file (size,) to which the values are then appended."""
    with path.open("wb") as file:
        write_array_header_1_0(file, {"descr": dtype.str, "fortran_order": False, "shape": (int(size),)})
        yield file


def _sum(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sum of two arrays, the shorter one filled up with zeros."""
    total = np.zeros(max(len(first), len(second)), np.int64)
    total[: len(first)] = first
    total[: len(second)] += second
    return total
