"""Files of sparse vectors that other tools read and write. Each format is one module with `read` and `write`.

Other packages take `FORMATS` from here, `blocks` (what is read and written) and `vector_table` (vectors by id).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

if TYPE_CHECKING:
    from lexbench.vector_formats.blocks import Block, Vocabulary

    Read: TypeAlias = Callable[[Path, Vocabulary | None], Iterator[Block]]
    Write: TypeAlias = Callable[[Iterable[Block], Path, Vocabulary], None]


class Format(NamedTuple):
    """A format of files; its module is imported when it is used."""

    module: str
    holds: str  # what is in such a file, for people
    suffix: str
    queries: str  # the format in which queries go with documents in this one; "" for a format of queries alone
    whole: bool  # weights must be whole numbers from 1
    tokens: bool  # the file names its terms by strings; else they are numbers
    reader: str = "read"
    writer: str = "write"
    folders: tuple[str, str] | None = None  # of documents and of queries, where each is a folder and not a file

    def read(self, path: Path, vocabulary: "Vocabulary | None" = None) -> "Iterator[Block]":
        """Yield the vectors of *path* in blocks; *vocabulary* numbers the tokens. InvalidFile for what does not read."""
        reader = cast("Read", getattr(import_module(f"{__name__}.{self.module}"), self.reader))
        return reader(path, vocabulary)

    def write(self, blocks: "Iterable[Block]", path: Path, vocabulary: "Vocabulary") -> None:
        """Write *blocks* to *path*, whole or not at all. CommandError for what the format cannot hold."""
        writer = cast("Write", getattr(import_module(f"{__name__}.{self.module}"), self.writer))
        writer(blocks, path, vocabulary)


_TOPICS = "anserini-topics"
FORMATS: Mapping[str, Format] = {
    "anserini": Format(
        "anserini", "a JsonVectorCollection, its topics as TSV", ".jsonl", queries=_TOPICS, whole=True, tokens=True
    ),
    _TOPICS: Format(
        "anserini", "queries, one TSV file", ".tsv", "", whole=True, tokens=True, reader="read_topics", writer="write_topics"
    ),
    "ciff": Format("ciff", "an inverted index, its topics as TSV", ".ciff", queries=_TOPICS, whole=True, tokens=True),
    "lsr-benchmark": Format(
        "lsr_benchmark",
        "folders of NumPy arrays with ids, without tokens",
        "",
        queries="lsr-benchmark",
        whole=False,
        tokens=False,
        folders=("doc", "query"),
    ),
    "seismic": Format("seismic", "JSON lines", ".jsonl", queries="seismic", whole=False, tokens=True),
}
