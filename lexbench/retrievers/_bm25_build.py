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
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import LexbenchError
from lexbench.retrievers._bm25_formula import length_classes

_AT_ONCE = 1 << 22  # occurrences sorted, or postings merged, at a time: a few hundred MB
_DOCUMENT_BITS = 32
_Made = TypeVar("_Made")
LAYOUT = 2  # of the files; goes up when they would be misread


class Submit(Protocol):
    """How work is begun: as `concurrent.futures.Executor.submit`."""

    def __call__(self, work: Callable[..., _Made], /, *args: Any) -> "Future[_Made]":
        """Return what will have what *work* makes of *args*."""
        ...


def here(work: Callable[..., _Made], /, *args: Any) -> "Future[_Made]":
    """Do *work* in this thread, before anything else is."""
    done: Future[_Made] = Future()
    done.set_result(work(*args))
    return done


class _Run(NamedTuple):
    """A sorted run, on disk in *folder*."""

    folder: Path
    classes: bytes  # by document
    nonempty: int  # documents
    occurrences: int
    document_frequencies: NDArray[np.int64]  # by term


class Inverter:
    """Collects documents, then writes their postings into *folder*; *submit* does up to *threads* things beside."""

    def __init__(self, folder: Path, at_once: int = _AT_ONCE, threads: int = 1, submit: Submit = here) -> None:
        self._folder = folder
        self._at_once = at_once
        self._threads, self._submit = threads, submit
        self._terms = array("i")  # of the documents since the last run
        self._lengths = array("i")  # likewise
        self._documents = 0  # in runs
        self._sorting: Future[_Run] | None = None  # the last run
        self._runs: list[Path] = []  # those before, and what they have together
        self._classes = bytearray()
        self._nonempty = self._occurrences = 0
        self._document_frequencies = np.zeros(0, np.int64)

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
        """Have what has been collected sorted and written out, when what was before is."""
        self._take_run()
        folder = self._folder / f"run-{len(self._runs)}"
        terms, lengths = np.array(self._terms), np.array(self._lengths)
        self._sorting = self._submit(_sorted_run, terms, lengths, self._documents, folder)
        self._documents += len(lengths)
        self._terms, self._lengths = array("i"), array("i")

    def _take_run(self) -> None:
        """Wait until the last run is written, and count what it has."""
        if self._sorting:
            run = self._sorting.result()
            self._runs.append(run.folder)
            self._classes += run.classes
            self._nonempty += run.nonempty
            self._occurrences += run.occurrences
            self._document_frequencies = _sum(self._document_frequencies, run.document_frequencies)

    def finish(self) -> None:
        """Write the index and remove the runs. LexbenchError where a document has one term more often than can be stored."""
        from lexbench.retrievers import _bm25_postings as postings  # compiled

        self._write_run()
        self._take_run()
        runs, sizes = self._runs, self._document_frequencies
        lengths = [np.zeros(0, np.uint32)]
        with (self._folder / "postings.bin").open("wb") as file:
            waiting: deque[Future[_Packed]] = deque()
            for part in _parts(sizes, self._at_once):
                if len(waiting) == self._threads:
                    lengths.append(_written(waiting.popleft(), file))
                waiting.append(self._submit(_packed, runs, sizes, part))
            while waiting:
                lengths.append(_written(waiting.popleft(), file))
            np.zeros(postings.PAD, np.uint8).tofile(file)
        used, classes = np.unique(np.frombuffer(self._classes, np.uint8), return_inverse=True)
        arrays = {"sizes": sizes.astype(np.int32), "lengths": np.concatenate(lengths)}
        for name, array_ in (arrays | {"classes": classes.astype(np.uint8), "length_classes": used}).items():
            np.save(self._folder / f"{name}.npy", array_)
        facts = {"layout": LAYOUT, "documents": self._documents}
        facts |= {"nonempty": self._nonempty, "occurrences": self._occurrences}
        (self._folder / "facts.json").write_text(json.dumps(facts) + "\n")
        for run in runs:
            for path in run.iterdir():
                path.unlink()
            run.rmdir()


def _sorted_run(terms: NDArray[np.int32], lengths: NDArray[np.int32], first: int, folder: Path) -> _Run:
    """Sort the *terms* of documents from number *first* on, which have *lengths* of them, and write them with frequencies."""
    keys = terms.astype(np.int64) << _DOCUMENT_BITS
    keys |= np.repeat(np.arange(first, first + len(lengths)), lengths)
    keys.sort()
    starts = np.flatnonzero(np.concatenate([[len(keys) > 0], keys[1:] != keys[:-1]]))
    frequencies = np.diff(starts, append=len(keys)).astype(np.int32)
    keys = keys[starts]
    folder.mkdir()
    np.save(folder / "keys.npy", keys)
    np.save(folder / "frequencies.npy", frequencies)
    classes = length_classes(lengths).tobytes()
    return _Run(folder, classes, int(np.count_nonzero(lengths)), len(terms), np.bincount(keys >> _DOCUMENT_BITS))


def _parts(sizes: NDArray[np.int64], at_once: int) -> Iterator[slice]:
    """Yield the terms in parts of as many postings as fit into memory, given how many each has."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    term = 0
    while term < len(sizes):
        after = max(term + 1, int(np.searchsorted(offsets, offsets[term] + at_once, side="right")) - 1)
        yield slice(term, after)
        term = after


class _Packed(NamedTuple):
    """The postings of some terms, as they are stored."""

    content: NDArray[np.uint8]
    lengths: NDArray[np.uint32]  # (terms,) how many bytes each has


def _packed(runs: list[Path], sizes: NDArray[np.int64], part: slice) -> _Packed:
    """Merge the postings of the terms in *part*. LexbenchError where one has a frequency that cannot be stored."""
    from lexbench.retrievers import _bm25_postings as postings  # compiled

    cuts = [_cut(run, part.start << _DOCUMENT_BITS, part.stop << _DOCUMENT_BITS) for run in runs]
    keys = np.concatenate([cut[0] for cut in cuts])
    order = np.argsort(keys, kind="stable")  # merges: each cut is in order
    frequencies = np.concatenate([cut[1] for cut in cuts])[order]
    if (most := frequencies.max(initial=0)) > postings.MOST:
        raise LexbenchError(f"a document has one term {most:,} times, and bm25 stores {postings.MOST:,} at most")
    sizes = sizes[part]
    packed, taken = np.empty(postings.room(len(keys), len(sizes)), np.uint8), np.empty(len(sizes), np.uint32)
    docs = (keys[order] & (2**_DOCUMENT_BITS - 1)).astype(np.int32)
    return _Packed(packed[: postings.pack(docs, frequencies, sizes, packed, taken)], taken)


def _written(packed: "Future[_Packed]", file: BinaryIO) -> NDArray[np.uint32]:
    """Write what is packed, and return the lengths."""
    content, lengths = packed.result()
    content.tofile(file)
    return lengths


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
