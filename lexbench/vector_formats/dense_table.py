"""Dense vectors that others published: one row a text, in files of Parquet or JSON lines, and a table of them by id.

    {"docid": "d1", "vector": [0.1, -0.2, ...]}     Anserini's collections, Parquet and JSON lines; its topics say "qid"
    {"id": "d1", "contents": "...", "vector": [...]}     Pyserini's encoded corpora
    {"_id": "d1", "text": "...", "emb": [...]}      data sets of the hub, as Cohere's of BEIR

Sources: castorini/anserini, ParquetDenseVectorCollection and JsonStringVectorTopicReader; the hub's pages. Other columns are
not read.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench.errors import InvalidFile, require
from lexbench.storage.reading import lines
from lexbench.vector_formats.rows_by_id import RowsById

IDS = ("docid", "qid", "_id", "id", "doc_id", "query_id", "corpus-id", "query-id")  # the first that is there
VECTORS = ("vector", "emb", "embedding", "embeddings")
ENDINGS = (".parquet", ".jsonl", ".jsonl.gz", ".json", ".json.gz")
_ROWS = 4096  # in memory at once


class DenseRows(NamedTuple):
    """Some vectors in the order of a file."""

    ids: list[str]  # (n,)
    vectors: NDArray[np.float32]  # (n, dimensions)


def files_of(path: Path) -> list[Path]:
    """Return *path*, or the files of vectors in a folder and below, by name; InvalidFile where there are none."""
    found = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.name.endswith(ENDINGS))
    if not found or not all(file.name.endswith(ENDINGS) for file in found):
        raise InvalidFile(f"{path}: vectors are read from files that end in {', '.join(ENDINGS)}")
    return found


def read(path: Path) -> Iterator[DenseRows]:
    """Yield the vectors of a file, or of the files in a folder; InvalidFile for a row without an id or of other numbers."""
    for file in files_of(path):
        yield from _parquet(file) if file.suffix == ".parquet" else _json_lines(file)


def _json_lines(file: Path) -> Iterator[DenseRows]:
    ids: list[str] = []
    vectors: list[Any] = []
    names: tuple[str, str] | None = None
    for number, line in lines(file):
        if not line.strip():
            continue
        try:
            row = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidFile(f"{file}:{number}: {error}") from None
        names = names or _columns(list(row), f"{file}:{number}")
        if not row.keys() >= set(names):
            raise InvalidFile(f"{file}:{number}: it has not both {names[0]} and {names[1]}, as the lines before")
        ids.append(str(row[names[0]]))
        vectors.append(row[names[1]])
        if len(ids) == _ROWS:
            yield DenseRows(ids, _matrix(vectors, f"{file}: up to line {number}"))
            ids, vectors = [], []
    if ids:
        yield DenseRows(ids, _matrix(vectors, str(file)))


def _parquet(file: Path) -> Iterator[DenseRows]:
    require("reading Parquet", ["pyarrow"], "parquet")
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        with ParquetFile(file) as table:
            names = _columns(table.schema_arrow.names, str(file))
            for batch in table.iter_batches(batch_size=_ROWS, columns=list(names)):
                yield DenseRows([str(name) for name in batch[names[0]].to_pylist()], _of_column(batch[names[1]], file))
    except (ArrowException, OSError) as error:
        raise InvalidFile(f"{file}: it does not read as Parquet ({str(error).partition(chr(10))[0]})") from None


def _of_column(column: Any, file: Path) -> NDArray[np.float32]:
    """Return the vectors (n, dimensions) of a column of lists; not by way of Python's numbers, of which there are millions."""
    if not hasattr(column, "flatten") or column.null_count:
        raise InvalidFile(f"{file}: the column of vectors is no list of numbers in every row")
    flat = column.flatten()
    if len(flat) % max(len(column), 1) or len({len(row) for row in column}) > 1:
        raise InvalidFile(f"{file}: its vectors are not all as long as the first")
    return _checked(flat.to_numpy(zero_copy_only=False).reshape(len(column), -1), str(file))


def _columns(names: Sequence[str], where: str) -> tuple[str, str]:
    """Return the names of the columns of ids and of vectors."""
    id_name = next((name for name in IDS if name in names), None)
    vector_name = next((name for name in VECTORS if name in names), None)
    if id_name is None or vector_name is None:
        wanted = IDS if id_name is None else VECTORS
        raise InvalidFile(f"{where}: no column {', '.join(wanted[:-1])} or {wanted[-1]}; there is: {', '.join(names)}")
    return id_name, vector_name


def _matrix(rows: Sequence[Any], where: str) -> NDArray[np.float32]:
    if any(isinstance(row, Mapping) for row in rows):
        raise InvalidFile(f"{where}: sparse vectors, weights by token; type vectors(documents=…, queries=…)")
    try:
        return _checked(np.array(rows, np.float64), where)
    except (TypeError, ValueError):
        raise InvalidFile(f"{where}: its vectors are no lists of numbers, or not all as long as the first") from None


def _checked(values: NDArray[Any], where: str) -> NDArray[np.float32]:
    """Return *values* (n, dimensions) as float32; InvalidFile where one is none."""
    if values.ndim != 2 or values.dtype.kind not in "fiu":  # noqa: PLR2004
        raise InvalidFile(f"{where}: its vectors are no lists of numbers")
    with np.errstate(over="ignore"):
        vectors = values.astype(np.float32)
    if not np.isfinite(vectors).all():
        raise InvalidFile(f"{where}: a number of a vector is no float32")
    return vectors


class DenseTable:
    """The vectors of a file or folder by id, in a temporary file while this process lives; InvalidFile for an id with two."""

    def __init__(self, path: Path) -> None:
        ids: list[str] = []
        self.width = 0
        with TemporaryFile() as kept:  # what is mapped outlives it
            for rows in read(path):
                self.width = self.width or rows.vectors.shape[1]
                if rows.vectors.shape[1] != self.width:
                    raise InvalidFile(f"{path}: vectors of {self.width} and of {rows.vectors.shape[1]} dimensions")
                ids += rows.ids
                rows.vectors.tofile(kept)
            kept.flush()
            shape = len(ids), self.width
            self._vectors = np.memmap(kept, np.float32, "r", shape=shape) if ids else np.zeros(shape, np.float32)
        self._rows = RowsById(ids, path)

    def find(self, ids: Sequence[str], complaint: str) -> NDArray[np.float32]:
        """Return the vectors (n, dimensions) of *ids*; LexbenchError, *complaint* and the first missing ids, for others."""
        found: NDArray[np.float32] = np.asarray(self._vectors[self._rows.find(ids, complaint)])
        return found
