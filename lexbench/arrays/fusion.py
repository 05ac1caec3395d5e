"""Normalises the scores of several lists for each query, and adds them with weights.

    raw     unchanged scores
    minmax  (s - min) / (max - min); 1 if all scores are equal (pyserini.fusion)
    z       (s - mean) / population standard deviation; 0 if all scores are equal
    rrf     1 / (rrf_k + rank), ranks from 1 (Cormack, Clarke and Büttcher, SIGIR 2009); equal scores: the lower position first

Each is computed over the documents of one list. A document that a list lacks gets the list's smallest value ("min", as in
Pyserini's HybridSearcher; 0 for an empty list) or 0 ("zero").

If a list of summed term scores is shorter than requested, the documents that it lacks contain no query term. With "min" these
documents have the score 0 before normalisation, and the normalisation includes them. Otherwise the only document that BM25
found would get the same value as all documents that it did not find.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import LexbenchError
from lexbench.types import Hits

SCORES = ("minmax", "raw", "rrf", "z")
_NONE = np.int32(np.iinfo(np.int32).max)  # sorts behind every position


class Rule(NamedTuple):
    """How lists are combined."""

    weights: tuple[float, ...]  # one per list
    scores: str  # one of SCORES
    missing: str  # "min" or "zero"
    rrf_k: int


def union(lists: Sequence[Hits]) -> NDArray[np.int32]:
    """Return the distinct positions (queries, n) of all lists, ascending in each row and padded with -1."""
    every = np.concatenate([hits.docs for hits in lists], axis=1)
    every = np.sort(np.where(every < 0, _NONE, every), axis=1)
    every[:, 1:][every[:, 1:] == every[:, :-1]] = _NONE
    every.sort(axis=1)
    every = every[:, : int((every != _NONE).sum(axis=1).max(initial=0))]
    return np.where(every == _NONE, -1, every).astype(np.int32)


def aligned(docs: NDArray[np.int32], hits: Hits) -> NDArray[np.float64]:
    """Return the scores in *hits* of the positions *docs* (queries, n), minus infinity where it has none.

    *docs* must contain all positions of *hits*, as `union` returns them.
    """
    # One sorted key per query and document, so that a single search places the scores of all queries.
    row = np.arange(len(docs))[:, None] << 31
    there = hits.docs >= 0
    places = np.searchsorted((row | np.where(docs < 0, _NONE, docs)).ravel(), (row | hits.docs)[there])
    found = np.full(docs.shape, -np.inf)
    found.flat[places] = hits.scores[there]
    return found


class ScoreMatrix(NamedTuple):
    """The documents of several lists with a normalised score from each list."""

    docs: NDArray[np.int32]  # (queries, n), ascending in each row, padded with -1
    values: list[NDArray[np.float64]]  # one array (queries, n) per list


def score_matrix(
    docs: NDArray[np.int32], lists: Sequence[NDArray[np.floating]], rule: Rule, ended: Sequence[NDArray[np.bool_]] = ()
) -> ScoreMatrix:
    """Return the normalised scores that each list gives to *docs* (queries, n; ascending in each row, padded with -1).

    *lists* has the scores (queries, n) of each list, minus infinity for documents that it lacks. *ended* says for each list and
    query (queries,) whether these have the score 0; by default none has. Raises LexbenchError if a score is not finite, because
    ranks would hide it.
    """
    normalised = []
    for number, scores in enumerate(lists):
        known = (docs >= 0) & (scores != -np.inf)
        if not np.isfinite(scores[known]).all():
            raise LexbenchError("a retriever among those combined gave a score that is not a finite number; run each alone")
        filled = np.where(known, scores, 0).astype(np.float64)
        if ended and rule.missing == "min" and rule.scores != "rrf":
            known |= (docs >= 0) & ended[number][:, None]
        values = _normalised(filled, known, rule)
        least = np.where(known, values, np.inf).min(axis=1, keepdims=True, initial=np.inf)
        filler = np.where(np.isfinite(least), least, 0) if rule.missing == "min" else 0
        normalised.append(np.where(known, values, filler))
    return ScoreMatrix(docs, normalised)


def weighted_sum(matrix: ScoreMatrix, weights: Sequence[float]) -> NDArray[np.float32]:
    """Return the weighted sums (queries, n) of the lists' scores, minus infinity where there is no document."""
    total = np.zeros(matrix.docs.shape)
    for weight, values in zip(weights, matrix.values, strict=True):
        total += weight * values
    with np.errstate(over="ignore"):  # a sum too large for float32 becomes infinite, and the harness refuses it
        return np.where(matrix.docs >= 0, total, -np.inf).astype(np.float32)


def _normalised(scores: NDArray[np.float64], known: NDArray[np.bool_], rule: Rule) -> NDArray[np.float64]:
    """Return the normalised *scores* (queries, n). Entries that are not *known* have no meaning."""
    if rule.scores == "minmax":
        low = np.where(known, scores, np.inf).min(axis=1, keepdims=True, initial=np.inf)
        high = np.where(known, scores, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
        return _ratio(scores - low, high - low, 1)
    if rule.scores == "z":
        count = np.maximum(known.sum(axis=1, keepdims=True), 1)
        centred = np.where(known, scores - scores.sum(axis=1, keepdims=True) / count, 0)
        spread = np.sqrt((centred**2).sum(axis=1, keepdims=True) / count)
        return _ratio(centred, spread, 0)
    if rule.scores == "rrf":
        order = np.argsort(np.where(known, -scores, np.inf), axis=1, kind="stable")
        ranks = np.empty(scores.shape)
        np.put_along_axis(ranks, order, np.arange(1.0, scores.shape[1] + 1)[None], axis=1)
        return 1 / (rule.rrf_k + ranks)
    return scores


def _ratio(values: NDArray[np.float64], spread: NDArray[np.float64], flat: float) -> NDArray[np.float64]:
    """Return *values* (queries, n) divided by their *spread* (queries, 1), and *flat* where the spread is 0."""
    found = np.full(values.shape, float(flat))
    np.divide(values, spread, out=found, where=np.broadcast_to(spread > 0, values.shape))
    return found


def top_k(docs: NDArray[np.int32], scores: NDArray[np.float32], k: int) -> Hits:
    """Return the top *k* of *docs* (queries, n), which ascend in each row. Equal scores: the lower position first."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return Hits(np.take_along_axis(docs, order, axis=1), np.take_along_axis(scores, order, axis=1))
