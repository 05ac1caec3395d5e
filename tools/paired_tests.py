"""Compare systems on the same queries: means with 95 % intervals, and paired tests against one of them.

    lexbench run suite pydoc -r bm25 -r 'lexmae_nano@impact' --save build/results
    python tools/paired_tests.py build/results --measure nDCG@10 --against bm25

Intervals are bootstrap percentiles over queries (scipy.stats.bootstrap, 10,000 resamples); p is that of a two-sided paired
randomisation test (scipy.stats.permutation_test, 10,000 sign flips), corrected by Holm for all systems that are compared on a
dataset. FOLDER is what --save wrote.
"""

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from lexbench.report.leaderboard import read_results
from lexbench.results import Result

RESAMPLES = 10_000
SEED = 42


def interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the mean of *values* (queries,)."""
    found = stats.bootstrap((values,), np.mean, n_resamples=RESAMPLES, method="percentile", rng=np.random.default_rng(SEED))
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def p_value(differences: NDArray[np.float64]) -> float:
    """Return the two-sided p of the paired randomisation test that the mean of *differences* (queries,) is 0."""
    if not differences.any():
        return 1.0
    rng = np.random.default_rng(SEED)
    found = stats.permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=RESAMPLES, rng=rng)
    return float(found.pvalue)


def holm(ps: Sequence[float]) -> list[float]:
    """Return *ps* corrected by Holm's step-down method."""
    order = np.argsort(ps)
    stepped = np.maximum.accumulate([(len(ps) - rank) * ps[at] for rank, at in enumerate(order)])
    corrected = np.empty(len(ps))
    corrected[order] = np.minimum(stepped, 1.0)
    return list(map(float, corrected))


def main() -> None:
    """Print a table for each dataset."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--measure", default="nDCG@10")
    parser.add_argument("--against", default="bm25")
    given = parser.parse_args()
    by_dataset: dict[str, dict[str, Result]] = defaultdict(dict)
    for path in sorted(given.folder.glob("results/*/*.json")):
        for one in read_results(path).results:
            by_dataset[one.dataset][one.system] = one
    for dataset, systems in by_dataset.items():
        print(f"{dataset}, {given.measure} of {systems[given.against].counts.queries} queries")
        values = {name: np.array(one.per_query[given.measure]) for name, one in systems.items()}
        others = [name for name in values if name != given.against]
        corrected = dict(zip(others, holm([p_value(values[name] - values[given.against]) for name in others]), strict=True))
        for name in sorted(values, key=lambda name: -values[name].mean()):
            low, high = interval(values[name])
            told = f"{values[name].mean():.4f} [{low:.4f}, {high:.4f}]"
            if name in corrected:
                difference = values[name] - values[given.against]
                low, high = interval(difference)
                told += f"  {difference.mean():+.4f} [{low:+.4f}, {high:+.4f}]  p {corrected[name]:.4f}"
                told += f"  better {int((difference > 0).sum())}, worse {int((difference < 0).sum())}"
            print(f"  {name:60} {told}")


if __name__ == "__main__":
    main()
