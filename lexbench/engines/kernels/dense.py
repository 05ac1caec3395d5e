"""Dot products of dense vectors: all of some documents and queries, the best of them, and how many of the best were found.

BLAS rearranges the documents before it multiplies, which takes longer than a product with few queries, and its product with one
query takes twice as long as reading the documents: so few queries are multiplied by a loop of ours.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from lexbench.engines.kernels.best_k import Best
from lexbench.engines.kernels.checks import same_width
from lexbench.types import Hits

_QUERIES, _DOCUMENTS = 1024, 4096  # of a tile: BLAS is near its best, and 16 MB of products are in the caches when looked at
_FEW = 16  # queries that BLAS is slower with than our loop; measured at 384 dimensions
_LONGER = 16  # times as many documents in a tile of few queries: numba is slow to tell the type of mapped arrays, at each call
_SUMS = {"reassoc", "contract", "nsz"}  # sums in any order, so that they run in vectors; nothing is supposed of the values


class Tile(NamedTuple):
    """The products of some queries and some documents."""

    query: int  # the number of the first query
    position: int  # of the first document
    products: NDArray[np.float32]  # (queries, documents); overwritten by the next tile


def best(blocks: Iterable[NDArray[Any]], queries: NDArray[np.float32], k: int) -> Hits:
    """Return the *k* documents of the largest products of each query, of equals the lower position; -1 if there are fewer."""
    best_so_far = Best(len(queries), k)
    for query, position, products in tiles(blocks, queries):
        best_so_far.add(products, position, query)
    return best_so_far.hits()


def tiles(blocks: Iterable[NDArray[Any]], queries: NDArray[np.float32]) -> Iterator[Tile]:
    """Yield the products of *queries* (queries, dimensions) with *blocks* (n, dimensions) of float32 or float16 vectors.

    Blocks come in order of position; the tiles of all queries with some documents come before those of the next documents.
    """
    queries = np.ascontiguousarray(queries, np.float32)
    rows = _DOCUMENTS if len(queries) > _FEW else _LONGER * _DOCUMENTS
    buffer = np.empty(min(_QUERIES, len(queries)) * rows, np.float32)
    position = 0
    for block in blocks:
        if len(block):
            same_width(queries.shape[1], block.shape[1], "dimensions")
        for first in range(0, len(block), rows):
            stored = np.ascontiguousarray(block[first : first + rows])
            documents = stored if len(queries) <= _FEW else single(stored)
            for query in range(0, len(queries), _QUERIES):
                batch = queries[query : query + _QUERIES]
                out = buffer[: len(batch) * len(documents)].reshape(len(batch), len(documents))
                _multiply(documents, batch, out)
                yield Tile(query, position, out)
            position += len(documents)


def sparse_tiles(blocks: Iterable[sparse.csr_array], queries: sparse.csr_array) -> Iterator[Tile]:
    """Yield the same of sparse vectors: a tile for each of *blocks* (n, vocabulary), of all *queries* (queries, vocabulary)."""
    position = 0
    for block in blocks:
        yield Tile(0, position, (queries @ block.T).toarray().astype(np.float32))
        position += block.shape[0]


def single(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Return *vectors* (n, dimensions), float32 or float16, as float32."""
    if vectors.dtype == np.float32:
        return vectors
    singles = np.empty(vectors.shape, np.float32)
    widen(vectors.view(np.uint16).reshape(-1), singles.reshape(-1))
    return singles


def overlap(shards: Iterable[Any], queries: Any, hits: Hits, depths: Sequence[int] = (10, 100)) -> dict[int, float]:
    """Return the mean share of the exact best k that the first k of *hits* contain, for each k of *depths*.

    *shards* (n, dimensions) are the vectors of all documents in order of position, read once; *queries* (queries, dimensions)
    are those that *hits* answer; both numpy arrays, or both scipy CSR ones. A hit counts if its true product reaches the k-th
    of the exact ones, so that of equals any will do. k is the number of documents where that is less; without queries or
    documents nothing is missing: 1.

    As much work as an exact search of *queries*, of which a sample may do. Memory: products by the tile, and 16 bytes x
    queries x the largest k. LexbenchError for shards of another width than the queries.
    """
    docs = hits.docs[:, : max(depths)]
    true = np.full(docs.shape, -np.inf, np.float32)
    exact, documents = Best(len(docs), max(depths)), 0
    products_of = sparse_tiles if sparse.issparse(queries) else tiles
    for query, position, products in products_of(shards, queries):
        exact.add(products, position, query)
        tile_docs = docs[query : query + len(products)]
        row, rank = np.nonzero((tile_docs >= position) & (tile_docs < position + products.shape[1]))
        true[query + row, rank] = products[row, tile_docs[row, rank] - position]
        documents = position + products.shape[1]
    scores = exact.hits().scores
    if not len(docs) or not documents:
        return dict.fromkeys(depths, 1.0)
    return {k: _share(true[:, :k], scores[:, min(k, documents) - 1]) / min(k, documents) for k in depths}


def _share(true: NDArray[np.float32], least: NDArray[np.float32]) -> float:
    """Return how many scores of a row of *true* (queries, k) reach its *least* (queries,), on average."""
    return float((true >= least[:, None]).sum(axis=1).mean())


def _multiply(documents: NDArray[Any], queries: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Write the products to *out* (queries, documents)."""
    if documents.dtype == np.float16:
        _products_of_halves(documents.view(np.uint16), queries, out)
    elif len(queries) <= _FEW:
        _products(documents, queries, out)
    else:
        np.matmul(queries, documents.T, out=out)


@njit(nogil=True, cache=True, fastmath=_SUMS)
def _products(documents, queries, out):  # type: ignore[no-untyped-def]
    """Write the products of float32 *documents* (n, width) and *queries* (m, width) to *out* (m, n)."""
    for row in range(len(documents)):
        for query in range(len(queries)):
            total = np.float32(0)
            for i in range(documents.shape[1]):
                total += documents[row, i] * queries[query, i]
            out[query, row] = total


@njit(nogil=True, cache=True, fastmath=_SUMS)
def _products_of_halves(documents, queries, out):  # type: ignore[no-untyped-def]
    """Do the same with *documents* of float16, given as uint16 bits: each is widened in the first-level cache."""
    document = np.empty((1, documents.shape[1]), np.float32)
    for row in range(len(documents)):
        widen(documents[row], document[0])
        _products(document, queries, out[:, row : row + 1])


@njit(nogil=True, cache=True)
def widen(halves, singles):  # type: ignore[no-untyped-def]
    """Write finite float16 numbers, given as uint16 bits, into the float32 array *singles* of the same length; exactly.

    The exponent of a half is 112 less than that of the float32 that has its bits in the same places.
    """
    for i in range(len(halves)):
        bits = np.uint32(halves[i])
        size = np.float32(np.uint32((bits & np.uint32(0x7FFF)) << np.uint32(13)).view(np.float32) * np.float32(2.0**112))
        sign = np.uint32((bits & np.uint32(0x8000)) << np.uint32(16))
        singles[i] = np.uint32(np.float32(size).view(np.uint32) | sign).view(np.float32)
