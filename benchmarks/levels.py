"""How often tests find a difference where there is none, and how often intervals contain the true mean, by simulation.

    python benchmarks/levels.py [--samples 1000] [--queries 10 30 50 115 300] [--json FILE]

Every row draws samples of differences whose true mean is 0, or of scores whose true mean is known. A test at .05 should reject
at most 5 % of the differences, and 95 % of the intervals should contain the mean of the scores. "found" draws symmetric
differences whose mean is 2.8 standard errors, which a t test finds in 80 % of cases. `unseen` is the test of lexbench.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from lexbench.analysis.significance import bootstrap, randomisation
from lexbench.analysis.significance.noninferiority import lower_bound

Values = NDArray[np.float64]
LEVEL = 0.05
RESAMPLES = 1999
QUERIES = (10, 30, 50, 115, 300)
DEVIATION = 0.2  # of the symmetric differences
EFFECT = 2.8  # standard errors


def wins(share: float, size: float) -> Callable[[np.random.Generator, tuple[int, int]], Values]:
    """Return a drawer of differences with mean 0: a *share* of wins of about *size*, and a small loss everywhere else."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> Values:
        loss = share * size / (1 - share)
        won = rng.random(shape) < share
        return np.where(won, size * rng.uniform(0.5, 1.5, shape), -loss * rng.gamma(2, 0.5, shape))

    return draw


DIFFERENCES: dict[str, Callable[[np.random.Generator, tuple[int, int]], Values]] = {
    "symmetric": lambda rng, shape: rng.normal(0, DEVIATION, shape).clip(-1, 1),
    "symmetric, 60 % are 0": lambda rng, shape: rng.normal(0, 0.3, shape).clip(-1, 1) * (rng.random(shape) < 0.4),
    "log-normal": lambda rng, shape: 0.02 * (rng.lognormal(0, 1, shape) - np.exp(0.5)),
    "wins .5 in 10 %": wins(0.1, 0.5),
    "wins .5 in 5 %": wins(0.05, 0.5),
    "wins .6 in 2 %": wins(0.02, 0.6),
}
SCORES: dict[str, tuple[float, Callable[[np.random.Generator, tuple[int, int]], Values]]] = {
    "uniform": (0.5, lambda rng, shape: rng.random(shape)),
    "0 in 90 %, else uniform": (0.05, lambda rng, shape: rng.random(shape) * (rng.random(shape) < 0.1)),
    "1 in 95 %, else 0": (0.95, lambda rng, shape: (rng.random(shape) < 0.95).astype(np.float64)),
}


def percentile(samples: Values) -> Values:
    """Return the percentile bootstrap intervals (samples, 2)."""
    tail = 50 * LEVEL
    return np.asarray(np.percentile(bootstrap.means(samples, resamples=RESAMPLES), [tail, 100 - tail], axis=0).T)


def by_interval(intervals: Callable[[Values], Values]) -> Callable[[Values], Values]:
    """Return the test that rejects where an interval is without 0."""

    def rejected(samples: Values) -> Values:
        low, high = intervals(samples).T
        return np.asarray((low > 0) | (high < 0))

    return rejected


def randomised(samples: Values) -> Values:
    """Return where the randomisation test rejects."""
    return np.array([randomisation.p_value(row, resamples=RESAMPLES) <= LEVEL for row in samples])


def johnson(samples: Values) -> Values:
    """Return where Johnson's modified t test (JASA 73, 1978) rejects; equal values are called different."""
    count, means, variances = samples.shape[1], samples.mean(axis=1), samples.var(axis=1, ddof=1)
    third = stats.moment(samples, 3, axis=1) * count**2 / ((count - 1) * (count - 2))
    shifted = means + third / (6 * variances * count) + third / (3 * variances**2) * means**2
    return np.asarray(2 * stats.t.sf(np.abs(shifted / np.sqrt(variances / count)), count - 1) <= LEVEL)


def studentised(samples: Values) -> Values:
    """Return where the bootstrap-t (Hall and Wilson, Biometrics 47, 1991) rejects."""
    count = samples.shape[1]
    drawn = np.random.default_rng(1).multinomial(count, np.full(count, 1 / count), size=RESAMPLES).astype(np.float64)
    means = samples @ drawn.T / count
    variances = np.maximum(samples**2 @ drawn.T / count - means**2, 1e-12)
    observed = samples.mean(axis=1) / samples.std(axis=1) * np.sqrt(count)
    resampled = (means - samples.mean(axis=1, keepdims=True)) / np.sqrt(variances) * np.sqrt(count)
    tails = [(1 + (sign * resampled >= sign * observed[:, np.newaxis]).sum(axis=1)) / (1 + RESAMPLES) for sign in (1, -1)]
    return np.asarray(2 * np.minimum(*tails) <= LEVEL)


def betting(samples: Values) -> Values:
    """Return where the betting bound that `gate` and `compare --margin` use is above 0, on either side."""
    clipped = samples.clip(-1, 1)
    return np.array([max(lower_bound(sign * row, level=LEVEL / 2) for sign in (1, -1)) > 0 for row in clipped])


TESTS: dict[str, Callable[[Values], Values]] = {
    "randomisation": randomised,
    "percentile": by_interval(percentile),
    "Johnson": johnson,
    "bootstrap-t": studentised,
    "betting": betting,
    "unseen": by_interval(bootstrap.intervals),
}
INTERVALS: dict[str, Callable[[Values], Values]] = {
    "percentile": percentile,
    "unseen": lambda samples: bootstrap.intervals(samples, unseen=bootstrap.SCORES),
}


def main() -> None:
    """Print one line per kind of values and number of queries."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--queries", type=int, nargs="+", default=QUERIES)
    parser.add_argument("--json", type=Path, help="write all rates to this file")
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    rates: list[dict[str, object]] = []

    def row(what: str, values: str, queries: int, found: dict[str, float]) -> None:
        rates.append({"what": what, "values": values, "queries": queries, **found})
        cells = "  ".join(f"{name} {rate:.3f}" for name, rate in found.items())
        print(f"{what:9} {values:24} {queries:5}  {cells}", flush=True)

    for values, draw in DIFFERENCES.items():
        for queries in given.queries:
            samples = draw(rng, (given.samples, queries))
            row("rejected", values, queries, {name: float(test(samples).mean()) for name, test in TESTS.items()})
    for queries in given.queries:
        samples = (rng.normal(0, DEVIATION, (given.samples, queries)) + EFFECT * DEVIATION / queries**0.5).clip(-1, 1)
        row("found", "symmetric", queries, {name: float(test(samples).mean()) for name, test in TESTS.items()})
    for values, (mean, draw) in SCORES.items():
        for queries in given.queries:
            samples = draw(rng, (given.samples, queries))
            ends = {name: intervals(samples).T for name, intervals in INTERVALS.items()}
            covered = {name: float(((low <= mean) & (mean <= high)).mean()) for name, (low, high) in ends.items()}
            row("covered", values, queries, covered)
    if given.json:
        given.json.write_text(json.dumps({"samples": given.samples, "rates": rates}, indent=1) + "\n")


if __name__ == "__main__":
    main()
