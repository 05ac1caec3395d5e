"""Files of vectors that other tools read and write. Each sparse format has a function that reads it and one that writes it.

Other packages use `FORMATS`, `blocks` (what formats read and write) and `lookup` (sparse and dense vectors by id).
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lexbench.vector_formats.blocks import Block, Vocabulary


class Format(NamedTuple):
    """A file format. `json_lines` has its functions; it is imported when a file is read or written."""

    reader: str  # name of the function that reads a file
    writer: str
    content: str  # of such a file, in words
    suffix: str
    queries: str  # the format of queries that goes with documents in this one; "" for a format of queries only

    def read(self, path: Path, vocabulary: "Vocabulary") -> "Iterator[Block]":
        """Yield the vectors of *path* in blocks; *vocabulary* numbers the tokens. Raises InvalidFile for malformed files."""
        from lexbench.vector_formats import json_lines

        found: Iterator[Block] = getattr(json_lines, self.reader)(path, vocabulary)
        return found

    def write(self, blocks: "Iterable[Block]", path: Path, vocabulary: "Vocabulary") -> None:
        """Write *blocks* to *path* atomically. Raises CommandError for vectors that the format cannot hold."""
        from lexbench.vector_formats import json_lines

        getattr(json_lines, self.writer)(blocks, path, vocabulary)


FORMATS: Mapping[str, Format] = {
    "anserini": Format(
        "read_anserini", "write_anserini", "a JsonVectorCollection, its topics as TSV", ".jsonl", queries="anserini-topics"
    ),
    "anserini-topics": Format("read_topics", "write_topics", "queries, one TSV file", ".tsv", queries=""),
    "seismic": Format("read_seismic", "write_seismic", "JSON lines", ".jsonl", queries="seismic"),
}
