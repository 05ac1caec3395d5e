"""Where the paired randomisation test misleads: few queries, and differences that are skewed.

The test assumes that a difference could as well have had the other sign. An ensemble or a pruned index may lose a little on
most queries and win much on a few. If it is truly level, the test then calls it worse too often, because a sample easily lacks
the wins. `benchmarks/significance.py --simulate` measures how often; no test can see wins that are in none of the queries.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from lexbench.results import Note

FEWEST = 30  # queries, from which on intervals keep their level if the rare queries are among them
_SKEWED = 0.2  # skewness divided by the root of the number of queries
# The highest rates at which the test at .05 rejects a true null of rare wins that most samples have, by the number of queries.
_RATES = {30: "20 %", 50: "13 %", 115: "8 %", 300: "6 %"}


def skewness(differences: NDArray[np.float64]) -> float:
    """Return the skewness of *differences* (queries,): the third central moment over the cube of the standard deviation."""
    centred = np.asarray(differences, np.float64) - np.mean(differences)
    deviation = float(np.sqrt(np.mean(centred**2)))
    return float(np.mean(centred**3)) / deviation**3 if deviation else 0.0


def cautions(dataset: str, differences: Mapping[str, NDArray[np.float64]]) -> Iterator[Note]:
    """Yield notes on what p values of *differences* (queries,), by the name of the pair, assume on a dataset."""
    queries = len(next(iter(differences.values()), np.zeros(FEWEST)))
    if queries < FEWEST:
        yield Note(
            "test",
            f"{dataset} has {queries} queries: below {FEWEST}, a system that wins rarely and is truly level is called worse in "
            "up to a third of cases, not in 5 %; no test of so few queries can help",
        )
    elif skewed := [name for name, values in differences.items() if abs(skewness(values)) > _SKEWED * sqrt(queries)]:
        rate = _RATES[sorted(_RATES)[bisect_right(sorted(_RATES), queries) - 1]]
        shown = f"{skewed[0]}" + (f" and {len(skewed) - 1} more" if len(skewed) > 1 else "")
        yield Note(
            "test",
            f"{dataset}: differences are skewed ({shown}), and p assumes symmetric ones: if wins are rare, it rejects a true "
            f"null in up to {rate} of cases; the interval does not assume it",
        )
