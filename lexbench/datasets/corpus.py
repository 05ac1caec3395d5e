"""Corpora on disk: documents in position order, read as they are asked for.

    texts.bin     the texts, UTF-8, one after another
    offsets.npy   int64 (documents + 1,): text i is texts.bin[offsets[i]:offsets[i + 1]]
    bodies.npy    uint32 (documents,): the character at which the body of text i starts
    ids.npy       bytes (documents,): UTF-8 ids, descending
    corpus.json   counts and the fingerprint

Writing needs the ids in memory and nothing else: texts go to a spool as they arrive and are copied from there in position
order, a bounded piece at a time. 8.8 million passages take 0.4 GB.
"""

import hashlib
import json
from array import array
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import pairwise
from mmap import ACCESS_READ, mmap
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from lexbench.datasets.digests import netstrings, utf8
from lexbench.errors import InvalidFile
from lexbench.storage.atomic import reserve
from lexbench.types import Document

IDS = ("ids.npy", "corpus.json")  # the files that a run needs, whose documents are positions
_PIECE = 64 << 20  # bytes of text that are held at once while they are brought into order
_IDS = 1 << 16  # ids that are handled at once
_BLOCK = 2048  # documents that are read at once


class InvalidDocument(InvalidFile):
    """A document cannot be kept; *doc_id* says which, None where there is not one at all."""

    def __init__(self, message: str, doc_id: str | None) -> None:
        super().__init__(message)
        self.doc_id = doc_id


class StoredCorpus:
    """A corpus that *write_corpus* wrote into the folder *path*. It implements `lexbench.types.Corpus`."""

    def __init__(self, path: Path) -> None:
        """Open the folder; arrays are mapped, not read."""
        self.path = path
        facts = json.loads((path / "corpus.json").read_bytes())
        self.fingerprint: str = facts["fingerprint"]  # SHA-256, see `lexbench.datasets.digests`
        self.empty: int = facts["empty"]  # documents without any text
        self.text_bytes: int = facts["text_bytes"]
        self.doc_ids: NDArray[np.bytes_] = np.load(path / "ids.npy", mmap_mode="r")
        self._offsets: NDArray[np.int64] = np.load(path / "offsets.npy", mmap_mode="r")

    @cached_property
    def _bodies(self) -> NDArray[np.uint32]:
        """Where bodies start; older stores, whose runs need the ids alone, do not have it."""
        bodies: NDArray[np.uint32] = np.load(self.path / "bodies.npy", mmap_mode="r")
        return bodies

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.doc_ids)

    def documents(self, start: int = 0, stop: int | None = None) -> Iterator[Document]:
        """Yield the documents at positions *start* up to *stop* (default: the end)."""
        stop = len(self) if stop is None else min(stop, len(self))
        with (self.path / "texts.bin").open("rb") as texts:
            for begin in range(start, stop, _BLOCK):
                end = min(begin + _BLOCK, stop)
                ids = self.doc_ids[begin:end].tolist()
                bounds = self._offsets[begin : end + 1]
                first, *ends = (bounds - bounds[0]).tolist()
                texts.seek(bounds[0])
                block = texts.read(ends[-1])
                bodies = self._bodies[begin:end].tolist()
                for doc_id, left, right, body_at in zip(ids, [first, *ends], ends, bodies, strict=False):
                    yield Document(doc_id.decode(), block[left:right].decode(), body_at)

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process as a path: what is mapped here is mapped there."""
        return open_corpus, (self.path,)

    def text(self, position: int) -> str:
        """Return the text at one position."""
        return next(self.documents(position, position + 1)).text


def open_corpus(path: Path) -> StoredCorpus:
    """Open what *write_corpus* wrote."""
    return StoredCorpus(path)


def write_corpus(documents: Iterable[Document], path: Path) -> StoredCorpus:
    """Write *documents*, in whatever order they come, into the existing folder *path*.

    InvalidDocument names the first id that cannot stand in a TREC file (empty, with white space or NUL, or starting with '#')
    or that occurs twice.
    """
    with TemporaryDirectory(dir=path, prefix="spool") as folder:
        spool = _Spool(documents, Path(folder))
        order = spool.write_ids(path)
        _write_texts(spool, order, path)
    return StoredCorpus(path)


class _Spool:
    """Documents in the order in which they came: texts in a file, ids and lengths in memory."""

    def __init__(self, documents: Iterable[Document], folder: Path) -> None:
        self.folder = folder
        self.width = 1  # bytes of the longest id
        ids, id_ends, text_ends, bodies = bytearray(), array("q", [0]), array("q", [0]), array("I")
        with (folder / "texts.bin").open("wb", buffering=1 << 20) as texts:
            for document in documents:
                doc_id, text = _checked(document.doc_id), utf8(document.text)
                self.width = max(self.width, len(doc_id))
                ids += doc_id
                texts.write(text)
                id_ends.append(len(ids))
                text_ends.append(text_ends[-1] + len(text))
                bodies.append(document.body_at)
        self.bodies = np.array(bodies, np.uint32)
        self._ids = memoryview(ids)
        self._id_ends = id_ends
        self.bounds = np.frombuffer(text_ends, np.int64)  # (documents + 1,)
        if not len(self):
            raise InvalidDocument("the corpus has no documents", None)

    def __len__(self) -> int:
        return len(self._id_ends) - 1

    def write_ids(self, folder: Path) -> NDArray[np.int64]:
        """Write ids.npy and return, by position, the number under which each document came."""
        shape, dtype = (len(self),), f"S{self.width}"
        arrived = open_memmap(self.folder / "ids.npy", "w+", dtype=dtype, shape=shape)
        reserve(self.folder / "ids.npy")
        for begin in range(0, len(self), _IDS):
            ends = self._id_ends[begin : begin + _IDS + 1]
            arrived[begin : begin + _IDS] = [bytes(self._ids[a:b]) for a, b in pairwise(ends)]
        order = np.argsort(arrived, kind="stable")[::-1]
        ids = open_memmap(folder / "ids.npy", "w+", dtype=dtype, shape=shape)
        reserve(folder / "ids.npy")
        for begin in range(0, len(self), _IDS):
            ids[begin : begin + _IDS] = arrived[order[begin : begin + _IDS]]
            _refuse_twins(ids[max(begin - 1, 0) : begin + _IDS])
        ids.flush()
        return order


def _checked(doc_id: str) -> bytes:
    """Return an id as bytes, if it can stand in a TREC run and in a file whose comments start with '#'."""
    encoded = utf8(doc_id)
    if encoded.split() != [encoded] or b"\0" in encoded or encoded.startswith(b"#"):
        why = "is empty, has white space, or starts with '#': no run file could hold it"
        raise InvalidDocument(f"document id {doc_id!r} {why}", doc_id)
    return encoded


def _refuse_twins(ids: NDArray[np.bytes_]) -> None:
    twins = np.flatnonzero(ids[1:] == ids[:-1])
    if len(twins):
        doc_id = ids[twins[0]].decode()
        raise InvalidDocument(f"two documents have the id {doc_id!r}", doc_id)


def _write_texts(spool: _Spool, order: NDArray[np.int64], folder: Path) -> None:
    """Write the texts in position order with their offsets, and the counts and fingerprint, which need the same pass."""
    lengths = np.diff(spool.bounds)[order]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    np.save(folder / "offsets.npy", offsets)
    np.save(folder / "bodies.npy", spool.bodies[order])
    ids = np.load(folder / "ids.npy", mmap_mode="r")
    digest = hashlib.sha256()
    with (folder / "texts.bin").open("wb") as out:
        for begin, end in _pieces(offsets):
            texts = _gather(spool, order[begin:end])
            out.write(b"".join(texts))
            digest.update(b"".join(map(netstrings, ids[begin:end].tolist(), texts)))
    facts = {
        "schema": 1,
        "documents": len(spool),
        "empty": int((lengths == 0).sum()),
        "text_bytes": int(offsets[-1]),
        "fingerprint": digest.hexdigest(),
    }
    (folder / "corpus.json").write_text(json.dumps(facts, indent=1) + "\n")


def _pieces(offsets: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield ranges of positions whose texts fit into memory together; one text that does not is a range of its own."""
    begin, last = 0, len(offsets) - 1
    while begin < last:
        reach = int(np.searchsorted(offsets, offsets[begin] + _PIECE, side="right")) - 1
        end = min(max(reach, begin + 1), begin + _PIECE // 256, last)  # short texts: their objects are what takes memory
        yield begin, end
        begin = end


def _gather(spool: _Spool, numbers: NDArray[np.int64]) -> list[bytes]:
    """Return the texts that came under these *numbers*, in that order, reading the spool from front to back."""
    texts = [b""] * len(numbers)
    if spool.bounds[-1]:  # an empty file cannot be mapped
        with (spool.folder / "texts.bin").open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as spooled:
            inward = np.argsort(numbers)
            first, last = spool.bounds[numbers[inward]], spool.bounds[numbers[inward] + 1]
            for slot, a, b in zip(inward.tolist(), first.tolist(), last.tolist(), strict=True):
                texts[slot] = spooled[a:b]
    return texts
