"""Documents on their way into a corpus: kept as they come, given back by descending id, in memory that does not grow with them.

Texts go to one file, and what is known of each besides to another, in runs that are sorted by themselves. Ids that are evenly
spaced in the runs are samples of all, and cut these into as many parts as there are runs; a part is the pieces of every run
between two of them, and is sorted anew (Shi and Schaeffer, "Parallel Sorting by Regular Sampling", 1992).
"""

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lexbench.types import Document

RUN = 1 << 18  # documents of a run: 11 MB where ids have 20 bytes; 138 million documents are 528 runs
_SAMPLES = 256  # ids of a run that parts are cut by: no part is larger than a run and a 256th of all documents

Rows = NDArray[np.void]  # with the fields of `_row`


def _row(width: int) -> np.dtype[Any]:
    """Return what is kept of a document: its id, where its text begins and how many bytes it has, and where the body is."""
    return np.dtype([("id", f"S{width}"), ("start", np.int64), ("length", np.int64), ("body", np.uint32)])


class _Run(NamedTuple):
    """Rows in ascending order of their ids."""

    offset: int  # in the file
    rows: int
    width: int  # bytes of the longest id


class Spool:
    """Documents in the files of a folder, to which nothing can be added once they are read; use it in a `with`."""

    def __init__(self, folder: Path) -> None:
        self.count = 0
        self.width = 1  # bytes of the longest id
        self._rows_file = folder / "rows.bin"
        self._texts = (folder / "texts.bin").open("w+b", buffering=1 << 20)
        self._runs: list[_Run] = []
        self._samples: list[NDArray[np.bytes_]] = []
        self._written = 0  # bytes of the texts of runs
        self._ids: list[bytes] = []  # of the run at hand, and so the next two
        self._lengths, self._bodies = array("q"), array("I")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._texts.close()

    def add(self, doc_id: bytes, text: bytes, document: Document) -> None:
        """Keep one document, whose id and text are given as bytes."""
        self._texts.write(text)
        self._ids.append(doc_id)
        self._lengths.append(len(text))
        self._bodies.append(document.body_at)
        self.count += 1
        if len(self._ids) >= RUN:
            self._end_run()

    def _end_run(self) -> None:
        """Sort the run at hand and append it to the file."""
        if not self._ids:
            return
        width = max(map(len, self._ids))
        rows = np.empty(len(self._ids), _row(width))
        rows["id"], rows["length"], rows["body"] = self._ids, self._lengths, self._bodies
        ends = self._written + np.cumsum(rows["length"])
        rows["start"] = ends - rows["length"]
        rows = rows[np.argsort(rows["id"], kind="stable")]
        with self._rows_file.open("ab") as file:
            self._runs.append(_Run(file.tell(), len(rows), width))
            file.write(rows.tobytes())
        self._samples.append(rows["id"][np.linspace(0, len(rows) - 1, _SAMPLES).astype(np.int64)])
        self._written, self.width = int(ends[-1]), max(self.width, width)
        self._ids, self._lengths, self._bodies = [], array("q"), array("I")

    def parts(self) -> Iterator[Rows]:
        """Yield what is kept of the documents by descending id, part by part; documents with the same id are in one part."""
        self._end_run()
        samples = np.sort(np.concatenate(self._samples))
        cuts = samples[np.arange(1, len(self._runs)) * len(samples) // len(self._runs)]
        bounds = [np.searchsorted(self._read(run, 0, run.rows)["id"], cuts) for run in self._runs]
        bounds = [np.concatenate([[0], inner, [run.rows]]) for inner, run in zip(bounds, self._runs, strict=True)]
        for part in reversed(range(len(cuts) + 1)):
            pieces = [self._read(run, *ends[part : part + 2]) for run, ends in zip(self._runs, bounds, strict=True)]
            rows = np.concatenate([piece.astype(_row(self.width)) for piece in pieces])
            yield rows[np.argsort(rows["id"], kind="stable")[::-1]]

    def _read(self, run: _Run, first: int, last: int) -> Rows:
        """Return the rows of *run* from *first* up to *last*."""
        row = _row(run.width)
        return np.fromfile(self._rows_file, row, int(last - first), offset=run.offset + int(first) * row.itemsize)

    def texts(self, rows: Rows) -> list[bytes]:
        """Return the texts of *rows*, in their order, reading the file from front to back: texts side by side in one piece."""
        inward = np.argsort(rows["start"], kind="stable")
        starts, ends = rows["start"][inward], rows["start"][inward] + rows["length"][inward]
        last = np.append(starts[1:] != ends[:-1], True)  # whether the next text lies somewhere else
        together = ends[last][np.cumsum(last) - last]  # where the texts end that lie side by side with each
        texts, block, begin, behind = [b""] * len(rows), b"", 0, -1
        for slot, start, end, stop in zip(*(values.tolist() for values in (inward, starts, ends, together)), strict=True):
            if stop != behind:
                self._texts.seek(start)
                block, begin, behind = self._texts.read(stop - start), start, stop
            texts[slot] = block[start - begin : end - begin]
        return texts
