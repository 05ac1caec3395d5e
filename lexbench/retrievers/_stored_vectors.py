"""Scores of given documents from the stored vectors of a corpus: those documents' alone are read, and nothing is searched."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench.encodings.shards import SHARD, shard_file
from lexbench.engines._top_k import same_width
from lexbench.types import Query

if TYPE_CHECKING:
    from lexbench.retrievers.encoded import Encoded

_ROWS = 4096  # documents whose vectors are in memory at a time
_TYPES = {"F16": np.float16, "F32": np.float32, "I64": np.int64, "U16": np.uint16, "U32": np.uint32}  # as safetensors has them


@dataclass(frozen=True)
class StoredVectors:
    """The vectors in the folder *path*, with the transforms of an `encoder|transform@engine`, whose index is not needed."""

    retriever: "Encoded"
    path: Path

    def encode(self, queries: Sequence[str]) -> Any:
        """Encode and transform query texts; one vector a query."""
        return self.retriever.as_queries(self.retriever.encoder.encode_query(queries))

    def encode_queries(self, queries: Sequence[Query]) -> Any:
        """Do the same for queries with their ids, for encoders that look vectors up."""
        return self.retriever.encode_queries(queries)

    def score(self, encoded: Any, docs: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the dot products (queries, n) of each query's vector with those of its documents *docs*.

        Those of sparse vectors are added up in float64, so that sums of whole weights are exact before they are rounded.
        """
        scores = np.zeros(docs.shape, np.float32)
        wanted = np.unique(docs[docs >= 0])
        for start in range(0, len(wanted), _ROWS):
            some = wanted[start : start + _ROWS]
            products = _products(encoded, self.retriever.as_documents(_rows(self.path, some)))
            inside = (docs >= some[0]) & (docs <= some[-1])
            scores[inside] = products[np.nonzero(inside)[0], np.searchsorted(some, docs[inside])]
        return scores


def _products(queries: Any, documents: Any) -> NDArray[Any]:
    """Return the dot products (queries, documents)."""
    same_width(queries.shape[1], documents.shape[1])
    if isinstance(documents, np.ndarray):
        return np.asarray(queries @ documents.T)
    return np.asarray((queries.astype(np.float64) @ documents.astype(np.float64).T).toarray())


def _rows(folder: Path, positions: NDArray[np.int32]) -> Any:
    """Return the vectors (n, width), float32, of ascending *positions*, reading no more than they take."""
    shards, starts = np.unique(positions // SHARD, return_index=True)
    within = np.split(positions, starts[1:])
    files = (shard_file(folder, range(shard * SHARD, (shard + 1) * SHARD)) for shard in shards.tolist())
    blocks = [_of_shard(file, rows % SHARD) for file, rows in zip(files, within, strict=True)]
    return sparse.vstack(blocks, format="csr") if sparse.issparse(blocks[0]) else np.concatenate(blocks)


def _of_shard(file: Path, rows: NDArray[np.int32]) -> Any:
    arrays = dict(_mapped(file))
    if "vectors" in arrays:
        return arrays["vectors"][rows].astype(np.float32, copy=False)
    starts, stops = arrays["offsets"][rows], arrays["offsets"][rows + 1]
    offsets = np.concatenate([[0], np.cumsum(stops - starts)])
    places = np.repeat(starts - offsets[:-1], stops - starts) + np.arange(offsets[-1])
    parts = (arrays["weights"][places].astype(np.float32), arrays["terms"][places].astype(np.int32), offsets)
    return sparse.csr_array(parts, shape=(len(rows), int(arrays["facts"][0])))


def _mapped(file: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the arrays of a safetensors file, mapped; the package's own reader would copy them whole."""
    with file.open("rb") as opened:
        length = int.from_bytes(opened.read(8), "little")
        header = json.loads(opened.read(length))
    content = np.memmap(file, np.uint8, "r", 8 + length)
    for name, fact in header.items():
        yield name, content[slice(*fact["data_offsets"])].view(_TYPES[fact["dtype"]]).reshape(fact["shape"])
