"""Systems against a baseline, from their results: intervals, paired tests, Holm over all of them, margins, and what changed."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench import suites
from lexbench.analysis.compare.config_diff import config_diff
from lexbench.analysis.compare.model import (
    Comparison,
    DatasetComparison,
    Difference,
    MeanComparison,
    MeanDifference,
    NoWorse,
    Score,
)
from lexbench.analysis.compare.per_query import Pair, StoreReader, most_changed
from lexbench.analysis.compare.selection import SelectedSystem, check_comparable, common_datasets, select
from lexbench.analysis.incompleteness import judged_gaps
from lexbench.analysis.seeds import interval_over_seeds
from lexbench.analysis.significance import bootstrap, noninferiority, randomisation
from lexbench.analysis.significance.randomisation import LEVEL
from lexbench.analysis.slices import Slices
from lexbench.analysis.stored_results import StoredResult
from lexbench.contracts import find_contract
from lexbench.errors import CommandError
from lexbench.measures import with_threshold
from lexbench.results import BOUND, Result
from lexbench.runner.plan import HEADLINE
from lexbench.storage.store import Store

_FEWEST = 2
_ROUNDING = 1e-9  # by which a perfect score may be off

Values = Mapping[str, NDArray[np.float64]]  # (queries,) by system, the baseline first


def compare(  # noqa: PLR0913 - what a comparison is of, each by its name
    names: Sequence[str],
    *,
    store: Store,
    folder: Path | None = None,
    datasets: Sequence[str] = (),
    measure: str | None = None,
    margin: float | None = None,
    queries: int = 5,
    seeds: Mapping[str, Sequence[str]] = {},
    slices: Slices | None = None,
) -> Comparison:
    """Compare the systems that *names* stand for (labels, result files, folders of these) with the first of them.

    Labels are looked for in the store, or in *folder*, a folder of results. The systems are compared on *datasets* (default:
    all that all of them have results on) by *measure* (default: the headline of the dataset's suite); with *margin*, also
    whether each is no worse by more than it. *queries* is how many of the most changed are looked at; *seeds* names systems
    that are several as one; on each of *slices*, of the one dataset, all are compared too.

    CannotStart where results are not of the same data under the same contract: they are no comparison.
    """
    systems = select(names, store, folder, seeds)
    if len(systems) < _FEWEST:
        raise CommandError(f"a comparison takes two systems or more; there is {systems[0].label}")
    labels = [system.label for system in systems]
    measures = {name: measure_of(name, measure) for name in common_datasets(systems, datasets)}
    chosen = {name: [system.newest(name, measures[name]) for system in systems] for name in measures}
    for name, group in chosen.items():
        check_comparable(name, labels, group)
    by_label = {name: dict(zip(labels, (entry.result for entry in group), strict=True)) for name, group in chosen.items()}
    family = (len(systems) - 1) * len(chosen)
    resamples = randomisation.resamples_for(family, LEVEL)
    values = {name: _values(by_label[name], measures[name]) for name in chosen}
    tested = [_on_dataset(by_label[name], values[name], measures[name], resamples) for name in chosen]
    corrected = _holm(tested)
    if margin is not None:
        corrected = _margins(corrected, values, margin, LEVEL / family)
    sliced = _on_slices(by_label, measures, slices) if slices else []
    reader = StoreReader(store)
    pairs = [
        [Pair(label, measures[name], group[0], group[at]) for name, group in chosen.items()]
        for at, label in enumerate(labels[1:], start=1)
    ]
    return Comparison(
        systems=labels,
        config_diff=config_diff([[group[at].result for group in chosen.values()] for at in range(len(labels))]),
        datasets=corrected,
        means=list(_means(measures, values)),
        query_changes=[change for of_system in pairs for change in most_changed(of_system, queries, reader)],
        resamples=resamples,
        margin=margin,
        worse=[f"{one.system} on {on.dataset}" for on in corrected for one in on.differences if _is_worse(one)],
        notes=[
            *_left_out(systems, chosen),
            *_bounds(labels, chosen.values()),
            *judged_gaps([entry.result for group in chosen.values() for entry in group]),
        ],
        slices=sliced,
        slices_sha256=slices.sha256 if slices else "",
    )


def _on_slices(
    results: Mapping[str, Mapping[str, Result]], measures: Mapping[str, str], slices: Slices
) -> list[DatasetComparison]:
    """Return how systems do on each of *slices*, given their results on one dataset, corrected for all slices and systems.

    CommandError for several datasets: their queries may have the same ids.
    """
    if len(results) > 1:
        raise CommandError(f"slices are of one dataset; say by -d of which: {', '.join(results)}")
    ((dataset, by_label),) = results.items()
    restricted = {label: slices.of(result) for label, result in by_label.items()}
    family = len(slices.queries) * (len(by_label) - 1)
    resamples = randomisation.resamples_for(family, LEVEL)
    tested = []
    for name in slices.queries:
        alone = {label: of[name] for label, of in restricted.items()}
        on = _on_dataset(alone, _values(alone, measures[dataset]), measures[dataset], resamples, 1 - LEVEL / family)
        tested.append(msgspec.structs.replace(on, slice=name))
    return _holm(tested)


def measure_of(dataset: str, measure: str | None) -> str:
    """Return the measure to compare by, with the contract's threshold: *measure*, else the headline of the dataset's suite."""
    every_suite = (suites.suite(name) for name in suites.suite_names())
    headline = measure or next((suite.headline for suite in every_suite if dataset in suite.datasets), HEADLINE)
    contract = find_contract(dataset)
    return with_threshold(headline, contract) if contract else headline


def _values(results: Mapping[str, Result], measure: str) -> dict[str, NDArray[np.float64]]:
    """Return the values of *measure* by system, in the order of the queries."""
    return {name: np.array(result.per_query[measure], dtype=np.float64) for name, result in results.items()}


def _on_dataset(
    results: Mapping[str, Result], values: Values, measure: str, resamples: int, level: float = 1 - LEVEL
) -> DatasetComparison:
    """Return how systems do on one dataset, by their results and *values*; p is not corrected yet.

    *resamples* are those of the tests; intervals hold with confidence *level* each.
    """
    baseline, *others = values
    intervals = bootstrap.intervals(np.array(list(values.values())), level=level).tolist()
    first = results[baseline]
    return DatasetComparison(
        dataset=first.dataset,
        contract=first.contract,
        measure=measure,
        queries=len(first.query_ids),
        scores=[_score(name, results[name], measure, span) for name, span in zip(values, intervals, strict=True)],
        differences=[
            msgspec.structs.replace(
                _difference(name, values[name] - values[baseline], resamples, level),
                over_seeds=interval_over_seeds(_means_of_seeds(results[name], measure), _means_of_seeds(first, measure)),
            )
            for name in others
        ],
    )


def _means_of_seeds(result: Result, measure: str) -> list[float]:
    return result.seeds.means[measure] if result.seeds else [result.means[measure]]


def _score(name: str, result: Result, measure: str, interval: Sequence[float]) -> Score:
    return Score(
        system=name,
        mean=result.means[measure],
        interval=(interval[0], interval[1]),
        seeds=len(result.seeds.systems) if result.seeds else 1,
        deviation=result.seeds.deviation(measure) if result.seeds else None,
        terms=result.vectors.terms.get("mean") if result.vectors else None,
        query_terms=result.work.query_terms.get("mean") if result.work else None,
        flops=result.work.flops if result.work else None,
    )


def _difference(name: str, differences: NDArray[np.float64], resamples: int, level: float) -> Difference:
    p = randomisation.p_value(differences, resamples=resamples)
    detectable = randomisation.minimum_detectable(differences, level=LEVEL)
    return Difference(
        system=name,
        difference=float(differences.mean()),
        interval=bootstrap.interval(differences, level=level),
        p=p,
        corrected=p,
        wins=int((differences > 0).sum()),
        ties=int((differences == 0).sum()),
        losses=int((differences < 0).sum()),
        detectable=detectable if math.isfinite(detectable) and differences.any() else None,
    )


def _holm(tested: Sequence[DatasetComparison]) -> list[DatasetComparison]:
    """Return the same with p corrected by Holm: the family is every difference on every dataset."""
    ps = iter(randomisation.holm([one.p for on in tested for one in on.differences]))
    return [
        msgspec.structs.replace(on, differences=[msgspec.structs.replace(one, corrected=next(ps)) for one in on.differences])
        for on in tested
    ]


def _margins(
    tested: Sequence[DatasetComparison], values: Mapping[str, Values], margin: float, level: float
) -> list[DatasetComparison]:
    """Return the same with what is shown of the *margin*; bounds are at *level* each, p is corrected by Holm over all.

    CommandError where the values of a measure are not from 0 to 1.
    """
    if any(value.min() < -_ROUNDING or value.max() > 1 + _ROUNDING for on in values.values() for value in on.values()):
        raise CommandError("a margin takes a measure whose values are from 0 to 1")
    tests = []
    for on in tested:
        baseline = next(iter(values[on.dataset].values()))
        others = [values[on.dataset][one.system] for one in on.differences]
        tests.append([noninferiority.noninferiority(np.clip(other - baseline, -1, 1), margin, level=level) for other in others])
    corrected = iter(randomisation.holm([test.p for group in tests for test in group]))
    fewest = noninferiority.fewest_queries(margin)
    shown = []
    for on, group in zip(tested, tests, strict=True):
        differences = []
        for one, test in zip(on.differences, group, strict=True):
            p = next(corrected)
            no_worse = NoWorse(bound=test.bound, p=test.p, corrected=p, holds=p <= LEVEL, fewest=fewest)
            differences.append(msgspec.structs.replace(one, no_worse=no_worse))
        shown.append(msgspec.structs.replace(on, differences=differences))
    return shown


def _is_worse(difference: Difference) -> bool:
    """Whether a system fails against the baseline: with a margin if it is not shown to be no worse, else if it is worse."""
    if difference.no_worse:
        return not difference.no_worse.holds
    return difference.difference < 0 and difference.corrected < LEVEL


def _means(measures: Mapping[str, str], values: Mapping[str, Values]) -> Iterator[MeanComparison]:
    """Yield every named mean of which all members were compared, by the measure that it is of; both are given by dataset."""
    aggregates = {mean.id: mean for name in suites.suite_names() for mean in suites.suite(name).aggregates}
    for aggregate in aggregates.values():
        if any(measures.get(member) != aggregate.measure for member in aggregate.members):
            continue
        members = [values[member] for member in aggregate.members]
        baseline, *others = members[0]
        paired = {name: [member[name] - member[baseline] for member in members] for name in others}
        yield MeanComparison(
            aggregate=aggregate.id,
            measure=aggregate.measure,
            means={
                name: float(np.average([member[name].mean() for member in members], weights=aggregate.weights))
                for name in members[0]
            },
            differences=[
                MeanDifference(
                    system=name,
                    difference=float(np.average([of_dataset.mean() for of_dataset in differences], weights=aggregate.weights)),
                    interval=bootstrap.macro_interval(differences, aggregate.weights),
                )
                for name, differences in paired.items()
            ],
        )


def _left_out(systems: Sequence[SelectedSystem], chosen: Iterable[str]) -> list[str]:
    """Return a line for each dataset that only some systems have results on."""
    datasets = sorted({name for system in systems for name in system.results} - set(chosen))
    lacking = {name: [system.label for system in systems if name not in system.results] for name in datasets}
    return [
        f"{name} is left out: there is no result on it of {labels[0]}" + (f" and {len(labels) - 1} more" if labels[1:] else "")
        for name, labels in lacking.items()
        if labels
    ]


def _bounds(labels: Sequence[str], chosen: Iterable[Sequence[StoredResult]]) -> list[str]:
    """Return a line for each result that is an upper bound and no result."""
    return [
        f"{label} on {entry.result.dataset}: {note}"
        for group in chosen
        for label, entry in zip(labels, group, strict=True)
        for note in entry.result.notes
        if note.startswith(BOUND)
    ]
