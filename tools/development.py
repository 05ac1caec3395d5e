"""Score systems on the development collections, which choose models and settings and are never reported as test results.

    python tools/development.py FOLDER 'lexmae_nano@impact' 'idf = lexmae_nano|collection_idf(power=0.7)@impact' \
        --start 'splade_tiny(model="build/splade-tiny")@impact' --baseline 'lexmae_nano@impact'

FOLDER has a BEIR folder per collection. Cranfield is read from LEXBENCH_DATA, SciFact and NFCorpus from IR_DATASETS_HOME.
bm25 is always scored. The gains are means over collections of the difference to bm25 and to the start model; the worst
collection is the one with the smallest difference to either. Finished work in the store is not repeated.
"""

import argparse
import json
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lexbench.analysis.significance import bootstrap, randomisation
from lexbench.display.table import Table, markdown
from lexbench.errors import LexbenchError
from lexbench.runner import jobs
from lexbench.runner.plan import plan_dataset
from lexbench.storage.store import Store
from lexbench.suites import HEADLINE

BM25 = "bm25"
FOLDERS = ("cacm", "cisi", "med", "cystic_fibrosis", "dl21_pool", "trecqa/qrels/dev.tsv")
DATASETS = ("cranfield", "beir/scifact/train", "beir/nfcorpus/dev", "pydoc/dev")
DEPTH = 100
Scores = dict[str, dict[str, NDArray[np.float64]]]  # nDCG@10 per query, by collection and system


def collections(folder: Path) -> dict[str, str]:
    """Return what to run for each collection, by its short name."""
    places = {name.partition("/")[0]: str((folder / name).resolve()) for name in FOLDERS}
    return places | {name: name for name in DATASETS}


def score(folder: Path, systems: Sequence[str]) -> Scores:
    """Return the scores of *systems* on every collection. A collection that fails is left out, with a line on why."""
    scores: Scores = {}
    for name, dataset in collections(folder).items():
        try:
            outcomes = list(jobs.run(plan_dataset(dataset, systems, (HEADLINE,), DEPTH), Store()))
        except LexbenchError as error:  # e.g. the folder is not there
            print(f"{name} is left out: {error}")
            continue
        if failed := next((outcome.error for outcome in outcomes if outcome.error), None):
            print(f"{name} is left out: {failed}")
            continue
        results = [outcome.result for outcome in outcomes if outcome.result]
        measure = next(iter(results[0].per_query))  # with the dataset's relevance threshold
        scores[name] = {result.system: np.array(result.per_query[measure]) for result in results}
    return scores


def differences(scores: Scores, system: str, other: str) -> dict[str, NDArray[np.float64]]:
    """Return *system* minus *other* per query, by collection."""
    return {name: by_system[system] - by_system[other] for name, by_system in scores.items()}


def means_table(scores: Scores, systems: Sequence[str], start: str | None) -> Table:
    """Return the means of *systems* on each collection, their mean gains, and their worst collection."""
    rows = []
    for system in systems:
        means = [float(by_system[system].mean()) for by_system in scores.values()]
        others = [differences(scores, system, other) for other in (BM25, start) if other]
        gains = [{name: float(row.mean()) for name, row in other.items()} for other in others]
        worst, name = min((gain, name) for by_name in gains for name, gain in by_name.items())
        cells = [f"{mean:.4f}" for mean in [*means, float(np.mean(means))]]
        cells += [f"{np.mean(list(by_name.values())):+.4f}" for by_name in gains]
        rows.append((system, *cells, f"{worst:+.4f} {name}"))
    over = ["- bm25", *(["- start"] if start else [])]
    return Table(HEADLINE, ("system", *scores, "mean", *over, "worst"), tuple(rows))


def tests_table(scores: Scores, systems: Sequence[str], baseline: str) -> Table:
    """Return the differences to *baseline* with 95 % intervals and p: of the mean over collections, and of each collection.

    p of the collections is corrected by Holm, for the collections of a system.
    """
    rows = []
    for system in systems:
        by_collection = list(differences(scores, system, baseline).values())
        weighted = np.concatenate([row / len(row) for row in by_collection])  # so that each collection counts the same
        mean = float(np.mean([row.mean() for row in by_collection]))
        cells = [_cell(mean, bootstrap.macro_difference_interval(by_collection), randomisation.p_value(weighted))]
        corrected = randomisation.holm([randomisation.p_value(row) for row in by_collection])
        cells += [_cell(row.mean(), bootstrap.interval(row), p) for row, p in zip(by_collection, corrected, strict=True)]
        rows.append((system, *cells))
    return Table(f"minus {baseline}", ("system", "mean", *scores), tuple(rows))


def _cell(difference: float, interval: tuple[float, float], p: float) -> str:
    return f"{difference:+.3f} [{interval[0]:+.3f}, {interval[1]:+.3f}], {p:.3f}"


def main() -> None:
    """Score the systems, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("systems", nargs="+", metavar="SYSTEM", help="an expression, or NAME = EXPRESSION")
    parser.add_argument("--start", help="the expression of the model that training started from")
    parser.add_argument("--json", type=Path, help="write the scores of each query here, too")
    parser.add_argument("--baseline", default=BM25, help="the name of the system that intervals and p compare with")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    typed = list(dict.fromkeys(filter(None, (BM25, options.start, *options.systems))))
    scores = score(options.folder, typed)
    if not scores:
        raise SystemExit(1)  # each collection has its line
    if options.json:
        rows = {name: {one: values.tolist() for one, values in by_system.items()} for name, by_system in scores.items()}
        options.json.write_text(json.dumps(rows), encoding="utf-8")
    names = list(next(iter(scores.values())))
    if options.baseline not in names:
        parser.error(f"--baseline {options.baseline}: there is {', '.join(names)}; type one of these names")
    start = names[1] if options.start else None
    print(markdown(means_table(scores, names, start)))
    print(f"\nDifferences to {options.baseline}, with 95 % interval and p:\n")
    others = [name for name in names if name not in (options.baseline, BM25, start)]
    print(markdown(tests_table(scores, others, options.baseline)))


if __name__ == "__main__":
    main()
