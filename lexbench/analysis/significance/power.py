"""What a comparison could have found: a difference that is smaller than this would as a rule have gone unnoticed."""

import math

import numpy as np
from numpy.typing import NDArray

_LEAST = 2  # queries that have a spread


def minimum_detectable(differences: NDArray[np.float64], *, level: float = 0.05, power: float = 0.8) -> float:
    """Return the least mean of *differences* (queries,) that a paired, two-sided test at *level* finds with that *power*.

    (t[1 - level/2] + t[power]) x s / sqrt(queries), with quantiles of Student's t at queries - 1 degrees of freedom and the
    standard deviation s of the differences as observed: the minimum detectable effect of Bloom (Evaluation Review 19, 1995),
    for paired values. In the units of the measure, for one comparison; a corrected family detects less. Infinite for one query.
    """
    from scipy.stats import t  # half a second to import

    values = np.asarray(differences, dtype=np.float64)
    queries = len(values)
    if queries < _LEAST:
        return math.inf
    multiplier = t.ppf(1 - level / 2, queries - 1) + t.ppf(power, queries - 1)
    return float(multiplier * values.std(ddof=1) / math.sqrt(queries))
