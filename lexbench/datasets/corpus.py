"""Corpora on disk: documents in position order, read on demand.

    texts.bin     the texts, UTF-8, one after another
    offsets.npy   int64 (documents + 1,): text i is texts.bin[offsets[i]:offsets[i + 1]]
    bodies.npy    uint32 (documents,): the character at which the body of text i starts
    ids.npy       bytes (documents,): UTF-8 ids, descending
    corpus.json   counts and the fingerprint

Writing needs little memory for any number of documents: they are sorted in runs of limited size, which are merged from a
temporary file.
"""

import hashlib
import heapq
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from struct import pack
from tempfile import TemporaryFile
from typing import IO, Any, BinaryIO

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench.datasets.digests import netstrings
from lexbench.errors import InvalidFile
from lexbench.storage.reading import utf8
from lexbench.types import Document

IDS = ("ids.npy", "corpus.json")  # the files that a stored run needs, because its documents are positions in the corpus
_READ_AT_ONCE = 2048  # documents
_RUN = 48 << 20  # bytes of documents that are in memory at once while they are sorted
_BLOCK = 1 << 16  # bytes of each run that are in memory at once while runs are merged
_OVERHEAD = 200  # bytes of the Python objects of a document

_Row = tuple[bytes, bytes, int]  # id, text, and the character at which the body starts


class InvalidDocument(InvalidFile):
    """A document cannot be stored. *doc_id* is its id, or None if there is no document at all."""

    def __init__(self, message: str, doc_id: str | None) -> None:
        super().__init__(message)
        self.doc_id = doc_id


class StoredCorpus:
    """A corpus that `write_corpus` wrote into the folder *path*. It implements `lexbench.types.Corpus`."""

    def __init__(self, path: Path) -> None:
        """Open the folder; arrays are mapped, not read."""
        self.path = path
        facts = json.loads((path / "corpus.json").read_bytes())
        self.fingerprint: str = facts["fingerprint"]  # SHA-256, see `lexbench.datasets.digests`
        self.empty: int = facts["empty"]  # documents without any text
        self.text_bytes: int = facts["text_bytes"]
        self.doc_ids: NDArray[np.bytes_] = np.load(path / "ids.npy", mmap_mode="r")

    @cached_property
    def _places(self) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:  # not in __init__: a stored run needs ids only
        return np.load(self.path / "offsets.npy", mmap_mode="r"), np.load(self.path / "bodies.npy", mmap_mode="r")

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.doc_ids)

    def sizes(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the bytes of the texts at positions *start* up to *stop*."""
        return np.diff(self._places[0][start : stop + 1])

    def documents(self, start: int = 0, stop: int | None = None) -> Iterator[Document]:
        """Yield the documents at positions *start* up to *stop* (default: the end)."""
        stop = len(self) if stop is None else min(stop, len(self))
        offsets, body_starts = self._places
        with (self.path / "texts.bin").open("rb") as texts:
            for begin in range(start, stop, _READ_AT_ONCE):
                end = min(begin + _READ_AT_ONCE, stop)
                ids = self.doc_ids[begin:end].tolist()
                bounds = offsets[begin : end + 1]
                first, *ends = (bounds - bounds[0]).tolist()
                texts.seek(bounds[0])
                block = texts.read(ends[-1])
                bodies = body_starts[begin:end].tolist()
                for doc_id, left, right, body_at in zip(ids, [first, *ends], ends, bodies, strict=False):
                    yield Document(doc_id.decode(), block[left:right].decode(), body_at)

    def digest(self) -> str:
        """Return the SHA-256 of the stored documents, which reads all of them; `fingerprint` is that of the written ones."""
        found = hashlib.sha256()
        for document in self.documents():
            found.update(netstrings(document.doc_id.encode(), document.text.encode()))
        return found.hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path only; another process maps the same files."""
        return StoredCorpus, (self.path,)


def write_corpus(documents: Iterable[Document], path: Path) -> StoredCorpus:
    """Write *documents*, in any order, into the existing folder *path*.

    Raises InvalidDocument for the first id that is repeated or that no run file can hold: empty, with a NUL, a tab or a line
    end, or with blanks around it.
    """
    with TemporaryFile(dir=path) as file:
        spool = _sorted_runs(documents, file)
        if not spool.count:
            raise InvalidDocument("the corpus has no documents", None)
        facts = _write(spool, path)
    (path / "corpus.json").write_text(json.dumps(facts, indent=1) + "\n")
    return StoredCorpus(path)


def _write(spool: "_Spool", folder: Path) -> dict[str, Any]:
    """Write the documents of *spool* in position order. Return their counts and the fingerprint."""
    digest, empty, text_bytes, before = hashlib.sha256(), 0, 0, b""
    with ExitStack() as stack:
        ids = stack.enter_context(_column(folder / "ids.npy", f"S{spool.width}", spool.count))
        bodies = stack.enter_context(_column(folder / "bodies.npy", "<u4", spool.count))
        offsets = stack.enter_context(_column(folder / "offsets.npy", "<i8", spool.count + 1))
        texts = stack.enter_context((folder / "texts.bin").open("wb"))
        offsets.write(pack("<q", 0))
        for doc_id, text, body_at in heapq.merge(*map(spool.read, spool.runs), reverse=True):
            if doc_id == before:
                raise InvalidDocument(f"two documents have the id {doc_id.decode()!r}", doc_id.decode())
            before = doc_id
            ids.write(doc_id.ljust(spool.width, b"\0"))
            bodies.write(pack("<I", body_at))
            texts.write(text)
            text_bytes += len(text)
            offsets.write(pack("<q", text_bytes))
            digest.update(netstrings(doc_id, text))
            empty += not text
    return {"schema": 1, "documents": spool.count, "empty": empty, "text_bytes": text_bytes, "fingerprint": digest.hexdigest()}


@contextmanager
def _column(file: Path, dtype: str, count: int) -> Iterator[BinaryIO]:
    """Open a new file for *count* values of an array: the bytes are those of `numpy.save`, written piece by piece."""
    with file.open("wb") as out:
        header = {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": (count,)}
        np.lib.format.write_array_header_1_0(out, header)
        yield out


@dataclass(frozen=True)
class _Spool:
    """Documents in a temporary file, in runs that are sorted by descending id."""

    file: IO[bytes]
    runs: list[list[tuple[int, int]]]  # the blocks of each run: their start and size
    count: int  # documents
    width: int  # bytes of the longest id

    def read(self, blocks: Iterable[tuple[int, int]]) -> Iterator[_Row]:
        """Yield the documents of a run."""
        for start, size in blocks:
            self.file.seek(start)
            yield from msgspec.msgpack.decode(self.file.read(size), type=list[_Row])


def _sorted_runs(documents: Iterable[Document], file: IO[bytes]) -> _Spool:
    """Write *documents* into *file* in sorted runs."""
    runs, count, width = [], 0, 1
    for run in _unsorted_runs(documents):
        run.sort(reverse=True)
        count += len(run)
        width = max(width, *(len(doc_id) for doc_id, _, _ in run))
        per_block = max(1, len(run) * _BLOCK // sum(len(text) + _OVERHEAD for _, text, _ in run))
        blocks = []
        for first in range(0, len(run), per_block):
            start = file.tell()
            blocks.append((start, file.write(msgspec.msgpack.encode(run[first : first + per_block]))))
        runs.append(blocks)
    return _Spool(file, runs, count, width)


def _unsorted_runs(documents: Iterable[Document]) -> Iterator[list[_Row]]:
    """Yield *documents* in lists that fit into memory. Raises InvalidDocument for an id that no run file can hold."""
    run: list[_Row] = []
    size = 0
    for document in documents:
        doc_id, text = utf8(document.doc_id), utf8(document.text)
        if not doc_id or doc_id != doc_id.strip() or any(code < ord(" ") for code in doc_id):
            why = "is empty, or has a tab, a line end or blanks around it: no run file could hold it; replace these, e.g. by _"
            raise InvalidDocument(f"document id {document.doc_id!r} {why}", document.doc_id)
        run.append((doc_id, text, document.body_at))
        size += len(text) + _OVERHEAD
        if size >= _RUN:
            yield run
            run, size = [], 0
    if run:
        yield run
