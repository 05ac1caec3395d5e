"""The paired randomisation test, its correction for many comparisons, and the least difference that it would find.

The test is Fisher's, by sign flips: Smucker, Allan and Carterette, CIKM 2007.

If two systems were the same, either could have had either score of a query: every difference could as well have had the other
sign. p is how often signs drawn at random give a mean at least as far from 0 as the observed one. The observed signs count as
one of the draws (Phipson and Smyth 2010), so p is never 0. Where so few queries differ that all signs can be gone through, they
are, and p is exact.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

SEED = 42
RESAMPLES = 10_000
LEVEL = 0.05  # of all tests
_BLOCK = 1 << 20  # values of a block of resamples: 8 MB as float64
_EQUAL = 1e-12  # sums that differ by less than this share of what was added up are the same sum, added in another order
_LEAST = 2  # queries that have a spread


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


def resamples_for(comparisons: int, level: float = LEVEL) -> int:
    """Return how many resamples a test takes so that the least p it can give stays below *level* when it is corrected.

    10,000 for up to 250 comparisons; from 500 on, no difference however clear could otherwise be significant.
    """
    return max(RESAMPLES, math.ceil(2 * comparisons / level))


def holm(ps: Sequence[float]) -> list[float]:
    """Return *ps* corrected by Holm's step-down method (Holm 1979), in the order given.

    Of a family corrected so, the chance that any true null hypothesis is rejected is at most the level, whatever depends on
    what.
    """
    order = np.argsort(ps, kind="stable")
    stepped = np.maximum.accumulate([(len(ps) - rank) * ps[at] for rank, at in enumerate(order)]) if len(ps) else np.zeros(0)
    corrected = np.empty(len(ps))
    corrected[order] = np.minimum(stepped, 1.0)
    return [float(p) for p in corrected]


def minimum_detectable(differences: NDArray[np.float64], *, level: float = LEVEL, power: float = 0.8) -> float:
    """Return the least mean of *differences* (queries,) that a paired, two-sided test at *level* finds with that *power*.

    (t[1 - level/2] + t[power]) x s / sqrt(queries), with quantiles of Student's t at queries - 1 degrees of freedom and the
    standard deviation s of the differences as observed: the minimum detectable effect of Bloom (Evaluation Review 19, 1995),
    for paired values. In the units of the measure, for one comparison; a corrected family detects less. Infinite for one query.
    """
    values = np.asarray(differences, dtype=np.float64)
    queries = len(values)
    if queries < _LEAST:
        return math.inf
    multiplier = student_quantile(1 - level / 2, queries - 1) + student_quantile(power, queries - 1)
    return float(multiplier * values.std(ddof=1) / math.sqrt(queries))


@cache
def student_quantile(share: float, freedom: float) -> float:
    """Return the value below which that *share* of Student's t distribution lies; *freedom*: its degrees of freedom."""
    from scipy.special import stdtrit  # what scipy.stats.t.ppf calls, without the half second to import scipy.stats

    return float(stdtrit(freedom, share))


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    checked = np.asarray(values, dtype=np.float64)
    if not checked.size or not np.isfinite(checked).all():
        raise ValueError("a test takes at least one query, and finite values")
    return checked


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
