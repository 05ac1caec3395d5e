"""Compare systems with a baseline by their results: intervals, paired tests with Holm's correction, margins.

`Comparison` is what `lexbench compare --json` prints. All differences are system minus baseline, in the measure's units.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench import suites
from lexbench.analysis.compare.query_changes import Pair, QueryChange, StoreReader, most_changed
from lexbench.analysis.compare.result_choice import SelectedSystem, common_datasets, on_data, select
from lexbench.analysis.judgements import judged_gaps
from lexbench.analysis.seeds import interval_over_seeds
from lexbench.analysis.significance import bootstrap, randomisation
from lexbench.analysis.significance.noninferiority import NoWorse, noninferiority
from lexbench.analysis.significance.randomisation import LEVEL
from lexbench.analysis.significance.resolution import cautions, minimum_detectable
from lexbench.analysis.slices import Slices
from lexbench.analysis.stored_results import StoredResult
from lexbench.contracts import find_contract
from lexbench.datasets.dataset import open_dataset
from lexbench.datasets.location import find_dataset
from lexbench.errors import CommandError, listed
from lexbench.measures import with_threshold
from lexbench.results import BOUND, Result
from lexbench.runner.soundness import check, check_comparable
from lexbench.storage.code import CODE
from lexbench.storage.store import Store

_FEWEST = 2  # systems in a comparison
_LISTED = 3  # datasets that are left out, in a note
_ROUNDING = 1e-9  # a perfect score may be off by this much

Values = Mapping[str, NDArray[np.float64]]  # (queries,) by system, the baseline first


class ConfigDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A setting, or another fact of how results were made, that is not the same for all systems."""

    field: str  # e.g. encoder.query_length, machine.processor, versions.torch
    values: list[str | None]  # per system; None if it has no such field
    only_some: bool = False  # True for a setting that the plug-ins of the other systems do not have


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """One system on one dataset, by itself."""

    system: str
    mean: float
    interval: tuple[float, float]  # 95 %, bootstrap over queries, see lexbench.analysis.significance.bootstrap
    seeds: int = 1  # trainings taken together; the mean is the mean of their means
    deviation: float | None = None  # standard deviation (n - 1) of their means; None for one training


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One system against the baseline on one dataset."""

    system: str
    difference: float
    interval: tuple[float, float]  # 95 %, by the same bootstrap as p
    p: float  # two-sided, by the paired bootstrap with an unseen query
    corrected: float  # p by Holm over all tests of the comparison
    wins: int  # queries on which the system is better
    ties: int
    losses: int
    detectable: float | None  # the smallest difference that a test with these queries finds with power .8; None for one query
    no_worse: NoWorse | None = None  # with a margin; all bounds of a comparison hold together with 95 % confidence
    over_seeds: tuple[float, float] | None = None  # 95 %, Welch's, over seeds; None if both systems are one training


class DatasetComparison(msgspec.Struct, frozen=True, kw_only=True):
    """All systems on one dataset, or on a slice of its queries."""

    dataset: str
    contract: str
    measure: str
    queries: int
    scores: list[Score]  # of all systems
    differences: list[Difference]  # of all but the first
    slice: str = ""  # "" for all queries


class MeanDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One system against the baseline in a mean over datasets."""

    system: str
    difference: float
    interval: tuple[float, float]  # 95 %, bootstrap stratified by dataset


class MeanComparison(msgspec.Struct, frozen=True, kw_only=True):
    """A named mean over datasets, all of which are compared."""

    aggregate: str  # with its version, e.g. beir-12@1
    measure: str
    means: dict[str, float]  # by system
    differences: list[MeanDifference]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Systems compared with the first of them, the baseline, on all datasets that all of them have."""

    systems: list[str]
    expressions: dict[str, str]  # of the systems whose name is not their expression
    config_diff: list[ConfigDifference]
    datasets: list[DatasetComparison]
    means: list[MeanComparison]
    query_changes: list[QueryChange]
    margin: float | None
    worse: list[str]  # "SYSTEM on DATASET" if significantly worse, or with a margin, not shown to be no worse
    notes: list[str]
    slices: list[DatasetComparison] = []  # p by Holm over all slices, intervals by Bonferroni
    slices_sha256: str = ""  # of the file that declares them


def compare(  # noqa: PLR0913 - the settings of a comparison
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
    """Compare the systems that *names* stand for (names, result files, folders of these) with the first of them.

    Names are looked up in the store, or in *folder*, a folder of results. The systems are compared on *datasets* (default: all
    that every system has) by *measure* (default: the headline of the dataset's suite); with a *margin*, also whether each is no
    worse by more than it. *queries* is how many of the most changed queries to report; *seeds* names groups of systems that
    count as one; *slices* are groups of queries of the one dataset on which systems are compared too.

    A dataset is an id, or a folder. Raises CannotStart if results were made from different data or under different rules.
    """
    systems = select(names, store, folder, seeds)
    if len(systems) < _FEWEST:
        raise CommandError(f"a comparison takes two systems or more; there is only {systems[0].label}")
    labels = [system.label for system in systems]
    typed = {name: find_dataset(name) for name in datasets if Path(name).exists()}
    wanted = [typed[name][0].id if name in typed else name for name in datasets]
    for name, located in typed.items():
        data = open_dataset(*located)
        systems = [on_data(system, name, data) for system in systems]
    measures = {name: measure_of(name, measure) for name in common_datasets(systems, wanted)}
    chosen = {name: [system.newest(name, measures[name]) for system in systems] for name in measures}
    by_label = {name: dict(zip(labels, (entry.result for entry in group), strict=True)) for name, group in chosen.items()}
    for by_system in by_label.values():
        for result in by_system.values():
            check(result)
        check_comparable(by_system.items())
    family = (len(systems) - 1) * len(chosen)
    values = {name: _values(by_label[name], measures[name]) for name in chosen}
    every = [value for on in values.values() for value in on.values()]
    shares = all(one.min() >= -_ROUNDING and one.max() <= 1 + _ROUNDING for one in every)
    if margin is not None and not (0 < margin < 1 and shares):
        raise CommandError(f"a margin is above 0 and below 1, not {margin:g}, and takes a measure with values from 0 to 1")
    limit = None if margin is None else (margin, LEVEL / family)
    tested = _with_holm([_on_dataset(by_label[name], values[name], measures[name], margin=limit) for name in chosen])
    reader = StoreReader(store, {contract.id: (contract, source) for contract, source in typed.values()})
    pairs = [
        [Pair(label, measures[name], group[0], group[at]) for name, group in chosen.items()]
        for at, label in enumerate(labels[1:], start=1)
    ]
    return Comparison(
        systems=labels,
        expressions={system.label: system.expression for system in systems if system.expression},
        config_diff=config_diff([[group[at].result for group in chosen.values()] for at in range(len(labels))]),
        datasets=tested,
        means=list(_means(measures, values)),
        query_changes=[change for of_system in pairs for change in most_changed(of_system, queries, reader)],
        margin=margin,
        worse=[f"{one.system} on {on.dataset}" for on in tested for one in on.differences if _is_worse(one)],
        notes=[*_notes(systems, chosen, all_asked=bool(datasets)), *_cautions(values)],
        slices=_on_slices(by_label, measures, slices) if slices else [],
        slices_sha256=slices.sha256 if slices else "",
    )


def _on_slices(
    results: Mapping[str, Mapping[str, Result]], measures: Mapping[str, str], slices: Slices
) -> list[DatasetComparison]:
    """Compare the systems on each of *slices*, corrected for all slices and systems. *results* are by dataset and system.

    Raises CommandError for several datasets, because their queries may have the same ids.
    """
    if len(results) > 1:
        raise CommandError(f"slices belong to one dataset; choose it with -d: {', '.join(results)}")
    ((dataset, by_label),) = results.items()
    restricted = {label: slices.restrict(result) for label, result in by_label.items()}
    family = len(slices.queries) * (len(by_label) - 1)
    tested = []
    for name in slices.queries:
        alone = {label: by_slice[name] for label, by_slice in restricted.items()}
        on = _on_dataset(alone, _values(alone, measures[dataset]), measures[dataset], 1 - LEVEL / family)
        tested.append(msgspec.structs.replace(on, slice=name))
    return _with_holm(tested)


def measure_of(dataset: str, measure: str | None) -> str:
    """Return *measure*, or else the headline of the dataset's suite, with the relevance threshold of the dataset's contract."""
    every_suite = (suites.suite(name) for name in suites.suite_names())
    headline = measure or next((suite.headline for suite in every_suite if dataset in suite.datasets), suites.HEADLINE)
    contract = find_contract(dataset)
    return with_threshold(headline, contract) if contract else headline


def _values(results: Mapping[str, Result], measure: str) -> dict[str, NDArray[np.float64]]:
    return {name: np.array(result.per_query[measure], dtype=np.float64) for name, result in results.items()}


def _on_dataset(
    results: Mapping[str, Result], values: Values, measure: str, level: float = 1 - LEVEL,
    margin: tuple[float, float] | None = None,
) -> DatasetComparison:  # fmt: skip
    """Compare the systems on one dataset; p is not corrected yet.

    *level* is the level of the intervals, and *margin* a margin with the level of its bounds.
    """
    baseline, *others = values
    intervals = bootstrap.intervals(np.array(list(values.values())), level=level, unseen=bootstrap.SCORES).tolist()
    first = results[baseline]
    return DatasetComparison(
        dataset=first.dataset,
        contract=first.contract,
        measure=measure,
        queries=len(first.query_ids),
        scores=[
            Score(
                system=name,
                mean=results[name].means[measure],
                interval=(low, high),
                seeds=len(seeds.systems) if (seeds := results[name].seeds) else 1,
                deviation=seeds.deviation(measure) if seeds else None,
            )
            for name, (low, high) in zip(values, intervals, strict=True)
        ],
        differences=[
            _difference(results[name], first, values[name] - values[baseline], measure, level, margin) for name in others
        ],
    )


def _difference(
    result: Result, baseline: Result, differences: NDArray[np.float64], measure: str, level: float,
    margin: tuple[float, float] | None,
) -> Difference:  # fmt: skip
    p = bootstrap.p_value(differences)
    detectable = minimum_detectable(differences, level=LEVEL)
    seeds, of_baseline = (one.seeds.means[measure] if one.seeds else [one.means[measure]] for one in (result, baseline))
    return Difference(
        system=result.system,
        difference=float(differences.mean()),
        interval=bootstrap.interval(differences, level=level),
        p=p,
        corrected=p,
        wins=int((differences > 0).sum()),
        ties=int((differences == 0).sum()),
        losses=int((differences < 0).sum()),
        detectable=detectable if math.isfinite(detectable) and differences.any() else None,
        no_worse=noninferiority(np.clip(differences, -1, 1), margin[0], level=margin[1]) if margin else None,
        over_seeds=interval_over_seeds(seeds, of_baseline),
    )


def _with_holm(tested: Sequence[DatasetComparison]) -> list[DatasetComparison]:
    """Return the comparisons with p corrected by Holm over all differences. Tests of margins are corrected separately."""
    differences = [one for on in tested for one in on.differences]
    ps = iter(randomisation.holm([one.p for one in differences]))
    margins = iter(randomisation.holm([one.no_worse.p for one in differences if one.no_worse]))

    def corrected(one: Difference) -> Difference:
        if one.no_worse:
            p = next(margins)
            no_worse = msgspec.structs.replace(one.no_worse, corrected=p, holds=p <= LEVEL)
            one = msgspec.structs.replace(one, no_worse=no_worse)
        return msgspec.structs.replace(one, corrected=next(ps))

    return [msgspec.structs.replace(on, differences=[corrected(one) for one in on.differences]) for on in tested]


def _is_worse(difference: Difference) -> bool:
    """Whether a system is significantly worse than the baseline, or with a margin, not shown to be no worse."""
    if difference.no_worse:
        return not difference.no_worse.holds
    return difference.difference < 0 and difference.corrected < LEVEL


def _means(measures: Mapping[str, str], values: Mapping[str, Values]) -> Iterator[MeanComparison]:
    """Yield the named means whose members were all compared, by their measures. Both arguments are by dataset."""
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
                    difference=float(np.average([one.mean() for one in differences], weights=aggregate.weights)),
                    interval=bootstrap.macro_interval(differences, aggregate.weights),
                )
                for name, differences in paired.items()
            ],
        )


def _notes(
    systems: Sequence[SelectedSystem], chosen: Mapping[str, Sequence[StoredResult]], *, all_asked: bool
) -> Iterator[str]:
    """Yield which datasets are left out, which results are only upper bounds, and how judgements differ."""
    left = sorted({name for system in systems for name in system.results} - set(chosen))
    if left and not all_asked:
        yield f"left out, because some systems have no result there: {listed(left, _LISTED)}"
    for group in chosen.values():
        for system, entry in zip(systems, group, strict=True):
            yield from (
                f"{system.label} on {entry.result.dataset}: {note}" for note in entry.result.notes if note.startswith(BOUND)
            )
    yield from judged_gaps([entry.result for group in chosen.values() for entry in group])


def _cautions(values: Mapping[str, Values]) -> Iterator[str]:
    """Yield notes on datasets with few queries or skewed differences."""
    for dataset, by_system in values.items():
        baseline, *others = by_system
        yield from cautions(dataset, {name: by_system[name] - by_system[baseline] for name in others})


# ---- facts that differ between systems: settings, models, depth, machine, versions ------------------------------------------


ROOT = "retriever"  # the field with the plug-in of the whole system


def config_diff(systems: Sequence[Sequence[Result]]) -> list[ConfigDifference]:
    """Return the fields in which systems differ, given the results of each on the same datasets.

    A field that differs between datasets (e.g. a tuned weight) has all its values.
    """
    facts = [_facts(results) for results in systems]
    fields = dict.fromkeys(field for system in facts for field in system)
    table = {field: [system.get(field) for system in facts] for field in fields}
    return [
        ConfigDifference(field=field, values=values, only_some=_only_some_plugins_have(field, values, table))
        for field, values in table.items()
        if len(set(values)) > 1
    ]


def _only_some_plugins_have(field: str, values: Sequence[str | None], table: Mapping[str, Sequence[str | None]]) -> bool:
    """Whether the systems with a field agree on its value, and all systems without it use another plug-in."""
    having = [system for system, value in enumerate(values) if value is not None]
    lacking = [system for system, value in enumerate(values) if value is None]
    if not lacking or len({values[system] for system in having}) > 1:
        return False
    names = field.split(".")
    around = [table[name] for name in (ROOT, *(".".join(names[:end]) for end in range(1, len(names)))) if name in table]
    return all(
        any(plugins[system] not in (None, *(plugins[other] for other in having)) for plugins in around) for system in lacking
    )


def _facts(results: Sequence[Result]) -> dict[str, str]:
    """Return the facts of one system by field; all values of a field that differs between its results."""
    values: dict[str, dict[str, None]] = {}
    for result in results:
        facts = [*_leaves(result.recipe, ""), ("depth", str(result.depth))]
        facts += [("seen in training", result.exposure.status)] if result.exposure else []
        facts += [*_leaves(result.measured.machine, "machine"), *_leaves(result.measured.versions, "versions")]
        for field, value in facts:
            values.setdefault(field, {})[value] = None
    return {field: ", ".join(distinct) for field, distinct in values.items()}


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the leaves of a recipe with their paths, without the levels between a plug-in and its settings."""
    if isinstance(value, dict) and "plugin" in value:
        yield path or ROOT, f"{_plugin_name(value)} v{value.get('version')}"
        if CODE in value:
            yield _joined(path or ROOT, CODE), str(value[CODE])
        for part in ("settings", "identity"):
            yield from _leaves(value.get(part, {}), path)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, _joined(path, name))
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        # Name plug-ins in a list by their classes: one more of them then does not rename the others.
        counts: Counter[str] = Counter()
        for number, item in enumerate(value):
            name = _plugin_name(item) if isinstance(item, dict) and "plugin" in item else str(number)
            counts[name] += 1
            yield from _leaves(item, _joined(path, name if counts[name] == 1 else f"{name}#{counts[name]}"))
    else:
        yield path, value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _plugin_name(plugin: dict[str, Any]) -> str:
    """Return the name of a plug-in, with its package unless that is lexbench."""
    package, _, name = str(plugin["plugin"]).rpartition(":")
    return str(plugin["plugin"]) if package else name.rpartition("/")[2]


def _joined(path: str, name: str) -> str:
    return ".".join(part for part in (path, name) if part not in ("", "."))  # the digest of a single file has the path "."
