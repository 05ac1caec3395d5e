"""Synthetic vectors like those of learned sparse retrieval: any number of documents, streamed, and real queries.

A document has about 120 distinct terms of 30,522, drawn independently by a law like Zipf's (the most frequent terms are in
about 30 % of the documents), with whole weights from 1 to 255, log-normal around 60. It only depends on the seed and its
position, so the first 200,000 documents of a million are always the same. Terms are independent, so engines that skip documents
can skip fewer of these than of real ones. Queries are those of SPLADE-v3 for MS MARCO dev/small if they are found.
"""

import gzip
import os
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import NormalDist

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

VOCABULARY = 30_522
TERMS = 120  # mean number of terms per document
SHARD = 50_000  # documents
SEED = 2026
TOPICS = Path("data", "msmarco", "topics.msmarco-passage.dev-subset.splade-v3.tsv.gz")

_SHIFT, _SLOPE = 50.0, 1.0  # a draw is the term of rank r in proportion to 1 / (r + shift) ** slope
_LENGTH_SPREAD, _WEIGHT, _WEIGHT_SPREAD = 0.3, 60, 0.6  # of logarithms, but for the median weight
_STEPS = 1 << 12  # quantiles of lengths and weights


def documents(count: int, seed: int = SEED, shard: int = SHARD, first: int = 0) -> Iterator[sparse.csr_array]:
    """Yield *count* documents, from position *first* on, in shards (*shard*, vocabulary) of float32 whole numbers.

    Columns ascend.
    """
    tables, last = _tables(), first + count
    for start in range(first, last, shard):
        rows = min(shard, last - start)
        starts = np.zeros(rows + 1, np.int64)
        terms, weights = np.empty(rows * 512, np.int32), np.empty(rows * 512, np.float32)
        filled = _fill(start, np.uint64(seed), *tables, starts, terms, weights)
        yield sparse.csr_array((weights[:filled].copy(), terms[:filled].copy(), starts), shape=(rows, VOCABULARY))


def queries(topics: Path | None = None, most: int | None = None) -> sparse.csr_array:
    """Return query vectors (queries, vocabulary) of float32 whole numbers: the first *most*, or all.

    *topics* has lines of a query id, a tab, and tokens repeated as often as their weight. The default is the file of
    SPLADE-v3's vectors for MS MARCO dev/small below the folder LEXBENCH_SHARED, or below `shared` beside the repository. The
    most frequent token of the queries becomes the most frequent term of the documents, and so on. Without the file, queries of
    24 terms are drawn.
    """
    place = topics or Path(os.environ.get("LEXBENCH_SHARED") or Path(__file__).parents[2] / "shared") / TOPICS
    counted = _read(place) if place.is_file() else _drawn(1000)
    frequencies = Counter(token for query in counted for token in query)
    ranked = sorted(frequencies, key=lambda token: (-frequencies[token], token))
    number = dict(zip(ranked, _by_frequency().tolist(), strict=False))
    counted = counted[:most]
    rows = [sorted((number[token], weight) for token, weight in query.items()) for query in counted]
    starts = np.cumsum([0, *map(len, rows)])
    terms = np.array([term for row in rows for term, _ in row], np.int32)
    weights = np.array([weight for row in rows for _, weight in row], np.float32)
    return sparse.csr_array((weights, terms, starts), shape=(len(rows), VOCABULARY))


def _read(place: Path) -> list[Counter[str]]:
    with gzip.open(place, "rt", encoding="utf-8") as lines:
        return [Counter(line.rstrip("\n").partition("\t")[2].split(" ")) for line in lines]


def _drawn(count: int) -> list[Counter[str]]:
    """Return queries of 24 made-up tokens with roughly the frequencies of SPLADE-v3's."""
    rng = np.random.default_rng(SEED)
    probability = 1 / (np.arange(13_000) + 60.0)
    probability /= probability.sum()
    rows = [rng.choice(len(probability), 24, replace=False, p=probability).tolist() for _ in range(count)]
    return [
        Counter({str(token): int(weight) for token, weight in zip(row, rng.integers(1, 100, 24), strict=True)}) for row in rows
    ]


@cache
def _by_frequency() -> NDArray[np.int32]:
    """Return the terms, most frequent first; they are scattered over the vocabulary."""
    return np.random.default_rng(SEED).permutation(VOCABULARY).astype(np.int32)


@cache
def _tables() -> tuple[NDArray[np.uint64], NDArray[np.int32], NDArray[np.uint8], NDArray[np.int32]]:
    """Return M. D. Vose's alias tables (1991) of the terms, and quantiles of weights and of lengths."""
    drawn = 1 / (np.arange(VOCABULARY) + _SHIFT) ** _SLOPE
    scaled = np.empty(VOCABULARY)
    scaled[_by_frequency()] = drawn * (VOCABULARY / drawn.sum())
    other = np.arange(VOCABULARY, dtype=np.int32)
    small, large = (list(np.flatnonzero(side)) for side in (scaled < 1, scaled >= 1))
    own = scaled.copy()
    while small and large:
        low, high = small.pop(), large[-1]
        other[low] = high
        own[high] -= 1 - own[low]
        if own[high] < 1:
            small.append(large.pop())
    normal = np.array([NormalDist().inv_cdf((i + 0.5) / _STEPS) for i in range(_STEPS)])
    weights = np.clip(np.round(_WEIGHT * np.exp(_WEIGHT_SPREAD * normal)), 1, 255).astype(np.uint8)
    lengths = np.exp(_LENGTH_SPREAD * normal)
    lengths = np.clip(np.round(TERMS / lengths.mean() * lengths), 1, 511).astype(np.int32)
    return (np.minimum(own, 1) * 2.0**32).astype(np.uint64), other, weights, lengths


@njit(nogil=True, cache=True)
def _mixed(state):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return 64 random bits: the output of splitmix64 (G. L. Steele et al., "Fast splittable generators", 2014)."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


@njit(nogil=True, cache=True)
def _fill(first, seed, own, other, weight_of, length_of, starts, terms, weights):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0913, PLR0917
    """Fill CSR arrays with documents from position *first*; return the number of weights."""
    step, half = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFFFFFFFF)
    has = np.zeros((len(own) + 63) // 64, np.uint64)  # one bit per term: finds duplicates, and gives sorted terms
    at = 0
    for row in range(len(starts) - 1):
        state = _mixed(seed * step + np.uint64(first + row + 1) * np.uint64(0xD1B54A32D192ED03))
        wanted = length_of[state & np.uint64(len(length_of) - 1)]
        found = 0
        while found < wanted:
            state += step
            bits = _mixed(state)
            term = np.int32(((bits >> np.uint64(32)) * np.uint64(len(own))) >> np.uint64(32))
            if (bits & half) >= own[term]:
                term = other[term]
            word, bit = term >> 6, np.uint64(1) << np.uint64(term & 63)
            if has[word] & bit == 0:
                has[word] |= bit
                found += 1
        for part in range(len(has)):
            left = has[part]
            has[part] = np.uint64(0)
            number = part * 64
            while left:
                while left & np.uint64(1) == 0:
                    left >>= np.uint64(1)
                    number += 1
                state += step
                terms[at] = number
                weights[at] = weight_of[_mixed(state) & np.uint64(len(weight_of) - 1)]
                at += 1
                left >>= np.uint64(1)
                number += 1
        starts[row + 1] = at
    return at
