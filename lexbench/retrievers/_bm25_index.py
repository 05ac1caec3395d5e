"""The index of `bm25`: its files, how documents are turned into them in bounded memory, and how postings are packed.

`bm25` writes indexes with `IndexWriter`, and `_bm25_search` reads the postings. Equal corpora give equal bytes:

    facts.json          layout, documents, nonempty documents, occurrences of terms
    postings.bin        the postings of each term, one term after the other, and PADDING more bytes
    sizes.npy           int32 (terms,): number of postings of each term
    lengths.npy         uint32 (terms,): bytes of the postings of each term
    classes.npy         uint8 (documents,): index into length_classes.npy
    length_classes.npy  uint8: the length classes that occur, ascending; see `length_classes`

The postings of a term are cut into blocks of BLOCK; the last block may have fewer. A block is

    one byte    bits of a gap
    one byte    bits of a frequency
    four bytes  position of its last document; only in a block of BLOCK postings, so that search can skip it
    codes       (gap - 1) << (bits of a frequency) | (frequency - 1) for each posting, packed without padding from the lowest
                bit of each byte upwards; the block ends on a whole byte

A gap is the distance from the position of the previous posting, or from -1. A block uses as many bits as its largest values
need, so a posting takes one to two bytes, and a term of one document at most six. The lists of `impact` have a byte for each
window of documents, which would cost too much here: most words of a vocabulary are rare.
"""

import json
from array import array
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from itertools import islice
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types
from numpy.typing import NDArray
from scipy.sparse import csr_array

from lexbench.arrays.vectors import offsets_of, pieces
from lexbench.compiling.loops import njit
from lexbench.engines.kernels.inversion import SortedRun, merge_runs, write_run
from lexbench.engines.kernels.llvm import intrinsic
from lexbench.errors import LexbenchError

BLOCK = 128  # postings
PADDING = 8  # bytes behind the last posting, so that search can read eight bytes at a time
LARGEST_FREQUENCY = 1 << 26  # with a gap of 31 bits it fits in eight bytes, at whichever bit it starts
_HEADER, _LAST = 2, 4  # bytes
_RUN = 1 << 22  # occurrences sorted, or postings merged, at a time: a few hundred MB

Submit: TypeAlias = Callable[..., "Future[Any]"]  # starts a function with its arguments, like Executor.submit


def run_now(work: Callable[..., Any], /, *args: Any) -> "Future[Any]":
    """Run *work* in this thread and return its finished future: the `Submit` to use with one thread."""
    done: Future[Any] = Future()
    done.set_result(work(*args))
    return done


# ---- lengths of documents --------------------------------------------------------------------------------------------------

_EXACT = 24
_MANTISSA_BITS = 3  # after a leading one, which is not stored


def _shortest(length_class: int) -> int:
    """Return the shortest length of a class, which stands for all lengths in it."""
    exponent, mantissa = divmod(max(length_class - _EXACT, 0), 1 << _MANTISSA_BITS)
    if not exponent:
        return length_class
    return _EXACT + ((mantissa | 1 << _MANTISSA_BITS) << (exponent - 1))


LENGTHS = np.array([_shortest(length_class) for length_class in range(256)], np.int64)  # by class, ascending


def length_classes(lengths: NDArray[np.integer]) -> NDArray[np.uint8]:
    """Return the class (n,) of each document length (n,), in index terms.

    Lucene keeps one byte per document: lengths up to 40 exactly, then four significant bits of what exceeds 24
    (`org.apache.lucene.util.SmallFloat.intToByte4`).
    """
    return (np.searchsorted(LENGTHS, lengths, side="right") - 1).astype(np.uint8)


# ---- building --------------------------------------------------------------------------------------------------------------


class _Part(NamedTuple):
    """Consecutive documents."""

    run: SortedRun  # their postings, with frequencies
    classes: bytes  # length class of each document
    nonempty: int  # documents
    occurrences: int
    sizes: NDArray[np.int64]  # (terms,) postings


class IndexWriter:
    """Collects the terms of documents, given as numbers, and writes their index into *folder*.

    Occurrences are sorted in memory and written as a run whenever *run* of them have come; `finish` merges the runs, as many
    terms at a time as fit in memory. *submit* starts up to *threads* of these jobs at a time.
    """

    def __init__(self, folder: Path, run: int = _RUN, threads: int = 1, submit: Submit = run_now) -> None:
        self._folder, self._run, self._threads, self._submit = folder, run, threads, submit
        self._terms, self._lengths = array("i"), array("i")  # of the documents since the last run
        self._sorting: Future[_Part] | None = None  # the run that is being written
        self._runs: list[SortedRun] = []  # the runs before it, and the sums over them:
        self._classes = bytearray()
        self._nonempty = self._occurrences = 0
        self._sizes = np.zeros(0, np.int64)  # (terms,) postings

    def add(self, terms: NDArray[np.int32], lengths: NDArray[np.int64]) -> None:
        """Add the next documents: the numbers of their *terms* with repetitions, joined, and their *lengths* (documents,)."""
        self._terms.frombytes(terms.astype(np.int32, copy=False).tobytes())
        self._lengths.frombytes(lengths.astype(np.int32).tobytes())
        if len(self._terms) >= self._run:
            self._start_run()

    def _start_run(self) -> None:
        """Start to sort and write the collected terms, after the previous run is written."""
        self._end_run()
        folder = self._folder / f"run-{len(self._runs)}"
        terms, lengths = np.array(self._terms), np.array(self._lengths)
        self._sorting = self._submit(_sorted_run, terms, lengths, folder)
        self._terms, self._lengths = array("i"), array("i")

    def _end_run(self) -> None:
        """Wait until the current run is written, and add up its numbers."""
        if self._sorting:
            part = self._sorting.result()
            self._runs.append(part.run)
            self._classes += part.classes
            self._nonempty += part.nonempty
            self._occurrences += part.occurrences
            self._sizes = np.pad(self._sizes, (0, max(0, len(part.sizes) - len(self._sizes))))
            self._sizes[: len(part.sizes)] += part.sizes

    def finish(self, layout: int) -> None:
        """Write the index, with *layout* as the version of its layout, and remove the runs.

        Raises LexbenchError if a document has one term more often than LARGEST_FREQUENCY.
        """
        self._start_run()
        self._end_run()
        lengths = [np.zeros(0, np.uint32)]
        with (self._folder / "postings.bin").open("wb") as file:
            waiting: deque[Future[tuple[NDArray[np.uint8], NDArray[np.uint32]]]] = deque()
            slices = pieces(offsets_of(self._sizes), self._run)
            while True:  # slices are packed at the same time, and written in order
                for terms in islice(slices, self._threads - len(waiting)):
                    waiting.append(self._submit(_merged, self._runs, self._sizes, terms))
                if not waiting:
                    break
                content, sizes = waiting.popleft().result()
                content.tofile(file)
                lengths.append(sizes)
            np.zeros(PADDING, np.uint8).tofile(file)
        used, classes = np.unique(np.frombuffer(self._classes, np.uint8), return_inverse=True)
        np.save(self._folder / "sizes.npy", self._sizes.astype(np.int32))
        np.save(self._folder / "lengths.npy", np.concatenate(lengths))
        np.save(self._folder / "classes.npy", classes.astype(np.uint8))
        np.save(self._folder / "length_classes.npy", used)
        facts = {"layout": layout, "documents": len(self._classes)}
        facts |= {"nonempty": self._nonempty, "occurrences": self._occurrences}
        (self._folder / "facts.json").write_text(json.dumps(facts) + "\n")
        for run in self._runs:
            rmtree(run.path)


def _sorted_run(terms: NDArray[np.int32], lengths: NDArray[np.int32], folder: Path) -> _Part:
    """Sort and write the *terms* of documents that have *lengths* (documents,) of them."""
    docs = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    shape = int(terms.max(initial=-1)) + 1, len(lengths)
    postings = csr_array((np.ones(len(terms), np.int32), (terms, docs)), shape)
    postings.sum_duplicates()  # newer versions of scipy have done it; a frequency is how often a term is repeated
    run, classes = write_run(folder, postings), length_classes(lengths).tobytes()
    return _Part(run, classes, int(np.count_nonzero(lengths)), len(terms), np.diff(postings.indptr))


def _merged(runs: list[SortedRun], sizes: NDArray[np.int64], terms: slice) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    """Return the merged and packed postings of some *terms*, and the bytes of each (terms,). Raises errors like `finish`."""
    postings = merge_runs(runs, terms)
    if (most := postings.data.max(initial=0)) > LARGEST_FREQUENCY:
        raise LexbenchError(f"a document has one term {most:,} times, and bm25 stores {LARGEST_FREQUENCY:,} at most")
    sizes = sizes[terms]
    packed, lengths = np.empty(room(postings.nnz, len(sizes)), np.uint8), np.empty(len(sizes), np.uint32)
    return packed[: pack(postings.indices, postings.data, sizes, packed, lengths)], lengths


# ---- packing ---------------------------------------------------------------------------------------------------------------


def room(postings: int, terms: int) -> int:
    """Return the most bytes that so many *postings* of so many *terms* can take."""
    return 8 * postings + (_HEADER + _LAST) * (postings // BLOCK + terms)


@njit(nogil=True, cache=True)
def pack(docs, frequencies, sizes, packed, lengths):  # type: ignore[no-untyped-def]
    """Pack the postings of some terms into *packed*, uint8 of at least `room` bytes; return the end.

    *docs* and *frequencies* (postings,) of all terms ascend by document within each term. *sizes* (terms,) has
    the number of postings per term. *lengths* (terms,) is filled with the number of bytes per term.
    """
    first = at = np.int64(0)  # np.int64 and not a plain 0: numba would compile all callees again for another integer type
    for term in range(len(sizes)):
        begin, stop, last = at, first + sizes[term], np.int64(-1)
        while first < stop:
            count = min(BLOCK, stop - first)
            at = _pack_block(docs[first : first + count], frequencies[first : first + count], last, packed, at)
            first += count
            last = np.int64(docs[first - 1])
        lengths[term] = at - begin
    return at


@njit(nogil=True, cache=True)
def _pack_block(docs, frequencies, last, packed, at):  # type: ignore[no-untyped-def]
    """Pack one block, which follows the document *last*, into *packed* from *at* on; return its end."""
    # The highest bit that any gap or frequency has decides how many bits all of them get.
    gaps, counts, before = np.int64(0), np.int64(0), last
    for i in range(len(docs)):  # OR instead of the maximum: only the highest bit matters
        gaps |= np.int64(docs[i]) - before - 1
        counts |= np.int64(frequencies[i]) - 1
        before = np.int64(docs[i])
    gap_bits, count_bits = _bits(gaps), _bits(counts)
    packed[at], packed[at + 1] = gap_bits, count_bits
    at += _HEADER
    if len(docs) == BLOCK:
        for i in range(_LAST):
            packed[at + i] = before >> 8 * i & 255
        at += _LAST
    waiting, ready = np.uint64(0), 0  # bits that do not fill a byte yet
    for i in range(len(docs)):
        code = (np.int64(docs[i]) - last - 1) << count_bits | (np.int64(frequencies[i]) - 1)
        last = np.int64(docs[i])
        waiting |= np.uint64(code) << np.uint64(ready)
        ready += gap_bits + count_bits
        while ready >= 8:  # noqa: PLR2004 - bits of a byte
            packed[at] = waiting & np.uint64(255)
            waiting >>= np.uint64(8)
            ready -= 8
            at += 1
    if ready:
        packed[at] = waiting & np.uint64(255)
        at += 1
    return at


@njit(nogil=True, cache=True)
def _bits(number):  # type: ignore[no-untyped-def]
    """Return how many bits *number* needs."""
    bits = 0
    while number >> bits:
        bits += 1
    return bits


# ---- unpacking -------------------------------------------------------------------------------------------------------------


@intrinsic
def word_at(_: Any, address: Any) -> Any:  # noqa: ARG001 - numba counts the arguments
    """Return the eight bytes at *address* as a little-endian uint64, unchecked; numba would count references to an array."""

    def code(_: Any, builder: Any, __: Any, args: Any) -> Any:
        word = builder.load(builder.inttoptr(args[0], ir.PointerType(ir.IntType(64))))
        word.align = 1
        return word

    return types.uint64(types.int64), code


@njit(nogil=True, cache=True)
def unpack(packed, at, count, last, docs, frequencies):  # type: ignore[no-untyped-def]
    """Unpack the block of *count* postings at *at*, which follows the document *last*, into two int32 (BLOCK,).

    *docs* gets positions, *frequencies* gets frequencies less 1. Return the end of the block and its bits of a frequency.
    """
    gap_bits, count_bits = np.int64(packed[at]), np.int64(packed[at + 1])
    at += _HEADER + (_LAST if count == BLOCK else 0)
    bits, address = gap_bits + count_bits, packed.ctypes.data + at
    gap_mask, count_mask = (np.int64(1) << gap_bits) - 1, (np.int64(1) << count_bits) - 1
    for i in range(count):
        # One load of eight bytes has the whole code, wherever it starts: a code and its offset take at most 64 bits.
        code = np.int64(word_at(address + (i * bits >> 3)) >> np.uint64(i * bits & 7))
        docs[i] = code >> count_bits & gap_mask
        frequencies[i] = code & count_mask
    for i in range(count):  # a separate loop: in the first one no step has to wait for the step before
        last += docs[i] + 1
        docs[i] = last
    return at + (count * bits + 7 >> 3), count_bits


@njit(nogil=True, cache=True)
def skip(packed, at):  # type: ignore[no-untyped-def]
    """Return the end of the block of BLOCK postings at *at*, and the position of its last document."""
    last = np.int64(word_at(packed.ctypes.data + at + _HEADER) & np.uint64(0xFFFFFFFF))
    bits = np.int64(packed[at]) + np.int64(packed[at + 1])
    return at + _HEADER + _LAST + (BLOCK * bits >> 3), last


@njit(nogil=True, cache=True)
def codes_at(packed, at):  # type: ignore[no-untyped-def]
    """Return the address of the codes of the block of BLOCK postings at *at*."""
    return packed.ctypes.data + at + _HEADER + _LAST
