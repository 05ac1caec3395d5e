"""Corpora on disk: documents in position order, read as they are asked for.

    texts.bin     the texts, UTF-8, one after another
    offsets.npy   int64 (documents + 1,): text i is texts.bin[offsets[i]:offsets[i + 1]]
    bodies.npy    uint32 (documents,): the character at which the body of text i starts
    ids.npy       bytes (documents,): UTF-8 ids, descending
    corpus.json   counts and the fingerprint

Writing takes the same memory however many documents there are: they go to a spool as they arrive, and are sorted and copied
from there a bounded piece at a time (`_spool`).
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from lexbench.datasets._spool import Rows, Spool
from lexbench.datasets.digests import netstrings, utf8
from lexbench.errors import InvalidFile
from lexbench.types import Document

IDS = ("ids.npy", "corpus.json")  # the files that a run needs, whose documents are positions
_PIECE = 32 << 20  # bytes of text that are held at once while they are brought into order
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
    with TemporaryDirectory(dir=path, prefix="spool") as folder, Spool(Path(folder)) as spool:
        for document in documents:
            spool.add(_checked(document.doc_id), utf8(document.text), document)
        if not spool.count:
            raise InvalidDocument("the corpus has no documents", None)
        facts = _write(spool, path)
    (path / "corpus.json").write_text(json.dumps(facts, indent=1) + "\n")
    return StoredCorpus(path)


def _checked(doc_id: str) -> bytes:
    """Return an id as bytes, if it can stand in a TREC run and in a file whose comments start with '#'."""
    encoded = utf8(doc_id)
    if encoded.split() != [encoded] or b"\0" in encoded or encoded.startswith(b"#"):
        why = "is empty, has white space, or starts with '#': no run file could hold it"
        raise InvalidDocument(f"document id {doc_id!r} {why}", doc_id)
    return encoded


def _write(spool: Spool, folder: Path) -> dict[str, Any]:
    """Write the documents of *spool* in position order; return their counts and the fingerprint."""
    digest, empty, text_bytes = hashlib.sha256(), 0, 0
    parts = spool.parts()
    first = next(parts)  # the width of ids is known from here on
    with ExitStack() as stack:
        ids = stack.enter_context(_column(folder / "ids.npy", first["id"].dtype, spool.count))
        bodies = stack.enter_context(_column(folder / "bodies.npy", np.dtype(np.uint32), spool.count))
        offsets = stack.enter_context(_column(folder / "offsets.npy", np.dtype(np.int64), spool.count + 1))
        texts = stack.enter_context((folder / "texts.bin").open("wb"))
        offsets.write(np.int64(0).tobytes())
        for rows in chain([first], parts):
            _refuse_twins(rows["id"])
            ends = text_bytes + np.cumsum(rows["length"])
            ids.write(rows["id"].tobytes())
            bodies.write(rows["body"].tobytes())
            offsets.write(ends.tobytes())
            for piece in _pieces(rows, ends):
                content = spool.texts(piece)
                texts.write(b"".join(content))
                digest.update(b"".join(map(netstrings, piece["id"].tolist(), content)))
            empty, text_bytes = empty + int((rows["length"] == 0).sum()), int(ends[-1])
    return {
        "schema": 1,
        "documents": spool.count,
        "empty": empty,
        "text_bytes": text_bytes,
        "fingerprint": digest.hexdigest(),
    }


@contextmanager
def _column(file: Path, dtype: np.dtype[Any], count: int) -> Iterator[BinaryIO]:
    """Yield a new file, into which *count* values of an array are to be written: it is the file that `numpy.save` writes."""
    with file.open("wb") as out:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (count,)}
        np.lib.format.write_array_header_1_0(out, header)
        yield out


def _refuse_twins(ids: NDArray[np.bytes_]) -> None:
    twins = np.flatnonzero(ids[1:] == ids[:-1])
    if len(twins):
        doc_id = ids[twins[0]].decode()
        raise InvalidDocument(f"two documents have the id {doc_id!r}", doc_id)


def _pieces(rows: Rows, ends: NDArray[np.int64]) -> Iterator[Rows]:
    """Yield *rows* whose texts fit into memory together; one whose text does not is by itself. *ends*: of texts, in all."""
    begin, before = 0, int(ends[0]) - int(rows["length"][0])
    while begin < len(rows):
        reach = int(np.searchsorted(ends, before + _PIECE, side="right"))
        end = min(max(reach, begin + 1), begin + _PIECE // 256)  # short texts: their objects are what takes memory
        yield rows[begin:end]
        begin, before = end, int(ends[min(end, len(rows)) - 1])
