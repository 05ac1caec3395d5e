"""Tables of vectors by id: sparse ones from the blocks of a format, dense ones from published files of Parquet or JSON lines.

Vectors are kept in temporary files while the process lives, ids in memory. A row of a dense file has an id and a vector; other
columns are ignored:

    {"docid": "d1", "vector": [0.1, -0.2, ...]}          Anserini's collections, Parquet and JSON lines; topics have "qid"
    {"id": "d1", "contents": "...", "vector": [...]}     Pyserini's encoded corpora
    {"_id": "d1", "text": "...", "emb": [...]}           data sets on the hub, e.g. Cohere's of BEIR

Files of NumPy have no columns; see `lexbench.vector_formats.arrays`.

Sources: castorini/anserini, ParquetDenseVectorCollection and JsonStringVectorTopicReader; the pages of the hub.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import msgspec
import numpy as np
import scipy
from numpy.typing import NDArray

from lexbench.arrays.vectors import CODES
from lexbench.errors import InvalidFile, LexbenchError, listed
from lexbench.storage.reading import lines
from lexbench.storage.rows import parquet_file
from lexbench.trec.ids import RowsById, encode
from lexbench.vector_formats import arrays
from lexbench.vector_formats.arrays import DenseRows, only_one
from lexbench.vector_formats.blocks import VectorBlock, Vocabulary

IDS = ("docid", "qid", "_id", "id", "doc_id", "query_id", "corpus-id", "query-id")  # the first that exists counts
VECTORS = ("vector", "emb", "embedding", "embeddings")
ENDINGS = (".parquet", ".jsonl", ".jsonl.gz", ".json", ".json.gz", *arrays.ENDINGS)
_ROWS = 4096  # in memory at once
_SHOWN = 3  # ids in an error message


def _rows_by_id(ids: Sequence[str], where: Path) -> RowsById:
    """Return the rows of vectors by their *ids*. Raises InvalidFile, which names the file *where*, if two have one id."""
    problem = f"{where}: two vectors have the id {{}}, and nobody can tell which counts; keep one of them"
    return RowsById(encode(ids), problem)


def _find(table: RowsById, ids: Sequence[str], complaint: str) -> NDArray[np.int64]:
    """Return the rows (n,) of *ids*. Raises LexbenchError, *complaint* and the first missing ids, if some are missing."""
    rows = table.find(ids)
    missing = [ids[index] for index in np.flatnonzero(rows < 0).tolist()]
    if missing:
        raise LexbenchError(f"{complaint} {listed(list(map(repr, missing)), _SHOWN)}")
    return rows


class VectorTable:
    """The sparse vectors of *blocks* by id. *vocabulary* has the tokens of their terms; it may grow while they are read.

    Raises InvalidFile, which names the file *where* they are from, if two vectors have the same id.
    """

    def __init__(self, blocks: Iterable[VectorBlock], vocabulary: Vocabulary, where: Path) -> None:
        ids: list[str] = []
        ends, self.width = [np.zeros(1, np.int64)], 0
        with TemporaryFile() as terms, TemporaryFile() as weights:  # their maps outlive them
            for block_ids, vectors in blocks:
                ids += block_ids
                ends.append(vectors.indptr[1:].astype(np.int64) + ends[-1][-1])
                vectors.indices.astype(np.int32).tofile(terms)
                vectors.data.astype(np.float32).tofile(weights)
                self.width = max(self.width, vectors.shape[1])
            self._arrays = _mapped(weights, np.float32), _mapped(terms, np.int32)
        self.tokens = vocabulary.tokens
        self._offsets = np.concatenate(ends)
        self._rows = _rows_by_id(ids, where)
        self.ids = self._rows.ids

    def find(self, ids: Sequence[str], complaint: str) -> "scipy.sparse.csr_array":
        """Return the vectors (n, width) of *ids*. Raises LexbenchError, *complaint* and the first missing ids."""
        rows = _find(self._rows, ids, complaint)
        matrix: Any = scipy.sparse.csr_array((*self._arrays, self._offsets), shape=(len(self._offsets) - 1, self.width))
        vectors: scipy.sparse.csr_array = matrix[rows]
        return vectors


class DenseTable:
    """The dense vectors of a file or folder by id; *of_array* is the file of ids of an .npy file.

    Raises InvalidFile if two vectors have the same id or lengths differ.
    """

    def __init__(self, path: Path, of_array: Path | None = None) -> None:
        ids: list[str] = []
        self.width = 0
        with TemporaryFile() as kept:  # its map outlives it
            for rows in read_dense(path, of_array):
                self.width = self.width or rows.vectors.shape[1]
                if rows.vectors.shape[1] != self.width:
                    raise InvalidFile(f"{path}: vectors of {self.width} and of {rows.vectors.shape[1]} dimensions")
                ids += rows.ids
                rows.vectors.tofile(kept)
            self._vectors = _mapped(kept, np.float32).reshape(len(ids), self.width)
        self._rows = _rows_by_id(ids, path)

    def find(self, ids: Sequence[str], complaint: str) -> NDArray[np.float32]:
        """Return the vectors (n, dimensions) of *ids*. Raises LexbenchError, *complaint* and the first missing ids."""
        found: NDArray[np.float32] = np.asarray(self._vectors[_find(self._rows, ids, complaint)])
        return found


def _mapped(file: IO[bytes], kind: type[Any]) -> NDArray[Any]:
    file.flush()
    return np.memmap(file, kind, "r") if file.tell() else np.zeros(0, kind)  # an empty file cannot be mapped


# ---- files of dense vectors ------------------------------------------------------------------------------------------------


def dense_files(path: Path) -> list[Path]:
    """Return *path*, or the vector files in a folder and below, by name. Raises InvalidFile if there are none."""
    below = (file for file in path.rglob("*") if file.name.endswith(ENDINGS) and not file.name.endswith(arrays.IDS_ENDINGS))
    found = [path] if path.is_file() else sorted(below)
    if not found or not all(file.name.endswith(ENDINGS) for file in found):
        raise InvalidFile(f"{path}: vectors are read from files that end in {', '.join(ENDINGS)}")
    return found


def read_dense(path: Path, of_array: Path | None = None) -> Iterator[DenseRows]:
    """Yield the vectors of a file, or of the files in a folder. Raises InvalidFile for a row without an id or vector.

    *of_array* is the file of ids of an .npy file.
    """
    if of_array is not None and path.suffix != ".npy":
        raise InvalidFile(f"{path}: only vectors in an .npy file have their ids in another file; leave out {of_array}")
    for file in dense_files(path):
        if file.suffix in arrays.ENDINGS:
            for ids, vectors in arrays.blocks(arrays.read_arrays(file, of_array), _ROWS):
                yield DenseRows(ids, _checked(vectors, str(file)))
        else:
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
            raise InvalidFile(f"{file}:{number}: it lacks {names[0]} or {names[1]}, which the first line has")
        ids.append(str(row[names[0]]))
        vectors.append(row[names[1]])
        if len(ids) == _ROWS:
            yield DenseRows(ids, _matrix(vectors, f"{file}: up to line {number}"))
            ids, vectors = [], []
    if ids:
        yield DenseRows(ids, _matrix(vectors, str(file)))


def _parquet(file: Path) -> Iterator[DenseRows]:
    with parquet_file(file) as table:
        names = _columns(table.schema_arrow.names, str(file))
        for batch in table.iter_batches(batch_size=_ROWS, columns=list(names)):
            yield DenseRows([str(name) for name in batch[names[0]].to_pylist()], _from_arrow(batch[names[1]], file))


def _from_arrow(column: Any, file: Path) -> NDArray[np.float32]:
    """Return the vectors (n, dimensions) of a column of lists without making a Python object per number."""
    if not hasattr(column, "flatten") or column.null_count:
        raise InvalidFile(f"{file}: the column of vectors is no list of numbers in every row")
    flat = column.flatten()
    if len(flat) % max(len(column), 1) or len({len(row) for row in column}) > 1:
        raise InvalidFile(f"{file}: its vectors are not all as long as the first")
    return _checked(flat.to_numpy(zero_copy_only=False).reshape(len(column), -1), str(file))


def _columns(names: Sequence[str], where: str) -> tuple[str, str]:
    """Return the names of the id column and the vector column."""
    id_name = next((name for name in IDS if name in names), None)
    vector_name = only_one(where, VECTORS, names)
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
    """Return *values* (n, dimensions) as float32. Raises InvalidFile for a value that is no finite float32."""
    if values.ndim != 2 or values.dtype.kind not in "fiu":  # noqa: PLR2004
        raise InvalidFile(f"{where}: its vectors are no lists of numbers")
    if values.dtype.itemsize == 1:
        raise InvalidFile(f"{where}: its vectors are of {values.dtype}: {CODES}")
    with np.errstate(over="ignore"):
        vectors = values.astype(np.float32)
    if not np.isfinite(vectors).all():
        raise InvalidFile(f"{where}: a number of a vector is no float32")
    return vectors
