"""Text that others generated for documents, by document id, e.g. the predicted queries of docT5query (Nogueira & Lin, 2019).

    {"id": "d1", "predicted_queries": ["what is …", …]}     JSON lines; the id may be called _id or docid
    {"id": "d1", "expansion": "…"}                          the text may be called text or contents
    d1<TAB>text                                             if the name ends in .tsv

Files may be compressed (.gz). A line has the text that is added to a document, not the document itself.
"""

from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from mmap import ACCESS_READ, mmap
from pathlib import Path
from tempfile import TemporaryFile

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench.errors import InvalidFile
from lexbench.storage.reading import FileState, file_state, lines
from lexbench.trec.ids import RowsById, encode

_AT_ONCE = 1 << 16  # ids that are Python objects at a time


class _Record(msgspec.Struct):
    id: str | int | None = None
    beir_id: str | int | None = msgspec.field(default=None, name="_id")
    docid: str | int | None = None
    predicted_queries: list[str] | None = None
    expansion: str | None = None
    text: str | None = None
    contents: str | None = None


class Expansions:
    """The expansions in the file *path*, which is read once.

    The texts are in a temporary file of the same size. Ids and offsets are in memory, about 25 bytes/doc with ids like those of
    MS MARCO, twice that during reading. Raises InvalidFile with the number of a faulty line, or for a document with two lines.
    """

    def __init__(self, path: Path) -> None:
        ids: list[NDArray[np.bytes_]] = []
        ends = array("q", [0])
        read = _read(path)
        with TemporaryFile() as spool:
            while block := list(islice(read, _AT_ONCE)):
                ids.append(encode(doc_id for doc_id, _ in block))
                for _, text in block:
                    ends.append(ends[-1] + spool.write(text.encode()))
            if not ids:
                raise InvalidFile(f"{path}: there is no expansion in it")
            spool.flush()
            self._texts = mmap(spool.fileno(), 0, access=ACCESS_READ) if ends[-1] else b""  # a map outlives its file
        self._ends = np.frombuffer(ends, np.int64)
        problem = f"{path}: document {{}} has two lines; write all that is added to it in one"
        self._lines = RowsById(np.concatenate(ids), problem)
        self.ids = self._lines.ids

    def find(self, doc_ids: Sequence[str]) -> list[str | None]:
        """Return the expansion of each document, in order; None if the file has none."""
        found = self._lines.find(doc_ids)
        bounds = zip(found.tolist(), self._ends[found].tolist(), self._ends[found + 1].tolist(), strict=True)
        return [self._texts[start:stop].decode() if line >= 0 else None for line, start, stop in bounds]


def _read(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the id of each document with its text."""
    parse = _tsv_line if ".tsv" in path.suffixes else _json_line
    for number, line in lines(path):
        if line.strip():
            try:
                yield parse(line)
            except (ValueError, msgspec.DecodeError) as error:  # ValueError includes UnicodeDecodeError
                raise InvalidFile(f"{path}:{number}: {error}") from None


def _tsv_line(line: bytes) -> tuple[str, str]:
    doc_id, tab, text = line.decode().partition("\t")
    if not tab or not doc_id.strip():
        raise ValueError("a line is a document id, a tab and text; a file of JSON lines must not have .tsv in its name")
    return doc_id.strip(), text


_decoder = msgspec.json.Decoder(_Record)


def _json_line(line: bytes) -> tuple[str, str]:
    record = _decoder.decode(line)
    doc_id = next((name for name in (record.id, record.beir_id, record.docid) if name is not None), None)
    texts = [text for text in (record.expansion, record.text, record.contents) if text is not None]
    if record.predicted_queries is not None:
        texts.append(" ".join(record.predicted_queries))
    if doc_id is None or len(texts) != 1:
        raise ValueError("not an id (id, _id or docid) and one of predicted_queries, expansion, text and contents")
    return str(doc_id), texts[0]


def expansions(path: str) -> Expansions:
    """Return the expansions in a file; they are cached until the file changes."""
    return _expansions(path, file_state(Path(path)))


@lru_cache(maxsize=1)
def _expansions(path: str, _state: FileState) -> Expansions:
    return Expansions(Path(path))
