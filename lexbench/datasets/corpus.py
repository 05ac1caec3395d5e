"""Corpora on disk: documents in position order, read on demand.

    texts.bin     the texts, UTF-8, one after another
    offsets.npy   int64 (documents + 1,): text i is texts.bin[offsets[i]:offsets[i + 1]]
    bodies.npy    uint32 (documents,): the character at which the body of text i starts
    ids.npy       bytes (documents,): UTF-8 ids, descending
    corpus.json   counts and the fingerprint

Writing needs the same memory for any number of documents. They are first written to a spool as they arrive, then sorted and
copied in pieces of limited size.
"""

import hashlib
import json
from array import array
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lexbench.datasets.digests import netstrings, utf8
from lexbench.errors import InvalidFile
from lexbench.types import Document

IDS = ("ids.npy", "corpus.json")  # the files that a run needs, because its documents are positions
_READ_AT_ONCE = 2048  # documents
_PIECE = 32 << 20  # bytes of text that are in memory at once while they are sorted
_SORTED_AT_ONCE = 1 << 18  # documents: 11 MB with ids of 20 bytes; 138 million documents are 528 runs
_SAMPLES = 256  # ids per run at which parts are cut: no part is larger than a run plus a 256th of all documents

_Rows = NDArray[np.void]  # with the fields of `_row_type`


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
        self._offsets: NDArray[np.int64] = np.load(path / "offsets.npy", mmap_mode="r")

    @cached_property
    def _bodies(self) -> NDArray[np.uint32]:
        bodies: NDArray[np.uint32] = np.load(self.path / "bodies.npy", mmap_mode="r")
        return bodies

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self.doc_ids)

    def documents(self, start: int = 0, stop: int | None = None) -> Iterator[Document]:
        """Yield the documents at positions *start* up to *stop* (default: the end)."""
        stop = len(self) if stop is None else min(stop, len(self))
        with (self.path / "texts.bin").open("rb") as texts:
            for begin in range(start, stop, _READ_AT_ONCE):
                end = min(begin + _READ_AT_ONCE, stop)
                ids = self.doc_ids[begin:end].tolist()
                bounds = self._offsets[begin : end + 1]
                first, *ends = (bounds - bounds[0]).tolist()
                texts.seek(bounds[0])
                block = texts.read(ends[-1])
                bodies = self._bodies[begin:end].tolist()
                for doc_id, left, right, body_at in zip(ids, [first, *ends], ends, bodies, strict=False):
                    yield Document(doc_id.decode(), block[left:right].decode(), body_at)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path only; another process maps the same files."""
        return open_corpus, (self.path,)

    def text(self, position: int) -> str:
        """Return the text at one position."""
        return next(self.documents(position, position + 1)).text


def open_corpus(path: Path) -> StoredCorpus:
    """Open a corpus that `write_corpus` wrote."""
    return StoredCorpus(path)


def write_corpus(documents: Iterable[Document], path: Path) -> StoredCorpus:
    """Write *documents*, in any order, into the existing folder *path*.

    Raises InvalidDocument for the first id that is repeated or cannot be written to a TREC file: empty, with white space or
    NUL, or starting with `#`.
    """
    with TemporaryDirectory(dir=path, prefix="spool") as folder, _Spool(Path(folder)) as spool:
        for document in documents:
            spool.add(_checked(document.doc_id), utf8(document.text), document.body_at)
        if not spool.count:
            raise InvalidDocument("the corpus has no documents", None)
        facts = _write(spool, path)
    (path / "corpus.json").write_text(json.dumps(facts, indent=1) + "\n")
    return StoredCorpus(path)


def _checked(doc_id: str) -> bytes:
    """Return an id as bytes if a TREC run, and a file whose comments start with `#`, can hold it."""
    encoded = utf8(doc_id)
    if encoded.split() != [encoded] or b"\0" in encoded or encoded.startswith(b"#"):
        why = "is empty, has white space, or starts with '#': no run file could hold it"
        raise InvalidDocument(f"document id {doc_id!r} {why}", doc_id)
    return encoded


def _write(spool: "_Spool", folder: Path) -> dict[str, Any]:
    """Write the documents of *spool* in position order. Return their counts and the fingerprint."""
    digest, empty, text_bytes = hashlib.sha256(), 0, 0
    parts = spool.parts()
    first = next(parts)  # now the width of ids is known
    with ExitStack() as stack:
        ids = stack.enter_context(_column(folder / "ids.npy", first["id"].dtype, spool.count))
        bodies = stack.enter_context(_column(folder / "bodies.npy", np.dtype(np.uint32), spool.count))
        offsets = stack.enter_context(_column(folder / "offsets.npy", np.dtype(np.int64), spool.count + 1))
        texts = stack.enter_context((folder / "texts.bin").open("wb"))
        offsets.write(np.int64(0).tobytes())
        for rows in chain([first], parts):
            _refuse_repeated(rows["id"])
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
    """Open a new file for *count* values of an array: the bytes are those of `numpy.save`, written piece by piece."""
    with file.open("wb") as out:
        header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (count,)}
        np.lib.format.write_array_header_1_0(out, header)
        yield out


def _refuse_repeated(ids: NDArray[np.bytes_]) -> None:
    repeated = np.flatnonzero(ids[1:] == ids[:-1])
    if len(repeated):
        doc_id = ids[repeated[0]].decode()
        raise InvalidDocument(f"two documents have the id {doc_id!r}", doc_id)


def _pieces(rows: _Rows, ends: NDArray[np.int64]) -> Iterator[_Rows]:
    """Yield *rows* in pieces whose texts fit into memory; a longer text is a piece alone. *ends* (rows,): where texts end."""
    begin, before = 0, int(ends[0]) - int(rows["length"][0])
    while begin < len(rows):
        reach = int(np.searchsorted(ends, before + _PIECE, side="right"))
        end = min(max(reach, begin + 1), begin + _PIECE // 256)  # of short texts, the Python objects take the memory
        yield rows[begin:end]
        begin, before = end, int(ends[min(end, len(rows)) - 1])


# ---- the spool -------------------------------------------------------------------------------------------------------------


def _row_type(width: int) -> np.dtype[Any]:
    """Return the type of a spool row: id, first byte and bytes of the text, and where the body starts."""
    return np.dtype([("id", f"S{width}"), ("start", np.int64), ("length", np.int64), ("body", np.uint32)])


class _SortedRun(NamedTuple):
    """Rows in ascending order of their ids, in the file of rows."""

    offset: int  # bytes
    rows: int
    width: int  # bytes of the longest id


class _Spool:
    """Documents in two temporary files, added in any order and read back by descending id. Use it in a `with`.

    One file has the texts, the other one a row per document, in sorted runs. Evenly spaced ids of all runs cut the ids into as
    many parts as there are runs. A part collects the rows of every run between two cuts and is sorted anew (Shi and Schaeffer,
    "Parallel Sorting by Regular Sampling", 1992). Nothing can be added once parts have been read.
    """

    def __init__(self, folder: Path) -> None:
        self.count = 0
        self._width = 1  # bytes of the longest id
        self._rows_file = folder / "rows.bin"
        self._texts = (folder / "texts.bin").open("w+b", buffering=1 << 20)
        self._runs: list[_SortedRun] = []
        self._samples: list[NDArray[np.bytes_]] = []
        self._written = 0  # bytes of the texts of finished runs
        self._ids: list[bytes] = []  # of the unfinished run, like the next two
        self._lengths, self._bodies = array("q"), array("I")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._texts.close()

    def add(self, doc_id: bytes, text: bytes, body_at: int) -> None:
        """Keep one document."""
        self._texts.write(text)
        self._ids.append(doc_id)
        self._lengths.append(len(text))
        self._bodies.append(body_at)
        self.count += 1
        if len(self._ids) >= _SORTED_AT_ONCE:
            self._end_run()

    def _end_run(self) -> None:
        """Sort the unfinished run and append it to the file of rows."""
        if not self._ids:
            return
        width = max(map(len, self._ids))
        rows = np.empty(len(self._ids), _row_type(width))
        rows["id"], rows["length"], rows["body"] = self._ids, self._lengths, self._bodies
        ends = self._written + np.cumsum(rows["length"])
        rows["start"] = ends - rows["length"]
        rows = rows[np.argsort(rows["id"], kind="stable")]
        with self._rows_file.open("ab") as file:
            self._runs.append(_SortedRun(file.tell(), len(rows), width))
            file.write(rows.tobytes())
        self._samples.append(rows["id"][np.linspace(0, len(rows) - 1, _SAMPLES).astype(np.int64)])
        self._written, self._width = int(ends[-1]), max(self._width, width)
        self._ids, self._lengths, self._bodies = [], array("q"), array("I")

    def parts(self) -> Iterator[_Rows]:
        """Yield the rows of all documents by descending id, part by part. Rows with the same id are in one part."""
        self._end_run()
        samples = np.sort(np.concatenate(self._samples))
        cuts = samples[np.arange(1, len(self._runs)) * len(samples) // len(self._runs)]
        bounds = [np.searchsorted(self._read(run, 0, run.rows)["id"], cuts) for run in self._runs]
        bounds = [np.concatenate([[0], inner, [run.rows]]) for inner, run in zip(bounds, self._runs, strict=True)]
        for part in reversed(range(len(cuts) + 1)):
            pieces = [self._read(run, *ends[part : part + 2]) for run, ends in zip(self._runs, bounds, strict=True)]
            rows = np.concatenate([piece.astype(_row_type(self._width)) for piece in pieces])
            yield rows[np.argsort(rows["id"], kind="stable")[::-1]]

    def _read(self, run: _SortedRun, first: int, last: int) -> _Rows:
        """Return the rows of *run* from *first* up to *last*."""
        row = _row_type(run.width)
        return np.fromfile(self._rows_file, row, int(last - first), offset=run.offset + int(first) * row.itemsize)

    def texts(self, rows: _Rows) -> list[bytes]:
        """Return the texts of *rows*, in their order."""
        # The file is read from front to back, and texts that lie side by side are read in one piece.
        by_place = np.argsort(rows["start"], kind="stable")
        starts, ends = rows["start"][by_place], rows["start"][by_place] + rows["length"][by_place]
        last = np.append(starts[1:] != ends[:-1], True)  # whether the next text lies somewhere else
        stops = ends[last][np.cumsum(last) - last]  # where the piece of each text ends
        texts, block, begin, behind = [b""] * len(rows), b"", 0, -1
        for slot, start, end, stop in zip(*(values.tolist() for values in (by_place, starts, ends, stops)), strict=True):
            if stop != behind:
                self._texts.seek(start)
                block, begin, behind = self._texts.read(stop - start), start, stop
            texts[slot] = block[start - begin : end - begin]
        return texts
