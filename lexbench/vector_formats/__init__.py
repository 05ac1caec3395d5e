"""Files of vectors that other tools read and write. Each sparse format has a function that reads it and one that writes it.

Other packages use `FORMATS`, `blocks` (what formats read and write) and `lookup` (sparse and dense vectors by id).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

if TYPE_CHECKING:
    from lexbench.vector_formats.blocks import Block, Vocabulary

    Read: TypeAlias = Callable[[Path, Vocabulary], Iterator[Block]]
    Write: TypeAlias = Callable[[Iterable[Block], Path, Vocabulary], None]


class Format(NamedTuple):
    """A file format. Its module is imported when it is used."""

    module: str
    reader: str  # its functions
    writer: str
    holds: str  # the content of such a file, shown to users
    suffix: str
    queries: str  # the format of queries that goes with documents in this one; "" for a format of queries only

    def read(self, path: Path, vocabulary: "Vocabulary") -> "Iterator[Block]":
        """Yield the vectors of *path* in blocks; *vocabulary* numbers the tokens. Raises InvalidFile for malformed files."""
        reader = cast("Read", getattr(import_module(f"{__name__}.{self.module}"), self.reader))
        return reader(path, vocabulary)

    def write(self, blocks: "Iterable[Block]", path: Path, vocabulary: "Vocabulary") -> None:
        """Write *blocks* to *path* atomically. Raises CommandError for vectors that the format cannot hold."""
        writer = cast("Write", getattr(import_module(f"{__name__}.{self.module}"), self.writer))
        writer(blocks, path, vocabulary)


_TOPICS = "anserini-topics"
FORMATS: Mapping[str, Format] = {
    "anserini": Format(
        "json_lines", "read_anserini", "write_anserini", "a JsonVectorCollection, its topics as TSV", ".jsonl", queries=_TOPICS
    ),
    _TOPICS: Format("json_lines", "read_topics", "write_topics", "queries, one TSV file", ".tsv", queries=""),
    "seismic": Format("json_lines", "read_seismic", "write_seismic", "JSON lines", ".jsonl", queries="seismic"),
}
