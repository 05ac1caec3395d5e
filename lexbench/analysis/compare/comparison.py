"""Compare systems with a baseline by their results: intervals, paired tests with Holm's correction, margins."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench.analysis.compare.claims import Claims, check_claims
from lexbench.analysis.compare.query_changes import Pair, Reader, Side, StoreReader, most_changed
from lexbench.analysis.compare.result_choice import common_datasets, newest, on_data, read_path, select
from lexbench.analysis.compare.run_files import GivenRuns
from lexbench.analysis.compare.tables import (
    Comparison,
    ConfigDifference,
    DatasetComparison,
    Difference,
    MeanComparison,
    MeanDifference,
    SystemScore,
)
from lexbench.analysis.judgements import judged_gaps, judged_levels
from lexbench.analysis.seeds import interval_over_seeds
from lexbench.analysis.significance import bootstrap, randomisation
from lexbench.analysis.significance.cautions import cautions
from lexbench.analysis.significance.noninferiority import noninferiority
from lexbench.analysis.significance.randomisation import LEVEL
from lexbench.analysis.slices import Slices
from lexbench.analysis.stored_results import stored_results
from lexbench.contracts import find_contract
from lexbench.datasets.dataset import open_dataset
from lexbench.datasets.location import find_dataset, typed_place
from lexbench.errors import CannotStart, CommandError, listed
from lexbench.measures import parse as parse_measure
from lexbench.measures import with_threshold
from lexbench.results import Result, Results
from lexbench.runner.list_faults import list_notes
from lexbench.runner.soundness import check
from lexbench.storage.code import CODE
from lexbench.storage.store import Store
from lexbench.suites import HEADLINE, suite, suite_names
from lexbench.trec.qrels import Qrels

_FEWEST = 2  # systems in a comparison
_SHOWN = ("bound", "run", "documents", "short lists")  # kinds of notes about one result
_LISTED = 3  # datasets that are left out, in a note
_ROUNDING = 1e-9  # a perfect score may be off by this much


class Compared(NamedTuple):
    """A comparison, the results behind it, and the reader of their texts and runs."""

    comparison: Comparison
    pairs: list[list[Pair]]  # by system, then by dataset
    reader: Reader


def compared(  # noqa: PLR0913 - the settings of a comparison
    names: Sequence[str],
    *,
    store: Store,
    results: Results | Path | None = None,
    datasets: Sequence[str] = (),
    measures: Sequence[str] = (),
    margin: float | None = None,
    queries: int = 5,
    side: Side = "both",
    seeds: Mapping[str, Sequence[str]] = {},
    slices: Slices | None = None,
    runs: GivenRuns | None = None,
    claims: Sequence[str] = (),
) -> Compared:
    """Compare the systems that *names* stand for (names, result files, folders of these) with the first of them.

    Names are looked up in *results*, or in the folder of results at that path, or else in the store. The systems are compared
    on *datasets* (default: all that every system has) by each of *measures* (default: the headline of the dataset's suite);
    with a *margin*, also whether each is no worse by more than it. *queries* is how many of the most changed queries to report,
    of that *side* and by the first measure; *seeds* names groups of systems that count as one; *slices* are groups of queries
    of the one dataset on which systems are compared too.

    A dataset is an id, or a folder. Raises CannotStart if results were made from different data or under different rules.
    """
    chosen = _selected(names, store, results, seeds, runs.results if runs else {})
    if len(chosen.systems) < _FEWEST:
        raise CommandError(f"a comparison takes two systems or more; there is only {chosen.systems[0]}")
    typed = {name: find_dataset(name) for name in datasets if typed_place(name) and not (runs and runs.results)}
    if runs:  # they were scored by the judgements of one dataset
        datasets = [runs.judged.dataset]
    wanted = [typed[name][0].id if name in typed else name for name in datasets]
    for name, located in typed.items():
        chosen = on_data(chosen, name, open_dataset(*located))
    shared = common_datasets(chosen, wanted)
    # By each measure that was asked for: the measure by dataset, with the thresholds of contracts.
    asked = [
        {name: runs.measure(measure or HEADLINE) if runs else measure_of(name, measure) for name in shared}
        for measure in dict.fromkeys(measures or (None,))
    ]
    known = results.session.data if isinstance(results, Results) else {}
    places = {**known, **{contract.id: (contract, source) for contract, source in typed.values()}}
    reader = StoreReader(store, places, {runs.judged.dataset: runs.data} if runs else {})
    found = newest(chosen, {name: [by_dataset[name] for by_dataset in asked] for name in shared})
    judged: dict[str, Qrels | None] = {}  # those of a dataset are read once
    for result in found:
        check(result, judged=judged)
    left = sorted({*chosen.datasets} - {*found.datasets}) if not datasets else []
    notes = [f"left out, because some systems have no result there: {listed(left, _LISTED)}"] if left else []
    answer = compare_results(found, asked, reader, margin=margin, queries=queries, side=side, slices=slices, notes=notes)
    checked = check_claims(claims, runs, found, reader.run) if runs else Claims()
    return answer._replace(comparison=msgspec.structs.replace(answer.comparison, claims=checked))


def compare_results(  # noqa: PLR0913 - as for `compared`
    compared: Results,
    asked: Sequence[Mapping[str, str]],
    reader: Reader,
    *,
    margin: float | None = None,
    queries: int = 0,
    side: Side = "both",
    slices: Slices | None = None,
    notes: Sequence[str] = (),
) -> Compared:
    """Compare all systems of *compared* with the first; see `compared`.

    *asked* has the measure of each dataset, for each measure that was asked for. *reader* finds texts and runs; *notes* come
    first.
    """
    # The baseline must be measured on all datasets, by the same rules and data as the others.
    compared.check_comparable()
    shared = list(asked[0])
    labels = compared.systems
    for result in compared[labels[0]]:
        if result.unmeasured:
            raise CannotStart(
                f"{result.system} was not measured on {result.dataset}, so nothing can be compared with it: {result.unmeasured}"
            )

    # The family of tests is every measured system on every dataset by one measure; all p are corrected over it.
    family = max(1, sum(not result.unmeasured for result in compared if result.system != labels[0]))
    resamples = randomisation.resamples_for(family, LEVEL)
    values = [{name: compared.values(name, by_dataset[name]) for name in shared} for by_dataset in asked]
    shares = all(one.min() >= -_ROUNDING and one.max() <= 1 + _ROUNDING for by_dataset in values for one in by_dataset.values())
    if margin is not None and not (0 < margin < 1 and shares):
        raise CommandError(f"a margin is above 0 and below 1, not {margin:g}, and takes a measure with values from 0 to 1")
    limit = None if margin is None else (margin, LEVEL / family)
    # Test each measure on each dataset, with p by Holm over the family.
    tested = [
        on
        for by_dataset in asked
        for on in _with_holm([_on_dataset(compared, name, by_dataset[name], resamples, margin=limit) for name in shared])
    ]

    # The pairs of results whose queries are shown: each measured system beside the baseline.
    entries = {(entry.result.system, entry.result.dataset): entry for entry in compared.entries}
    pairs = [
        [
            Pair(label, asked[0][name], entries[labels[0], name], entries[label, name])
            for name in shared
            if not entries[label, name].result.unmeasured
        ]
        for label in labels[1:]
    ]
    comparison = Comparison(
        systems=labels,
        expressions={name: row[0].expression for name in labels if (row := [*compared.row(name).values()])[0].expression},
        config_diff=config_diff([[*compared.row(name).values()] for name in labels]),
        datasets=tested,
        means=[mean for one in zip(asked, values, strict=True) for mean in _means(compared, *one)],
        query_changes=[change for of_system in pairs for change in most_changed(of_system, queries, reader, side)],
        side=side,
        resamples=resamples,
        family=family,
        margin=margin,
        worse=[
            f"{one.system} on {on.dataset}" + (f" by {on.measure}" if len(asked) > 1 else "")
            for on in tested
            for one in on.differences
            if _is_worse(one)
        ],
        notes=[*notes, *_cautions(compared, asked[0]), *_notes(compared, asked[0])],
        slices=[on for by_dataset in asked for on in _on_slices(compared, by_dataset, slices)] if slices else [],
        slices_sha256=slices.sha256 if slices else "",
    )
    return Compared(comparison, pairs, reader)


def _cautions(compared: Results, measures: Mapping[str, str]) -> Iterator[str]:
    """Yield what the tests of systems, by the measure of each dataset, assume and their differences do not have."""
    for dataset, measure in measures.items():
        first, *others = compared.values(dataset, measure)
        differences = {
            name: row - first
            for name, row in zip(compared.systems[1:], others, strict=True)
            if not compared.one(name, dataset).unmeasured
        }
        yield from (note.text for note in cautions(dataset, differences))


def _selected(
    names: Sequence[str],
    store: Store,
    results: Results | Path | None,
    seeds: Mapping[str, Sequence[str]],
    runs: Mapping[str, Results],
) -> Results:
    """Return the systems to compare, with their results."""
    if isinstance(results, Results):
        return select(names, lambda: results, seeds=seeds, where="these results", runs=runs)
    if results is not None:
        return select(names, lambda: read_path(results), seeds=seeds, where=str(results), runs=runs)
    return select(names, lambda: stored_results(store), store.names(), seeds, runs=runs)


def _on_slices(compared: Results, measures: Mapping[str, str], slices: Slices) -> list[DatasetComparison]:
    """Compare the systems that were measured on each of *slices*, corrected for all slices and systems.

    Raises CommandError for several datasets, because their queries may have the same ids.
    """
    if len(measures) > 1:
        raise CommandError(f"slices belong to one dataset; choose it with -d: {', '.join(measures)}")
    ((dataset, measure),) = measures.items()
    compared = compared.select(where=lambda result: not result.unmeasured)
    family = max(1, len(slices.queries) * (len(compared.systems) - 1))
    resamples = randomisation.resamples_for(family, LEVEL)
    tested = []
    for name, restricted in slices.restrict(compared).items():
        on = _on_dataset(restricted, dataset, measure, resamples, 1 - LEVEL / family)
        tested.append(msgspec.structs.replace(on, slice=name))
    return _with_holm(tested)


def measure_of(dataset: str, measure: str | None) -> str:
    """Return *measure*, or else the headline of the dataset's suite, with the relevance threshold of the dataset's contract."""
    every_suite = map(suite, suite_names())
    headline = measure or next((one.headline for one in every_suite if dataset in one.datasets), HEADLINE)
    contract = find_contract(dataset)
    return with_threshold(headline, contract) if contract else str(parse_measure(headline))


def _on_dataset(
    compared: Results, dataset: str, measure: str, resamples: int, level: float = 1 - LEVEL,
    margin: tuple[float, float] | None = None,
) -> DatasetComparison:  # fmt: skip
    """Compare the systems that were measured on one dataset with the first; p is not corrected yet.

    *resamples* is the number of resamples of the tests, *level* the level of the intervals, and *margin* a margin with the
    level of its bounds.
    """
    values = compared.values(dataset, measure)
    first, *others = results = [*compared.column(dataset).values()]
    return DatasetComparison(
        dataset=dataset,
        contract=first.contract,
        measure=measure,
        queries=len(first.query_ids),
        scores=[
            SystemScore(
                system=result.system,
                mean=result.means[measure],
                interval=(low, high),
                seeds=len(result.seeds.systems) if result.seeds else 1,
                deviation=result.seeds.deviation(measure) if result.seeds else None,
            )
            for result, (low, high) in zip(results, bootstrap.intervals(values, level=level).tolist(), strict=True)
        ],
        differences=[
            _difference(result, first, own - values[0], measure, resamples, level, margin)
            for result, own in zip(others, values[1:], strict=True)
            if not result.unmeasured
        ],
        unmeasured={result.system: result.unmeasured for result in others if result.unmeasured},
    )


def _difference(
    result: Result, baseline: Result, differences: NDArray[np.float64], measure: str, resamples: int, level: float,
    margin: tuple[float, float] | None,
) -> Difference:  # fmt: skip
    p = randomisation.p_value(differences, resamples=resamples)
    detectable = randomisation.minimum_detectable(differences, level=LEVEL)
    seeds, of_baseline = (one.seeds.means[measure] if one.seeds else [one.means[measure]] for one in (result, baseline))
    return Difference(
        system=result.system,
        difference=float(differences.mean()),
        interval=bootstrap.difference_interval(differences, level=level),
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


def _means(
    compared: Results, measures: Mapping[str, str], values: Mapping[str, NDArray[np.float64]]
) -> Iterator[MeanComparison]:
    """Yield the named means whose members were all compared; *measures* and *values* (systems, queries) are by dataset.

    Systems that were not measured on one of the datasets have no difference.
    """
    systems = compared.systems
    unmeasured = {result.system for result in compared if result.unmeasured}
    aggregates = {mean.id: mean for name in suite_names() for mean in suite(name).aggregates}
    for aggregate in aggregates.values():
        if any(measures.get(member) != aggregate.measure for member in aggregate.members):
            continue
        members = [values[member] for member in aggregate.members]
        means = [
            float(np.average([one[at].mean() for one in members], weights=aggregate.weights)) for at in range(len(systems))
        ]
        yield MeanComparison(
            aggregate=aggregate.id,
            measure=aggregate.measure,
            means=dict(zip(systems, means, strict=True)),
            differences=[
                MeanDifference(
                    system=system,
                    difference=float(np.average([(one[at] - one[0]).mean() for one in members], weights=aggregate.weights)),
                    interval=bootstrap.macro_difference_interval([one[at] - one[0] for one in members], aggregate.weights),
                )
                for at, system in enumerate(systems[1:], start=1)
                if system not in unmeasured
            ],
        )


def _notes(compared: Results, measures: Mapping[str, str]) -> Iterator[str]:
    """Yield what was not measured, which results are upper bounds, and how judgements differ or are missing."""
    yield from compared.unmeasured
    yield from list_notes(list(compared))
    for result in compared:
        yield from (f"{result.system} on {result.dataset}: {note}" for note in result.notes if note.kind in _SHOWN)
        if result.counts.missing:
            without = f"{result.counts.missing} of {result.counts.queries} queries have no document, and score 0"
            yield f"{result.system} on {result.dataset}: {without}"
    yield from dict.fromkeys(
        f"{result.dataset}: {note}" for result in compared for note in result.notes if note.kind == "judgements"
    )
    for other in compared.systems[1:]:
        pair = compared.select(systems=[compared.systems[0], other])
        yield from (
            line for name in pair.datasets for line in judged_levels(list(pair.select(datasets=[name])), measures[name])
        )
    yield from judged_gaps(list(compared))


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
