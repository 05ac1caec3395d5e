"""All products of documents and queries, a tile at a time, and the best of them."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.engines.kernels.flat_best import Best
from lexbench.engines.kernels.flat_dot import products, products_of_halves, widen
from lexbench.engines.kernels.top_k import same_width
from lexbench.types import Hits

_QUERIES, _DOCUMENTS = 1024, 4096  # of a tile: BLAS is near its best, and 16 MB of products are in the caches when looked at
_FEW = 16  # queries that BLAS is slower with than our loop; measured at 384 dimensions
_LONGER = 16  # times as many documents in a tile of few queries: numba is slow to tell the type of mapped arrays, at each call


class Tile(NamedTuple):
    """The products of some queries and some documents."""

    query: int  # the first
    position: int  # the first
    products: NDArray[np.float32]  # (queries, documents); overwritten by the next


def tiles(blocks: Iterable[NDArray[Any]], queries: NDArray[np.float32]) -> Iterator[Tile]:
    """Yield the products of *queries* (queries, dimensions) with *blocks* (n, dimensions) of float32 or float16 vectors.

    Blocks come in order of position; all queries' tiles of some documents come before those of the next documents.
    """
    queries = np.ascontiguousarray(queries, np.float32)
    rows = _DOCUMENTS if len(queries) > _FEW else _LONGER * _DOCUMENTS
    buffer = np.empty(min(_QUERIES, len(queries)) * rows, np.float32)
    position = 0
    for block in blocks:
        if len(block):
            same_width(queries.shape[1], block.shape[1], "dimensions")
        for first in range(0, len(block), rows):
            some = np.ascontiguousarray(block[first : first + rows])
            documents = some if len(queries) <= _FEW else single(some)
            for query in range(0, len(queries), _QUERIES):
                own = queries[query : query + _QUERIES]
                out = buffer[: len(own) * len(some)].reshape(len(own), len(some))
                _multiply(documents, own, out)
                yield Tile(query, position, out)
            position += len(some)


def _multiply(documents: NDArray[Any], queries: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Write the products to *out* (queries, documents)."""
    if documents.dtype == np.float16:
        products_of_halves(documents.view(np.uint16), queries, out)
    elif len(queries) <= _FEW:
        products(documents, queries, out)
    else:
        np.matmul(queries, documents.T, out=out)


def single(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Return *vectors* (n, dimensions), float32 or float16, as float32."""
    if vectors.dtype == np.float32:
        return vectors
    singles = np.empty(vectors.shape, np.float32)
    widen(vectors.view(np.uint16).reshape(-1), singles.reshape(-1))
    return singles


def best(blocks: Iterable[NDArray[Any]], queries: NDArray[np.float32], k: int) -> Hits:
    """Return the *k* documents of the largest products of each query, of equals the lower position; -1 if there are fewer."""
    found = Best(len(queries), k)
    for query, position, scores in tiles(blocks, queries):
        found.add(scores, position, query)
    return found.hits()
