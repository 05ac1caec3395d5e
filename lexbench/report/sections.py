"""From results to a board: which suites and systems, in which order, and the means over datasets."""

from collections.abc import Mapping, Sequence
from shlex import quote

import msgspec
import numpy as np

from lexbench import suites
from lexbench.analysis import aggregates
from lexbench.analysis.significance import bootstrap
from lexbench.report import published
from lexbench.report.board import Board, Mean, Section, System, family, machine_line, only, ranks
from lexbench.report.panels import is_bound, panel
from lexbench.results import Result
from lexbench.suites import Aggregate, Suite

Found = Mapping[str, Mapping[str, Result]]  # system -> dataset -> result


def board(found: Mapping[str, Found]) -> Board:
    """Return the board of *found*: suite id -> system -> dataset -> result."""
    known = published.read()
    return Board(suites=tuple(_section(suites.suite(suite_id), systems, known) for suite_id, systems in found.items()))


def _section(suite: Suite, found: Found, known: published.Known) -> Section:
    datasets = [name for name in suite.datasets if any(name in results for results in found.values())]
    order = sorted(found, key=lambda name: (*_standing(found[name], datasets, suite.headline), name))
    order.sort(key=lambda name: any(map(is_bound, found[name].values())))  # upper bounds are no results: last
    others = published.rows(known, suite, datasets)
    means = _means(suite, {name: found[name] for name in order}, [row.scores for row in others])
    bare = [*(_system(name, found[name], datasets) for name in order), *(row.system for row in others)]
    systems = [msgspec.structs.replace(system, means=mean) for system, mean in zip(bare, means, strict=True)]
    panels = [
        panel(suite.headline, name, systems, [found[one].get(name) for one in order], [row.cells.get(name) for row in others])
        for name in datasets
    ]
    return Section(
        id=suite.id,
        name=suite.name,
        description=suite.description,
        headline=suite.headline,
        aggregates=tuple(aggregate.id for aggregate in _aggregates(suite)),
        systems=tuple(systems),
        datasets=tuple(panels),
        command=_command(suite, found),
        made=_made([result for results in found.values() for result in results.values()]),
        published=tuple(sorted({row.origin for row in others})),
    )


def _command(suite: Suite, found: Found) -> str:
    systems = " ".join(f"-r {quote(' '.join(name.split()))}" for name in found)
    return f"lexbench run suite {suite.id} {systems}"


def _standing(results: Mapping[str, Result], datasets: Sequence[str], headline: str) -> tuple[int, float]:
    """Return what systems are ordered by: how many datasets they have, then the sum of their headline."""
    scores = [results[name].means[headline] for name in datasets if name in results and headline in results[name].means]
    return -len(scores), -sum(scores)


def _aggregates(suite: Suite) -> list[Aggregate]:
    return [aggregate for aggregate in suite.aggregates if aggregate.measure == suite.headline]


def _system(name: str, results: Mapping[str, Result], datasets: Sequence[str]) -> System:
    here = [results[dataset] for dataset in datasets if dataset in results]
    sizes = only([result.sizes.get("index") for result in here]) if len(here) == len(datasets) else None
    documents = only([result.counts.documents for result in here])
    return System(
        label=name,
        family=family(here[0]) if here else "other",
        bound=any(is_bound(result) for result in here),
        index=int(sum(sizes)) if sizes else None,
        bytes_per_document=round(sum(sizes) / sum(documents), 1) if sizes and documents and sum(documents) else None,
    )


def _means(suite: Suite, found: Found, others: Sequence[Mapping[str, float]]) -> list[tuple[Mean, ...]]:
    """Return the aggregates of our systems, then of *others*, whose scores are given by dataset."""
    columns = []
    for aggregate in _aggregates(suite):
        own = {name: aggregates.over_results(aggregate, results.values()) for name, results in found.items()}
        bounds = {name for name, results in found.items() if any(map(is_bound, results.values()))}
        marks = ranks({name: mean.value for name, mean in own.items()}, bounds)
        column = [
            Mean(text=str(mean), value=mean.value, mark=marks.get(name, 0), interval=_macro(aggregate, found[name], mean.value))
            for name, mean in own.items()
        ]
        theirs = [aggregates.mean(aggregate, scores) for scores in others]
        columns.append([*column, *(Mean(text=str(mean), value=mean.value) for mean in theirs)])
    return list(zip(*columns, strict=True)) if columns else [()] * (len(found) + len(others))


def _macro(aggregate: Aggregate, results: Mapping[str, Result], value: float | None) -> tuple[float, float] | None:
    if value is None:
        return None
    values = [np.asarray(results[member].per_query[aggregate.measure]) for member in aggregate.members]
    low, high = bootstrap.macro_interval(values)
    return round(low, 4), round(high, 4)


def _made(results: Sequence[Result]) -> tuple[str, ...]:
    """Return one line for each set of software and machine that results were made with."""
    lines = set()
    for result in results:
        software = ", ".join(f"{name} {version}" for name, version in result.measured.versions.items())
        lines.add(f"{software or 'unknown software'}; {machine_line(result.measured.machine)}")
    return tuple(sorted(lines))
