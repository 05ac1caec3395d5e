"""Exact search over the vectors of an index, with and without filters: what `lexbench probe` compares with."""

import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lexbench.arrays.vectors import stacked
from lexbench.datasets.digests import drawn_number
from lexbench.errors import CannotStart, CommandError
from lexbench.outside.running import is_sparse
from lexbench.probing.targets import Block

_BEYOND = 100  # documents after the k-th that may tie with it
_ROUNDING = 1e-5  # two scores that differ by less, relative to the larger one, are equal


class Exact(NamedTuple):
    """The exact answer to one query: scores by document, and the score from which a document is among the best k."""

    scores: Mapping[str, float]
    bar: float
    k: int  # fewer than asked for if fewer documents match
    ties: bool  # whether a document beyond the k-th has its score


def sample(blocks: Iterable[Block], count: int) -> tuple[list[str], Any]:
    """Return the ids and vectors (count, width) of documents drawn by their ids."""
    drawn: list[tuple[float, str, Any]] = []
    for names, rows in blocks:
        of_block = heapq.nsmallest(count, ((drawn_number(name, "probe"), name, at) for at, name in enumerate(names)))
        drawn = heapq.nsmallest(
            count, [*drawn, *((number, name, rows[[at]]) for number, name, at in of_block)], key=lambda one: one[:2]
        )
    if not drawn:
        raise CannotStart("the index has no vectors")
    return [name for _, name, _ in drawn], stacked([row for *_, row in drawn])


def exact_answers(
    blocks: Iterable[Block], queries: Any, k: int, similarity: str, *, own: Sequence[str] | None = None,
    filters: Sequence[Collection[str] | None] = (None,),
) -> tuple[list[list[Exact]], int]:  # fmt: skip
    """Return the exact answers to *queries* (n, width) under each of *filters*, and the number of documents.

    A filter is the ids that pass it; None passes all. *own* are the ids of the documents that the queries are, which are left
    out. Sparse vectors without a common term do not match. Memory does not grow with the documents. Raises CommandError if
    queries and documents do not fit together.
    """
    left = _unit(queries) if similarity == "cosine" else queries
    best: list[list[list[tuple[float, str]]]] = [[[] for _ in range(left.shape[0])] for _ in filters]
    documents = 0
    for names, rows in blocks:
        documents += len(names)
        scores = _scores(left, _fitting(rows, left), similarity)
        for lists, ids in zip(best, filters, strict=True):
            kept = np.arange(len(names)) if ids is None else np.flatnonzero([name in ids for name in names])
            for row, of_query in enumerate(scores[:, kept]):
                top = np.argsort(-of_query)[: k + _BEYOND]
                found = ((float(of_query[at]), names[kept[at]]) for at in top if of_query[at] > -np.inf)
                mine = (pair for pair in found if own is None or pair[1] != own[row])
                lists[row] = heapq.nlargest(k + _BEYOND, [*lists[row], *mine])
    return [[_exact(found, k) for found in lists] for lists in best], documents


def _fitting(rows: Any, queries: Any) -> Any:
    """Return *rows* of documents as wide as *queries*. Raises CommandError if they are of another kind or width."""
    if is_sparse(rows) != is_sparse(queries):
        kinds = ["sparse" if is_sparse(one) else "dense" for one in (queries, rows)]
        raise CommandError(f"queries are {kinds[0]} vectors, and documents are {kinds[1]}")
    if is_sparse(rows) and rows.shape[1] < queries.shape[1]:  # the server does not say how wide they are
        return sparse.csr_array((rows.data, rows.indices, rows.indptr), shape=(rows.shape[0], queries.shape[1]))
    if rows.shape[1] != queries.shape[1] and not is_sparse(rows):
        raise CommandError(f"queries have {queries.shape[1]} dimensions, documents {rows.shape[1]}")
    return rows


def _scores(queries: Any, rows: Any, similarity: str) -> NDArray[np.float32]:
    """Return the scores (queries, documents); of sparse vectors without a common term -inf."""
    rows = _unit(rows) if similarity == "cosine" else rows
    if not is_sparse(rows):
        scores: NDArray[np.float32] = queries @ rows.T
        return 2 * scores - (rows**2).sum(1) - (queries**2).sum(1, keepdims=True) if similarity == "l2" else scores
    if queries.shape[1] < rows.shape[1]:
        queries = sparse.csr_array((queries.data, queries.indices, queries.indptr), shape=(queries.shape[0], rows.shape[1]))
    scores = (queries @ rows.T).toarray()
    if similarity == "l2":
        return np.asarray(2 * scores - (rows**2).sum(1) - (queries**2).sum(1)[:, np.newaxis], np.float32)
    scores[scores == 0] = -np.inf
    return scores


def _unit(rows: Any) -> Any:
    """Return *rows* (n, width) of length 1."""
    if is_sparse(rows):
        lengths = np.sqrt((rows**2).sum(1))
        scaled: Any = sparse.diags_array(1 / np.maximum(lengths, np.finfo(np.float32).tiny)) @ rows
        return sparse.csr_array(scaled).astype(np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.maximum(lengths, np.finfo(np.float32).tiny)).astype(np.float32)


def _exact(found: Sequence[tuple[float, str]], k: int) -> Exact:
    last = found[min(k, len(found)) - 1][0] if found else 0.0
    bar = last - _ROUNDING * max(abs(last), 1e-9)
    return Exact({name: score for score, name in found}, bar, min(k, len(found)), sum(score >= bar for score, _ in found) > k)


def recall(exact: Exact, found: Iterable[str]) -> float:
    """Return the share of the exact top k in *found*; 1 if no document matches. Any document that ties with the k-th counts."""
    if not exact.k:
        return 1.0
    return min(sum(exact.scores.get(name, -np.inf) >= exact.bar for name in set(found)), exact.k) / exact.k


def rows_of(queries: Any) -> Iterator[Any]:
    """Yield each query: a row (width,) of dense vectors, a matrix (1, width) of sparse ones."""
    return (queries[[at]] if is_sparse(queries) else queries[at] for at in range(queries.shape[0]))
