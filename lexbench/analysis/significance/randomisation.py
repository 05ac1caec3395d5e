"""The paired randomisation test (Fisher's, by sign flips): Smucker, Allan and Carterette, CIKM 2007.

If two systems were the same, either could have had either score of a query: every difference could as well have had the other
sign. p is how often signs drawn at random give a mean at least as far from 0 as the observed one. The observed signs count as
one of the draws (Phipson and Smyth 2010), so p is never 0. Where so few queries differ that all signs can be gone through, they
are, and p is exact.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

SEED = 42
RESAMPLES = 10_000
_BLOCK = 1 << 20  # values of a block of resamples: 8 MB as float64
_EQUAL = 1e-12  # sums that differ by less than this share of what was added up are the same sum, added in another order


def p_value(differences: NDArray[np.float64], *, resamples: int = RESAMPLES, seed: int = SEED) -> float:
    """Return the two-sided p that the mean of *differences* (queries,) is 0."""
    values = _finite(differences)
    changed = values[values != 0]
    if 2 ** len(changed) <= resamples:
        return _exact(changed)
    sums = np.concatenate([bits @ values for bits in _bits(len(values), resamples, seed)])
    return _share(np.abs(2 * sums - values.sum()), abs(values.sum()), float(np.abs(values).sum()))


def pairwise(scores: NDArray[np.float64], *, resamples: int = RESAMPLES, seed: int = SEED) -> NDArray[np.float64]:
    """Return p_value of every two rows of *scores* (systems, queries), as a symmetric matrix; 1 on its diagonal.

    All pairs share the same signs, so that they cost one matrix product.
    """
    values = _finite(scores)
    systems, queries = values.shape
    sums = np.concatenate([bits @ values.T for bits in _bits(queries, resamples, seed)])  # (resamples, systems)
    centred = 2 * sums - values.sum(axis=1)
    ps = np.ones((systems, systems))
    for one, other in combinations(range(systems), 2):
        difference = values[one] - values[other]
        changed = difference[difference != 0]
        if 2 ** len(changed) <= resamples:
            p = _exact(changed)
        else:
            added = float(np.abs(values[one]).sum() + np.abs(values[other]).sum())
            p = _share(np.abs(centred[:, one] - centred[:, other]), abs(difference.sum()), added)
        ps[one, other] = ps[other, one] = p
    return ps


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    found = np.asarray(values, dtype=np.float64)
    if not found.size or not np.isfinite(found).all():
        raise ValueError("a test takes at least one query, and finite values")
    return found


def _bits(queries: int, resamples: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """Yield blocks (n, queries) of random 0 and 1, *resamples* rows in all: which differences keep their sign."""
    rng = np.random.default_rng(seed)
    width = -(-queries // 8)
    rows = max(1, _BLOCK // queries)
    for start in range(0, resamples, rows):
        count = min(rows, resamples - start)
        packed = np.frombuffer(rng.bytes(count * width), dtype=np.uint8).reshape(count, width)
        yield np.unpackbits(packed, axis=1, count=queries).astype(np.float64)


def _share(resampled: NDArray[np.float64], observed: float, added: float) -> float:
    """Return p: the share of sums at least as far from 0 as *observed*, that one among them."""
    extreme = int(np.count_nonzero(resampled >= observed - _EQUAL * added))
    return (1 + extreme) / (1 + len(resampled))


def _exact(changed: NDArray[np.float64]) -> float:
    """Return p over all signs of the differences *changed*, none of which is 0."""
    sums = np.zeros(1)
    for value in changed:
        sums = np.concatenate([sums + value, sums - value])
    return float(np.mean(np.abs(sums) >= abs(changed.sum()) - _EQUAL * np.abs(changed).sum()))
