"""What engines and `bm25` share: checks of vectors, reading indexes, filling in hits, threads, and silencing libraries."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

from lexbench.arrays.vectors import canonical, form_of, without_torch
from lexbench.errors import LexbenchError, shortened
from lexbench.types import Hits

_EXACT = 1 << 24  # float32 represents every whole number below
_SHOWN = 80  # characters of what is no list of hits
_SPARE = 64  # documents asked for beyond k: most ties at the end of a list are among them

T = TypeVar("T")
R = TypeVar("R")
Found: TypeAlias = tuple[NDArray[np.int64], NDArray[np.float32]]  # positions and scores (n,), best first, ties in any order
# Returns the best documents of a query: at most as many as the first argument, none with a score below the second, if given.
Ask: TypeAlias = Callable[[int, float | None], Found]


# ---- vectors ---------------------------------------------------------------------------------------------------------------


def same_width(queries: int, index: int, unit: str = "terms") -> None:
    """Raise LexbenchError unless query vectors are as wide as those of the index; *unit* is "terms" or "dimensions"."""
    if queries != index:
        raise LexbenchError(f"the queries have {queries:,} {unit} and the index has {index:,}; encode both with one encoder")


def one_width(engine: str, known: int, width: int) -> int:
    """Return the *width* of a shard. Raises LexbenchError if it differs from *known*, that of earlier shards, 0 for none."""
    if known not in {0, width}:
        raise LexbenchError(f"{engine} got vectors of {known:,} dimensions and of {width:,}; use one encoder")
    return width


def all_finite(vectors: NDArray[Any], what: str) -> None:
    """Raise LexbenchError unless *vectors* (n, dimensions) are finite; the message calls one of them *what*."""
    finite = np.isfinite(vectors)
    if not finite.all():
        row, column = np.argwhere(~finite)[0].tolist()
        raise LexbenchError(
            f"{what} has {vectors[row, column]} at dimension {column}, which is no finite {vectors.dtype} number; "
            "mend the encoder, or store its vectors in a wider type"
        )


def whole_weights(vectors: "scipy.sparse.csr_array", engine: str, most: int = 65_535) -> "scipy.sparse.csr_array":
    """Return quantised *vectors* with int32 weights, columns ascending in each row, without stored zeros.

    Raises LexbenchError, naming *engine*, unless every weight is a whole number from 0 to *most*.
    """
    matrix = canonical(vectors)
    wrong = (matrix.data < 0) | (matrix.data > most) | (matrix.data != np.floor(matrix.data))
    if wrong.any():
        raise LexbenchError(
            f"{engine} takes whole weights from 0 to {most:,}, and there is {matrix.data[wrong][0]:g}; "
            f"quantise the vectors, e.g. encoder|quantize(100)@{engine}"
        )
    return scipy.sparse.csr_array((matrix.data.astype(np.int32), matrix.indices, matrix.indptr), shape=matrix.shape)


def largest_weights(known: NDArray[np.float32], shard: "scipy.sparse.csr_array") -> NDArray[np.float32]:
    """Return the largest weight of each term (vocabulary,) in *shard* and in *known*, which is empty at first."""
    largest = np.zeros(shard.shape[1], np.float32)
    np.maximum.at(largest, shard.indices, shard.data.astype(np.float32))
    return np.maximum(known, largest) if len(known) else largest


def sums_fit(queries: "scipy.sparse.csr_array", largest: NDArray[np.float32], engine: str) -> None:
    """Raise LexbenchError if a query could have a score that float32, in which *engine* adds, does not represent exactly."""
    most = queries.astype(np.float64) @ largest.astype(np.float64)
    if len(most) and most.max() > _EXACT:
        raise LexbenchError(
            f"{engine}: a score could be {most.max():,.0f}, and above {_EXACT:,} sums are no longer exact; "
            f"quantise more coarsely, e.g. encoder|quantize(10)@{engine}"
        )


# ---- indexes and hits ------------------------------------------------------------------------------------------------------


def read_facts(path: Path, owner: str, layout: int) -> dict[str, Any]:
    """Return the facts of the index in *path*. Raises LexbenchError, naming its *owner*, if it has another *layout*."""
    facts: dict[str, Any] = json.loads((path / "facts.json").read_bytes())
    if facts.get("layout", 1) != layout:
        raise LexbenchError(f"{path} is an index of another version of lexbench, which {owner} cannot read; build it again")
    return facts


def map_bytes(path: Path) -> NDArray[np.uint8]:
    """Return the bytes of a file, mapped into memory, for a compiled loop."""
    # Mode "c" (copy on write), because numba is slow to find the type of read-only arrays. No code writes to them.
    return np.asarray(np.memmap(path, np.uint8, "c"))


def as_hits(found: Any, name: str, queries: int | None = None) -> Hits:
    """Return what a search *found* as hits, for so many *queries* if that is known.

    Raises LexbenchError with the *name* of the searcher unless it is whole positions and scores, both (queries, k).
    """
    try:
        docs, scores = map(np.asarray, found)
        said = f"{docs.dtype} {docs.shape} and {scores.dtype} {scores.shape}"
    except (TypeError, ValueError):
        docs = scores = np.empty(0)
        said = shortened(repr(found), _SHOWN)
    whole = docs.dtype.kind in "iu" and scores.dtype.kind in "iuf"
    if not whole or docs.ndim != 2 or docs.shape != scores.shape or queries not in {None, len(docs)}:  # noqa: PLR2004
        rows = "queries" if queries is None else f"{queries:,} queries"
        raise LexbenchError(
            f"{name} returned {said}; return lexbench.types.Hits(docs, scores): whole positions in the corpus, and numbers, "
            f"both ({rows}, k)"
        )
    return Hits(docs, scores)


def as_scores(found: Any, name: str, shape: tuple[int, ...], there: NDArray[np.bool_] | None = None) -> NDArray[np.float32]:
    """Return the scores that the method `score` of a class *name* returned, as float32.

    Raises LexbenchError unless they are numbers of this *shape*, finite where *there* is true (None: everywhere).
    """
    wanted = f"return a finite number for each document: float32 {shape}"
    scores = np.array(None)
    with suppress(TypeError, ValueError, RuntimeError):  # e.g. rows of several lengths
        scores = np.asarray(without_torch(found))
    numbers = scores.dtype.kind in "iuf"
    if not numbers or scores.shape != shape:
        raise LexbenchError(f"{name}.score returned {form_of(scores if numbers else found)}; {wanted}")
    wrong = ~np.isfinite(scores) & (True if there is None else there)
    if wrong.any():
        raise LexbenchError(f"{name}.score returned {scores[wrong][0]}; {wanted}")
    return scores.astype(np.float32, copy=False)


def no_hits(queries: int, k: int) -> Hits:
    """Return hits (queries, k) in which nothing has been found yet: positions -1, scores -inf."""
    return Hits(np.full((queries, k), -1, np.int32), np.full((queries, k), -np.inf, np.float32))


def fill(hits: Hits, row: int | np.integer[Any], docs: NDArray[np.integer[Any]], scores: NDArray[np.float32]) -> None:
    """Write *docs* (n,) and their *scores* into a row of *hits*: best first, ties by position, as many as fit."""
    order = np.lexsort((docs, -scores))[: hits.docs.shape[1]]
    hits.docs[row, : len(order)], hits.scores[row, : len(order)] = docs[order], scores[order]


def fill_exactly(hits: Hits, row: int, ask: Ask, documents: int) -> None:
    """Write the best of *documents* into a row of *hits*, from an engine that orders ties as it likes.

    If the last score may belong to more documents, *ask* is called again for all of that score.
    """
    k = hits.docs.shape[1]
    asked = min(k + _SPARE, documents)
    docs, scores = ask(asked, None)
    if k <= len(docs) == asked < documents and scores[-1] == scores[k - 1]:
        docs, scores = ask(documents, float(scores[k - 1]))
    fill(hits, row, docs, scores)


def ordered(docs: NDArray[np.int32], scores: NDArray[np.float32]) -> Hits:
    """Return *docs* (queries, k) and their *scores* as hits: best first, ties by position."""
    order = np.lexsort((docs, -scores), axis=1)
    return Hits(np.take_along_axis(docs, order, axis=1), np.take_along_axis(scores, order, axis=1))


# ---- threads and libraries -------------------------------------------------------------------------------------------------


def in_threads(act: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """Return the results of *act* for *items*, with so many *threads*; one thread, or one item, is this thread."""
    if min(threads, len(items)) <= 1:
        return list(map(act, items))
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(act, items))


@contextmanager
def quiet() -> Iterator[None]:
    """Discard everything that is written to the file descriptors 1 and 2, by code in any language."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    copies = [os.dup(number) for number in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in (1, 2):
            os.dup2(nowhere, number)
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for number, copy in zip((1, 2), copies, strict=True):
            os.dup2(copy, number)
            os.close(copy)
        os.close(nowhere)
