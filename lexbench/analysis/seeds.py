"""Several trainings of one system, with different seeds, as one system.

As one system, seeds have for each query the mean of their values, and therefore as mean the mean of their means. A test over
queries compares these very models on other queries. Welch's interval over seeds compares the methods: other seeds on the same
queries. No test here covers both.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from statistics import fmean
from typing import Any, TypeVar

import msgspec
import numpy as np

from lexbench.analysis.significance.randomisation import student_quantile
from lexbench.errors import CannotStart, CommandError, NotationError, UnknownName
from lexbench.notation import parse, split_list, split_name
from lexbench.results import Entry, Incomplete, Note, Result, Results, Seeds, Tie, check_comparable
from lexbench.runner.exposure import joint_exposure
from lexbench.storage.stopwatch import Measurement

T = TypeVar("T", Tie, Incomplete)

_FEWEST = 2  # seeds with a standard deviation


def seed_groups(texts: Sequence[str]) -> dict[str, list[str]]:
    """Return the members of each text "NAME = A, B, C" by its name. Raises CommandError for a malformed text."""
    groups: dict[str, list[str]] = {}
    for text in texts:
        name, members = split_name(text)
        systems = split_list(members)
        if not name or len(systems) < _FEWEST or not all(systems) or len(set(systems)) < len(systems):
            raise CommandError(f"--seeds {text!r}: write 'NAME = A, B, C', with the runs of at least two seeds")
        if name in groups:
            raise CommandError(f"--seeds {text!r}: {name} is given twice")
        groups[name] = systems
    return groups


def check_members(members: Sequence[str], systems: Sequence[tuple[str, str]]) -> list[str]:
    """Return the names of *members* among *systems*, pairs of name and expression. Raises UnknownName for a missing member."""
    found = []
    for member in members:
        written = member
        with suppress(NotationError):  # a name, not an expression
            written = str(parse(member))
        name = next((name for name, expression in systems if name == member or written in (name, expression)), None)
        if name is None:
            raise UnknownName("system of this run:", member, [name for name, _ in systems])
        found.append(name)
    return found


def check_groups(groups: Mapping[str, Sequence[str]], systems: Sequence[tuple[str, str]]) -> None:
    """Raise CommandError if *groups* of seeds cannot be shown as one system each; *systems* are pairs of name and expression.

    A group cannot have a system twice, share one with another group, or have the name of a system.
    """
    seen: set[str] = set()
    for group, members in groups.items():
        for name in check_members(members, systems):
            if name in seen:
                raise CommandError(f"--seeds {group}: {name} is given twice; name each seed once")
            seen.add(name)
        if group in (name for name, _ in systems):
            raise CommandError(f"--seeds {group}: a system of this run has this name; give another")


def merge_seeds(results: Results, groups: Mapping[str, Sequence[str]]) -> Results:
    """Return *results* with the members of each group as one result per dataset, in the place of the first member.

    Raises UnknownName for a member without a result, and CannotStart if members have different data or rules.
    """
    shown = list(results.entries)
    for group, members in groups.items():
        names = check_members(members, [(entry.result.system, entry.result.expression) for entry in shown])
        for dataset in dict.fromkeys(entry.result.dataset for entry in shown if entry.result.system in names):
            place_of = {entry.result.system: at for at, entry in enumerate(shown) if entry.result.dataset == dataset}
            if lacking := [name for name in names if name not in place_of]:
                raise CannotStart(f"{lacking[0]} has no result on {dataset}, unlike other seeds of {group}")
            places = [place_of[name] for name in names]
            first = shown[places[0]]
            one = Entry(as_one(group, [shown[at].result for at in places]), first.suite, texts=first.texts)
            shown = [one if at == places[0] else entry for at, entry in enumerate(shown) if at not in places[1:]]
    return Results(shown, failures=results.failures, session=results.session)


def as_one(name: str, results: Sequence[Result]) -> Result:
    """Return the *results* of several seeds on one dataset as one result of the system *name*.

    It has the measures that all seeds have, and no timings, which belong to single models. Raises CannotStart if the seeds have
    different queries, judgements, corpora or rules, or one is given twice.
    """
    first = results[0]
    if len({result.system for result in results}) < len(results):
        raise CannotStart(f"the seeds of {name} name one system twice: {', '.join(result.system for result in results)}")
    check_comparable([(result.system, result) for result in results])
    if nested := next((result.system for result in results if result.seeds), None):
        raise CannotStart(f"{nested} is itself a mean over seeds; list all seeds of {name}")
    measures = [measure for measure in first.means if all(measure in result.per_query for result in results)]
    per_query = {measure: np.mean([result.per_query[measure] for result in results], axis=0).tolist() for measure in measures}
    means = {measure: [result.means[measure] for result in results] for measure in measures}
    known = [result.exposure for result in results if result.exposure]
    judged: list[Any] = [result.counts.judged for result in results]
    return Result(
        system=name,
        dataset=first.dataset,
        contract=first.contract,
        depth=min(result.depth for result in results),
        means={measure: fmean(values) for measure, values in means.items()},
        query_ids=first.query_ids,
        per_query=per_query,
        counts=msgspec.structs.replace(
            first.counts,
            missing=max(result.counts.missing for result in results),
            judged=None if None in judged else fmean(judged),
        ),
        lists=next((msgspec.structs.replace(one.lists, sha256="") for one in results if one.lists and one.unmeasured), None),
        ties=_fieldwise_means(Tie, measures, [result.ties for result in results]),
        incomplete=_fieldwise_means(Incomplete, measures, [result.incomplete for result in results]),
        precision=first.precision if len({result.precision for result in results}) == 1 else "",
        sizes={
            size: round(fmean(result.sizes[size] for result in results))
            for size in first.sizes
            if all(size in result.sizes for result in results)
        },
        digests=first.digests,
        exposure=joint_exposure(known) if len(known) == len(results) else None,
        bound=any(result.bound for result in results),
        notes=_notes(results),
        recipe=_common(first.recipe, [result.recipe for result in results[1:]]),
        measured=Measurement(machine=first.measured.machine, versions=first.measured.versions),
        seeds=Seeds(systems={result.system: result.expression for result in results}, means=means),
    )


def _notes(results: Sequence[Result]) -> list[Note]:
    """Return the notes of all *results*, each once, with the systems that have it unless all of them do."""
    having: dict[Note, list[str]] = {}
    for result in results:
        for note in dict.fromkeys(result.notes):
            having.setdefault(note, []).append(result.system)
    return [
        note if len(names) == len(results) else Note(note.kind, f"{', '.join(names)}: {note}") for note, names in having.items()
    ]


def _fieldwise_means(kind: type[T], measures: Sequence[str], by_seed: Sequence[Mapping[str, T]]) -> dict[str, T]:
    """Return by measure the means over seeds of each field (bounds of means are means of bounds), where all seeds have it."""
    means = {}
    for measure in measures:
        if all(measure in structs for structs in by_seed):
            rows = [msgspec.structs.asdict(structs[measure]) for structs in by_seed]
            means[measure] = kind(**{field: fmean(row[field] for row in rows) for field in rows[0]})
    return means


def _common(value: Any, others: Sequence[Any]) -> Any:
    """Return the part of *value* (a recipe, or a value in one) that equals all *others*; ... if they differ."""
    if isinstance(value, dict) and all(isinstance(other, dict) for other in others):
        shared = [name for name in value if all(name in other for other in others)]
        kept = {name: _common(value[name], [other[name] for other in others]) for name in shared}
        return {name: item for name, item in kept.items() if item is not ...}
    return value if all(value == other for other in others) else ...


def interval_over_seeds(system: Sequence[float], baseline: Sequence[float]) -> tuple[float, float] | None:
    """Return Welch's 95 % interval for the difference between the means of two systems, given the mean of each of their seeds.

    A system with one value (e.g. BM25) counts as known exactly. None if both have one.
    """
    parts = [(float(np.var(values, ddof=1)) / len(values), len(values) - 1) for values in (system, baseline) if len(values) > 1]
    if not parts:
        return None
    difference, variance = fmean(system) - fmean(baseline), sum(part for part, _ in parts)
    if not variance:
        return difference, difference
    freedom = variance**2 / sum(part**2 / free for part, free in parts)  # Welch-Satterthwaite
    reach = student_quantile(0.975, freedom) * math.sqrt(variance)
    return difference - reach, difference + reach
