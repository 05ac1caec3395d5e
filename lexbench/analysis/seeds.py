"""Several trainings of one system as one: means over its seeds, and how far they lie apart.

A training that differs in its random numbers alone is another model. One number of one seed says what that model does; whether
the method does it takes several. As one system they have, for each query, the mean of the seeds' values, and so as their mean
the mean of the seeds' means; beside it stands the standard deviation of these.

Two things are then left to chance, and no test here takes both into account. A test over queries, of the mean values, is of
these very models: other queries. The interval over seeds, Welch's, is of the method: other seeds, the same queries.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import msgspec
import numpy as np

from lexbench.analysis.significance.randomisation import student_quantile
from lexbench.errors import CannotStart, CommandError, NotationError, UnknownName
from lexbench.notation import named, parse, split
from lexbench.results import EXPOSURES, Exposure, Incomplete, Result, Seeds, Tie
from lexbench.storage.stopwatch import Measurement

_FEWEST = 2  # seeds that have a deviation


def groups(texts: Sequence[str]) -> dict[str, list[str]]:
    """Return the members of each text "NAME = A, B, C" by its name, as they were typed; CommandError where it does not read."""
    found: dict[str, list[str]] = {}
    for text in texts:
        name, members = named(text)
        systems = split(members)
        if not name or len(systems) < _FEWEST or not all(systems) or len(set(systems)) < len(systems):
            raise CommandError(f"--seeds {text!r}: write it as 'NAME = A, B, C', with the runs of two seeds or more")
        if name in found:
            raise CommandError(f"--seeds {text!r}: {name} is given twice")
        found[name] = systems
    return found


def grouped(results: Sequence[Result], seeds: Mapping[str, Sequence[str]]) -> list[Result]:
    """Return *results* with the members of each group of *seeds* as one result a dataset, where the first of them stood.

    UnknownName for a member that has no result; CannotStart where members are not of the same data under the same rules.
    """
    shown = list(results)
    for name, members in seeds.items():
        labels = labels_of(members, [(result.system, result.notation) for result in shown])
        for dataset in dict.fromkeys(result.dataset for result in shown if result.system in labels):
            of_dataset = {result.system: at for at, result in enumerate(shown) if result.dataset == dataset}
            if lacking := [label for label in labels if label not in of_dataset]:
                raise CannotStart(f"{lacking[0]} has no result on {dataset}, and the other seeds of {name} have")
            places = [of_dataset[label] for label in labels]
            one = as_one(name, [shown[at] for at in places])
            shown = [one if at == places[0] else result for at, result in enumerate(shown) if at not in places[1:]]
    return shown


def labels_of(members: Sequence[str], systems: Sequence[tuple[str, str]]) -> list[str]:
    """Return the labels of *members* among *systems*, label and notation each; UnknownName for one that is not there."""
    return [_label(member, systems) for member in members]


def _label(member: str, systems: Sequence[tuple[str, str]]) -> str:
    try:
        written = str(parse(member))
    except NotationError:  # the name of a system, or the label of an object
        written = member
    for label, notation in systems:
        if label == member or written in (label, notation):
            return label
    raise UnknownName("system of this run:", member, [label for label, _ in systems])


def as_one(name: str, results: Sequence[Result]) -> Result:
    """Return *results*, of the seeds of one system on one dataset, as the result of the system *name*.

    It has the measures that all have. What is of one model alone, as timings, is left out. CannotStart where they are not of
    the same queries, judgements, corpus and rules, or one is there twice.
    """
    first = results[0]
    if len({result.system for result in results}) < len(results):
        raise CannotStart(f"the seeds of {name} have one system twice: {', '.join(result.system for result in results)}")
    for other in results[1:]:
        _check_alike(name, first, other)
    measures = [measure for measure in first.means if all(measure in result.per_query for result in results)]
    per_query = {measure: np.mean([result.per_query[measure] for result in results], axis=0).tolist() for measure in measures}
    means = {measure: [result.means[measure] for result in results] for measure in measures}
    return Result(
        system=name,
        dataset=first.dataset,
        contract=first.contract,
        depth=min(result.depth for result in results),
        means={measure: fmean(values) for measure, values in means.items()},
        query_ids=first.query_ids,
        per_query=per_query,
        counts=msgspec.structs.replace(first.counts, missing=max(result.counts.missing for result in results)),
        ties={
            measure: Tie(**_fields_mean([result.ties[measure] for result in results]))
            for measure in measures
            if all(measure in result.ties for result in results)
        },
        incomplete={
            measure: Incomplete(**_fields_mean([result.incomplete[measure] for result in results]))
            for measure in measures
            if all(measure in result.incomplete for result in results)
        },
        precision=first.precision if len({result.precision for result in results}) == 1 else "",
        sizes={
            size: round(fmean(result.sizes[size] for result in results))
            for size in first.sizes
            if all(size in result.sizes for result in results)
        },
        digests=first.digests,
        exposure=_exposure(results),
        notes=list(dict.fromkeys(f"{result.system}: {note}" for result in results for note in result.notes)),
        recipe=_common(first.recipe, [result.recipe for result in results[1:]]),
        measured=Measurement(machine=first.measured.machine, versions=first.measured.versions),
        seeds=Seeds(systems={result.system: result.notation for result in results}, means=means),
    )


def _check_alike(name: str, first: Result, other: Result) -> None:
    alike = first.contract == other.contract and first.digests == other.digests and first.query_ids == other.query_ids
    if not alike:
        raise CannotStart(
            f"{first.system} and {other.system} are not seeds of one system, {name}: they were scored on {first.dataset} by "
            "other queries, judgements, corpus or rules; run both again"
        )
    if first.seeds or other.seeds:
        raise CannotStart(f"{(first if first.seeds else other).system} is a mean over seeds itself; name all seeds of {name}")


def _fields_mean(structs: Sequence[msgspec.Struct]) -> dict[str, float]:
    """Return the means of the fields of *structs*, all numbers, by name: bounds of the means of what they bound."""
    rows = [msgspec.structs.asdict(struct) for struct in structs]
    return {field: fmean(row[field] for row in rows) for field in rows[0]}


def _exposure(results: Sequence[Result]) -> Exposure | None:
    """Return what the seed that has seen most had seen; None where nobody looked for one of them."""
    known = [result.exposure for result in results if result.exposure]
    if len(known) < len(results):
        return None
    most = max((one.status for one in known), key=EXPOSURES.index)
    return Exposure(status=most, because=list(dict.fromkeys(line for one in known for line in one.because)))


def _common(value: Any, others: Sequence[Any]) -> Any:
    """Return what *value*, a recipe or a part of one, has in common with all *others*; other values are left out."""
    if isinstance(value, dict) and all(isinstance(other, dict) for other in others):
        shared = [name for name in value if all(name in other for other in others)]
        kept = {name: _common(value[name], [other[name] for other in others]) for name in shared}
        return {name: item for name, item in kept.items() if item is not ...}
    return value if all(value == other for other in others) else ...


def interval_over_seeds(
    system: Sequence[float], baseline: Sequence[float], *, level: float = 0.95
) -> tuple[float, float] | None:
    """Return Welch's interval of the difference of the means of two systems, given those of their seeds.

    One value alone is a system without seeds, as BM25: it is taken as it is, without a deviation. None where both are so.
    """
    parts = [(float(np.var(values, ddof=1)) / len(values), len(values) - 1) for values in (system, baseline) if len(values) > 1]
    if not parts:
        return None
    difference, variance = fmean(system) - fmean(baseline), sum(part for part, _ in parts)
    if not variance:
        return difference, difference
    freedom = variance**2 / sum(part**2 / free for part, free in parts)  # Welch and Satterthwaite
    reach = student_quantile((1 + level) / 2, freedom) * math.sqrt(variance)
    return difference - reach, difference + reach
