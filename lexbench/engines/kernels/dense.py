"""Products of dense vectors, the best k documents of blocks of scores, and MaxSim, for `flat` and `maxsim`.

`Best` keeps the best k documents while scores come block by block, which takes little time compared with making the scores.
`overlap` measures how many of the exact best an approximate search found. `max_sim_scores` scores any documents for any queries
by late interaction.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench.arrays.selection import select
from lexbench.arrays.vectors import pieces
from lexbench.compiling.loops import njit
from lexbench.engines.kernels.checks import no_hits, same_width
from lexbench.engines.kernels.llvm import BLOCK, above_bar, trailing_zeros
from lexbench.types import Hits, MultiVectors

_QUERIES, _DOCUMENTS = 1024, 4096  # of a tile: BLAS is near its best, and 16 MB of products stay in the caches
_PRODUCTS = 1 << 22  # of tokens at a time: 16 MB
_SPARE = 64  # keys beyond twice k
_LOW = np.uint64(0xFFFFFFFF)  # bits of a key that hold the position


# ---- the best k ------------------------------------------------------------------------------------------------------------


class Best:
    """The best *k* documents so far of each of so many *queries*, in 16 k + 512 bytes per query.

    A candidate is a key, a uint64: the score in the upper 32 bits, made so that larger numbers are larger scores, and below it
    the position with all bits flipped, because the lower position wins ties. The larger key ranks first. 64 scores at a time
    are compared with the query's bar, the k-th best score when the keys were last sorted out: most scores cost nothing more.
    """

    def __init__(self, queries: int, k: int) -> None:
        self._k = k
        self._keys = np.zeros((queries, 2 * k + _SPARE), np.uint64)
        self._counts, self._bars = np.zeros(queries, np.int64), np.full(queries, -np.inf, np.float32)

    def add(self, scores: NDArray[np.float32], position: int, query: int = 0) -> None:
        """Add *scores* (n, documents) of the queries from *query* on and the documents from *position* on.

        Blocks come in order of position. A NaN is never among the best.
        """
        if self._k:
            rows = slice(query, query + len(scores))
            _keep(scores, position, self._keys[rows], self._counts[rows], self._bars[rows], self._k)

    def hits(self) -> Hits:
        """Return the best documents; -1 where there are fewer than k. Nothing can be added afterwards."""
        if not self._k:
            return no_hits(len(self._keys), 0)
        for row, count in zip(self._keys, self._counts, strict=True):
            select(row, count, self._k)
        keys = ~np.sort(~self._keys[:, : self._k], axis=1)
        docs = (~keys & _LOW).astype(np.int32)  # a key of 0 is no document: -1
        ordered = (keys >> np.uint64(32)).astype(np.uint32)
        bits = np.where(ordered >> np.uint32(31), ordered ^ np.uint32(1 << 31), ~ordered)
        return Hits(docs, np.where(docs < 0, np.float32(-np.inf), bits.view(np.float32)))


@njit(nogil=True, cache=True)
def _keep(scores, position, keys, counts, bars, k):  # type: ignore[no-untyped-def]
    """Put the scores above the bars into *keys*; raise the bar of a query when its keys have no more room."""
    width = scores.shape[1]
    whole = width - width % BLOCK
    bits, bar_bits = scores.view(np.uint32), bars.view(np.uint32)
    for row in range(len(scores)):
        row_keys, count, bar = keys[row], counts[row], bars[row]
        address = scores.ctypes.data + 4 * row * width
        for start in range(0, width, BLOCK):
            if start < whole:
                above = above_bar(address + 4 * start, bar)
            else:  # the last block has fewer scores
                above = np.uint64(0)
                for i in range(start, width):
                    above |= np.uint64(scores[row, i] > bar) << np.uint64(i - start)
            while above:
                i = start + trailing_zeros(above)
                above &= above - np.uint64(1)
                if scores[row, i] > bar:  # the bar may have risen since this block was compared
                    row_keys[count] = (_ordered(bits[row, i]) << np.uint64(32)) | np.uint64(~np.uint32(position + i))
                    count += 1
                    if count == len(row_keys):
                        select(row_keys, count, k)
                        bar_bits[row] = _disordered(np.uint32(row_keys[k - 1] >> np.uint64(32)))
                        count, bar = k, bars[row]
        counts[row] = count


@njit(nogil=True, cache=True)
def _ordered(bits):  # type: ignore[no-untyped-def]
    """Return the bits of a float32 as a number that is larger if the float is; -0.0 becomes 0.0."""
    if bits == np.uint32(1 << 31):
        bits = np.uint32(0)
    # The bits of positive floats ascend like the floats, those of negative ones descend: these are flipped and come first.
    return np.uint64(~bits if bits >> np.uint32(31) else bits | np.uint32(1 << 31))


@njit(nogil=True, cache=True)
def _disordered(number):  # type: ignore[no-untyped-def]
    """Return the bits of the float32 that `_ordered` turned into *number*."""
    return number ^ np.uint32(1 << 31) if number >> np.uint32(31) else ~number


# ---- products --------------------------------------------------------------------------------------------------------------


# The number of the first query, the position of the first document, and the products (queries, documents).
Tile: TypeAlias = tuple[int, int, NDArray[np.float32]]
Products: TypeAlias = Callable[[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]], Any]


def tiles(blocks: Iterable[NDArray[Any]], queries: NDArray[np.float32], products: "Products | None" = None) -> Iterator[Tile]:
    """Yield the products of *queries* (queries, dimensions) with *blocks* (n, dimensions) of float32 or float16 vectors.

    *products* makes other scores of them; see `distances`. Blocks come in order of position; the tiles of all queries with
    some documents come before those of the next documents. The next tile overwrites the products.
    """
    queries = np.ascontiguousarray(queries, np.float32)
    buffer = np.empty(min(_QUERIES, len(queries)) * _DOCUMENTS, np.float32)
    position = 0
    for block in blocks:
        if len(block):
            same_width(queries.shape[1], block.shape[1], "dimensions")
        for first in range(0, len(block), _DOCUMENTS):
            documents = single(np.ascontiguousarray(block[first : first + _DOCUMENTS]))
            for query in range(0, len(queries), _QUERIES):
                batch = queries[query : query + _QUERIES]
                out = buffer[: len(batch) * len(documents)].reshape(len(batch), len(documents))
                if products:
                    products(batch, documents, out)
                else:
                    np.matmul(batch, documents.T, out=out)
                yield query, position, out
            position += len(documents)


def _sparse_tiles(blocks: Iterable[sparse.csr_array], queries: sparse.csr_array) -> Iterator[Tile]:
    """Yield the products of all *queries* (queries, vocabulary) with each of *blocks* (n, vocabulary)."""
    position = 0
    for block in blocks:
        yield 0, position, (queries @ block.T).toarray().astype(np.float32)
        position += block.shape[0]


def single(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Return *vectors* (n, dimensions), float32 or float16, as float32."""
    if vectors.dtype == np.float32:
        return vectors
    singles = np.empty(vectors.shape, np.float32)
    widen(vectors.view(np.uint16).reshape(-1), singles.reshape(-1))
    return singles


@njit(nogil=True, cache=True)
def widen(halves, singles):  # type: ignore[no-untyped-def]
    """Write finite float16 numbers, given as uint16 bits, exactly into the float32 array *singles* of the same length."""
    for i in range(len(halves)):
        bits = np.uint32(halves[i])
        # The exponent of a half is 112 less than that of the float32 with its bits in the same places.
        size = np.float32(np.uint32((bits & np.uint32(0x7FFF)) << np.uint32(13)).view(np.float32) * np.float32(2.0**112))
        sign = np.uint32((bits & np.uint32(0x8000)) << np.uint32(16))
        singles[i] = np.uint32(np.float32(size).view(np.uint32) | sign).view(np.float32)


# ---- recall of exact -------------------------------------------------------------------------------------------------------


def overlap(shards: Iterable[Any], queries: Any, hits: Hits, depths: Sequence[int] = (10, 100)) -> dict[int, float]:
    """Return the mean share of the exact best k that the first k of *hits* contain, for each k of *depths*.

    *shards* (n, dimensions) are the vectors of all documents in order of position, read once; *queries* (queries, dimensions)
    are those of *hits*; both numpy arrays, or both scipy CSR ones. A hit counts if its true product reaches the k-th of the
    exact ones, so that any of equal documents will do. If there are fewer documents than k, k is their number; without queries
    or documents nothing is missing: 1.

    This is as much work as an exact search of *queries*; a sample may do. Memory: one tile of products, and 16 bytes times
    queries times the largest k. Raises LexbenchError if a shard is not as wide as the queries.
    """
    docs = hits.docs[:, : max(depths)]
    true = np.full(docs.shape, -np.inf, np.float32)
    exact, documents = Best(len(docs), max(depths)), 0
    products_of = _sparse_tiles if sparse.issparse(queries) else tiles
    for query, position, products in products_of(shards, queries):
        exact.add(products, position, query)
        tile_docs = docs[query : query + len(products)]
        row, rank = np.nonzero((tile_docs >= position) & (tile_docs < position + products.shape[1]))
        true[query + row, rank] = products[row, tile_docs[row, rank] - position]
        documents = position + products.shape[1]
    scores = exact.hits().scores
    if not len(docs) or not documents:
        return dict.fromkeys(depths, 1.0)
    least = {k: scores[:, min(k, documents) - 1, None] for k in depths}
    return {k: float((true[:, :k] >= least[k]).sum(axis=1).mean()) / min(k, documents) for k in depths}


# ---- late interaction ------------------------------------------------------------------------------------------------------


def max_sim_scores(queries: MultiVectors, documents: MultiVectors) -> NDArray[np.float32]:
    """Return MaxSim scores (queries, documents); -inf if a document or a query has no token.

    Raises LexbenchError if the vectors of the two differ in width.
    """
    scores = np.full((queries.shape[0], documents.shape[0]), -np.inf, np.float32)
    if not (len(queries.values) and len(documents.values)):
        return scores
    same_width(queries.shape[1], documents.shape[1], "dimensions")
    largest, tokens = np.empty(len(queries.values), np.float32), queries.offsets.astype(np.int64)
    for some in pieces(documents.offsets, _PRODUCTS // len(queries.values)):
        offsets = documents.offsets[some.start : some.stop + 1]
        products = np.ascontiguousarray(documents.values[offsets[0] : offsets[-1]] @ queries.values.T)
        _sums_of_maxima(products, offsets - offsets[0], tokens, largest, scores, some.start)
    return scores


@njit(nogil=True, cache=True)
def _sums_of_maxima(products, documents, queries, largest, scores, first):  # type: ignore[no-untyped-def]
    """Fill *scores* (queries, documents) from column *first* on: sums of the largest products of a query's tokens.

    *products* (tokens of documents, tokens of queries) float32; *documents* and *queries* are offsets into its rows and
    columns. Scores of documents and queries without tokens stay as they are. *largest* has room for a row.
    """
    for document in range(len(documents) - 1):
        start, stop = documents[document], documents[document + 1]
        if start == stop:
            continue
        largest[:] = products[start]
        for token in range(start + 1, stop):
            row = products[token]
            for at in range(len(largest)):  # no branch: this becomes a vector instruction
                largest[at] = max(largest[at], row[at])
        for query in range(len(queries) - 1):
            if queries[query] < queries[query + 1]:
                total = 0.0  # in float64, so that the order of the tokens hardly matters
                for at in range(queries[query], queries[query + 1]):
                    total += largest[at]
                scores[query, first + document] = np.float32(total)
