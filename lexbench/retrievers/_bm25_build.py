"""Postings by term from documents that come one after the other, in bounded memory.

Terms are numbers. What fits into memory is sorted and written out as a run; in the end the runs are merged, as many terms at a
time as fit into memory. Equal corpora give equal bytes, in these files:

    facts.json          layout, documents, nonempty documents, occurrences of terms
    postings.bin        term by term, see _bm25_postings, and PAD more bytes
    sizes.npy           int32 (terms,): how many postings a term has
    lengths.npy         uint32 (terms,): how many bytes they take
    classes.npy         uint8 (documents,): which of length_classes.npy a document's length is in
    length_classes.npy  uint8: those that there are, see _bm25_formula
"""

import json
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import LexbenchError
from lexbench.retrievers._bm25_formula import length_classes

_AT_ONCE = 1 << 22  # occurrences sorted, or postings merged, at a time: a few hundred MB
_DOCUMENT_BITS = 32
LAYOUT = 2  # of the files; goes up when they would be misread


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
        self._document_frequencies = _sum(self._document_frequencies, np.bincount(keys >> _DOCUMENT_BITS))
        run = self._folder / f"run-{len(self._runs)}"
        run.mkdir()
        np.save(run / "keys.npy", keys)
        np.save(run / "frequencies.npy", frequencies)
        self._runs.append(run)
        self._terms, self._lengths = array("i"), array("i")

    def finish(self) -> None:
        """Write the index and remove the runs. LexbenchError where a document has one term more often than can be stored."""
        from lexbench.retrievers import _bm25_postings as postings  # compiled

        self._write_run()
        lengths = [np.zeros(0, np.uint32)]
        with (self._folder / "postings.bin").open("wb") as file:
            for keys, frequencies, sizes in self._merged():
                if (most := frequencies.max(initial=0)) > postings.MOST:
                    raise LexbenchError(f"a document has one term {most:,} times, and bm25 stores {postings.MOST:,} at most")
                packed, taken = np.empty(postings.room(len(keys), len(sizes)), np.uint8), np.empty(len(sizes), np.uint32)
                docs = (keys & (2**_DOCUMENT_BITS - 1)).astype(np.int32)
                packed[: postings.pack(docs, frequencies, sizes, packed, taken)].tofile(file)
                lengths.append(taken)
            np.zeros(postings.PAD, np.uint8).tofile(file)
        used, classes = np.unique(np.frombuffer(self._classes, np.uint8), return_inverse=True)
        arrays = {"sizes": self._document_frequencies.astype(np.int32), "lengths": np.concatenate(lengths)}
        for name, array_ in (arrays | {"classes": classes.astype(np.uint8), "length_classes": used}).items():
            np.save(self._folder / f"{name}.npy", array_)
        facts = {"layout": LAYOUT, "documents": len(self._classes)}
        facts |= {"nonempty": self._nonempty, "occurrences": self._occurrences}
        (self._folder / "facts.json").write_text(json.dumps(facts) + "\n")
        for run in self._runs:
            for path in run.iterdir():
                path.unlink()
            run.rmdir()

    def _merged(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]]]:
        """Yield keys and frequencies of all runs in order, those of whole terms at a time, and how many each term has."""
        offsets = np.concatenate([[0], np.cumsum(self._document_frequencies)])
        term, terms = 0, len(offsets) - 1
        while term < terms:
            after = max(term + 1, int(np.searchsorted(offsets, offsets[term] + self._at_once, side="right")) - 1)
            parts = [_cut(run, term << _DOCUMENT_BITS, after << _DOCUMENT_BITS) for run in self._runs]
            keys = np.concatenate([part[0] for part in parts])
            order = np.argsort(keys, kind="stable")  # merges: each part is in order
            yield keys[order], np.concatenate([part[1] for part in parts])[order], self._document_frequencies[term:after]
            term = after


def _cut(run: Path, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the keys of a run from *first* up to *last*, and their frequencies, still on disk."""
    keys, frequencies = (np.load(run / f"{name}.npy", mmap_mode="r") for name in ("keys", "frequencies"))
    part = slice(*np.searchsorted(keys, [first, last]))
    return keys[part], frequencies[part]


def _sum(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the sum of two arrays, the shorter one filled up with zeros."""
    total = np.zeros(max(len(first), len(second)), np.int64)
    total[: len(first)] = first
    total[: len(second)] += second
    return total
