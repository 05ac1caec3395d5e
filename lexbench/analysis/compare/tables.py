"""What a comparison finds, and its tables: the answer, what differs, and the queries.

`Comparison` is what `lexbench compare --json` prints. All differences are system minus baseline, in the measure's units. In the
tables, systems are A, B, C ... in the given order.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from lexbench.analysis.compare.claims import Claims, claim_tables, lettered
from lexbench.analysis.compare.query_changes import QueryChange, Side
from lexbench.analysis.significance.noninferiority import NoWorse, fewest_queries
from lexbench.analysis.significance.randomisation import LEVEL
from lexbench.analysis.slices import slice_notes
from lexbench.display.answer import Answer
from lexbench.display.table import Table, interval_cell, number, p_text
from lexbench.errors import one_line, shortened

_VALUE, _NAME = 34, 22  # characters of a value and of a system's name in a cell
_DIGEST = re.compile(r"[0-9a-f]{32,}")
_SIDE_BY_SIDE = 6  # systems whose settings fit in one table
_SIGNED = "+.4f"
_TEXT = 70  # characters of a query
_MOVED = 2  # documents of a query
_PAIRED = ("vs. A", "95 %", "p", "p\nHolm", "wins\n/ties\n/losses", "finds", "verdict")
_SEEDS = (
    "a system of several seeds has, for each query, the mean of their values; deviation: of their means, n - 1",
    "p and the 95 % beside it are about other queries with these very models",
    "95 % over seeds: Welch's interval, about other seeds on these queries; a run without seeds counts as exact",
    "no test covers both other queries and other seeds",
)


class ConfigDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A setting, or another fact of how results were made, that is not the same for all systems."""

    field: str  # e.g. encoder.query_length, machine.processor, versions.torch
    values: list[str | None]  # per system; None if it has no such field
    only_some: bool = False  # True for a setting that the plug-ins of the other systems do not have


class SystemScore(msgspec.Struct, frozen=True, kw_only=True):
    """One system on one dataset, by itself."""

    system: str
    mean: float
    interval: tuple[float, float]  # 95 %, bootstrap over queries
    seeds: int = 1  # trainings taken together; the mean is the mean of their means
    deviation: float | None = None  # standard deviation (n - 1) of their means; None for one training


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One system against the baseline on one dataset."""

    system: str
    difference: float
    interval: tuple[float, float]  # 95 %, bootstrap-t over queries
    p: float  # two-sided paired randomisation test
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
    scores: list[SystemScore]  # of all systems
    differences: list[Difference]  # of all that were measured, but the first
    unmeasured: dict[str, str] = {}  # systems whose scores say nothing, and why: they have no difference
    slice: str = ""  # "" for all queries

    def difference(self, system: str) -> Difference | None:
        """Return the difference of a system to the first; None for the first, and if it was not measured."""
        return next((one for one in self.differences if one.system == system), None)


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


class Comparison(Answer, msgspec.Struct, frozen=True, kw_only=True):
    """Systems compared with the first of them, the baseline, on all datasets that all of them have."""

    systems: list[str]
    expressions: dict[str, str]  # of the systems whose name is not their expression
    config_diff: list[ConfigDifference]
    datasets: list[DatasetComparison]
    means: list[MeanComparison]
    query_changes: list[QueryChange]
    resamples: int  # of the tests; intervals have 10,000
    family: int = 1  # tests by one measure, over which p is corrected
    margin: float | None
    worse: list[str]  # "SYSTEM on DATASET" if significantly worse, or with a margin, not shown to be no worse
    notes: list[str]
    side: Side = "both"  # which queries `query_changes` has
    slices: list[DatasetComparison] = []  # p by Holm over all slices, intervals by Bonferroni
    slices_sha256: str = ""  # of the file that declares them
    claims: Claims = Claims()

    @property
    def unmeasured(self) -> list[str]:
        """Each "SYSTEM on DATASET" whose scores say nothing about the system."""
        return [f"{system} on {on.dataset}" for on in self.datasets for system in on.unmeasured]

    def tables(self) -> list[Table]:
        """Return the tests, the settings that differ, and the queries that changed most."""
        return _tables(self)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per system and dataset, or slice: its mean, and its difference to the baseline with the tests."""
        rows = []
        for on in (*self.datasets, *self.slices):
            for score in on.scores:
                difference = on.difference(score.system)
                tested = msgspec.structs.asdict(difference) if difference else {}
                tested.pop("system", None)
                place = {"dataset": on.dataset, "slice": on.slice, "measure": on.measure, "queries": on.queries}
                why = {"unmeasured": on.unmeasured[score.system]} if score.system in on.unmeasured else {}
                rows.append({**place, "system": score.system, "mean": score.mean, **tested, **why})
        return rows


def _tables(comparison: Comparison) -> list[Table]:
    """Return the tables of a comparison: tests, settings that differ, and the queries that changed most."""
    names = lettered(comparison.systems)
    *shown, last = _tests(comparison, names)
    notes = (
        *last.notes,
        *_definitions(comparison, names),
        *_legend(comparison),
        *_counts(comparison, names),
        *comparison.notes,
    )
    differs = [_config_diff(comparison, names)] if comparison.config_diff else []
    return [*shown, replace(last, notes=notes), *claim_tables(comparison.claims), *differs, *_query_changes(comparison, names)]


def _definitions(comparison: Comparison, names: dict[str, str]) -> Iterator[str]:
    """Yield a line for each system whose name is shortened, or stands for an expression."""
    for system, name in names.items():
        expression = comparison.expressions.get(system)
        if expression or len(system) > _NAME:
            yield f"{name}: {system}" + (f" = {expression}" if expression else "")


def _config_diff(comparison: Comparison, names: dict[str, str]) -> Table:
    """Return the settings that differ as a table, without digests and settings that only some systems can have."""
    if len(names) > _SIDE_BY_SIDE:
        note = f"{len(comparison.config_diff)} settings differ: see --json, or compare at most {_SIDE_BY_SIDE} systems"
        return Table("what differs", (), (), (note,))
    stated = (one for one in comparison.config_diff if not one.only_some)
    chosen = [one for one in stated if not any(_DIGEST.fullmatch(value or "") for value in one.values)]
    hidden = len(comparison.config_diff) - len(chosen)
    notes = (f"{hidden} more, e.g. digests of files and settings of only some systems: see --json",) if hidden else ()
    rows = ((one.field, *("—" if value is None else shortened(value, _VALUE) for value in one.values)) for one in chosen)
    return Table("what differs", ("field", *names.values()), tuple(rows), notes)


def _named(system: str, names: dict[str, str]) -> str:
    """Return the letter of a system with its name, shortened if necessary: a note has it in full."""
    return f"{names[system]}  {shortened(system, _NAME)}"


def _tests(comparison: Comparison, names: dict[str, str]) -> Iterator[Table]:
    """Yield the tests by each measure: for one dataset a row per system, else per system a row for each dataset and mean."""
    tail = (*_PAIRED, *(("bound", "no worse") if comparison.margin is not None else ()))
    if _datasets(comparison) == 1:
        for on in comparison.datasets:
            first, *others = on.scores
            rows = [(_named(first.system, names), number(first.mean), *("",) * len(tail))]
            rows += [
                (_named(score.system, names), number(score.mean), *_cells(on.difference(score.system), len(tail)))
                for score in others
            ]
            yield Table(f"{on.dataset}, {on.measure}, {on.queries} queries", ("system", "mean", *tail), tuple(rows))
        yield from _over_seeds(comparison, names)
        yield from _on_slices(comparison, names)
        return
    for system in comparison.systems[1:]:
        for measure, group in _by_measure(comparison):
            rows = [_row_of(on, system, len(tail), on.dataset if measure else f"{on.dataset} {on.measure}") for on in group]
            for mean in (one for one in comparison.means if one.measure in {on.measure for on in group}):
                for of_mean in (one for one in mean.differences if one.system == system):
                    cells = (number(of_mean.difference, _SIGNED), interval_cell(of_mean.interval, "+.3f"))
                    means = (number(mean.means[comparison.systems[0]]), number(mean.means[system]))
                    rows.append((mean.aggregate, *means, *cells, *("",) * (len(tail) - len(cells))))
            title = _named(system, names) + (f", {measure}" if measure else "")
            yield Table(title, ("dataset", "A", names[system], *tail), tuple(rows))
    yield from _over_seeds(comparison, names)


def _datasets(comparison: Comparison) -> int:
    """Return the number of datasets; each comes once per measure."""
    return len({on.dataset for on in comparison.datasets})


def _by_measure(comparison: Comparison) -> Iterator[tuple[str, list[DatasetComparison]]]:
    """Yield the datasets by each measure that was asked for, with its text, "" if contracts make it differ between datasets."""
    size = _datasets(comparison)
    for start in range(0, len(comparison.datasets), size):
        group = comparison.datasets[start : start + size]
        measures = {on.measure for on in group}
        yield measures.pop() if len(measures) == 1 else "", group


def _on_slices(comparison: Comparison, names: dict[str, str]) -> Iterator[Table]:
    """Yield a table per system with a row for each slice."""
    for system in [score.system for score in comparison.slices[0].scores[1:]] if comparison.slices else ():
        rows = [_row_of(on, system, len(_PAIRED), on.slice, str(on.queries)) for on in comparison.slices]
        family = sum(len(on.differences) for on in comparison.slices if on.measure == comparison.slices[0].measure)
        note = f"p Holm, and 95 % by Bonferroni, over {family} comparisons on slices, separate from those on all queries"
        small = slice_notes([on.queries for on in comparison.slices], comparison.slices_sha256)
        header = ("slice", "queries", "A", names[system], *_PAIRED)
        yield Table(f"{_named(system, names)}: slices", header, tuple(rows), (note, *small))


def _over_seeds(comparison: Comparison, names: dict[str, str]) -> Iterator[Table]:
    """Yield a table with the deviations and intervals over seeds, if a system has several seeds."""
    rows = [
        (
            f"{on.dataset}  {_named(score.system, names)}" if len(comparison.datasets) > 1 else _named(score.system, names),
            str(score.seeds),
            number(score.mean),
            number(score.deviation),
            number(difference.difference, _SIGNED) if difference else "",
            interval_cell(difference.over_seeds, _SIGNED) if difference and difference.over_seeds else "",
        )
        for on in comparison.datasets
        for score in on.scores
        for difference in [on.difference(score.system)]
    ]
    if any(score.seeds > 1 for on in comparison.datasets for score in on.scores):
        header = ("system", "seeds", "mean", "deviation", "difference", "95 % over seeds")
        yield Table("over seeds", header, tuple(rows), _SEEDS)


def _row_of(on: DatasetComparison, system: str, cells: int, *heads: str) -> tuple[str, ...]:
    mean = next(score.mean for score in on.scores if score.system == system)
    return (*heads, number(on.scores[0].mean), number(mean), *_cells(on.difference(system), cells))


def _cells(difference: Difference | None, count: int) -> tuple[str, ...]:
    """Return a difference as cells under `_PAIRED`; with a margin, also its bound and whether the margin holds.

    Without a difference the system was not measured, which its *count* of cells say.
    """
    if difference is None:
        return tuple("not measured" if at == len(_PAIRED) - 1 else number(None) for at in range(count))
    cells = (
        number(difference.difference, _SIGNED),
        interval_cell(difference.interval, "+.3f"),
        p_text(difference.p),
        p_text(difference.corrected, difference.p),
        f"{difference.wins}/{difference.ties}/{difference.losses}",
        number(difference.detectable),
        verdict(difference),
    )
    margin = difference.no_worse
    return cells if margin is None else (*cells, number(margin.bound, _SIGNED), "yes" if margin.holds else "not shown")


def verdict(difference: Difference) -> str:
    """Return in words whether a system is better or worse than the baseline at .05, by the corrected p."""
    if difference.corrected >= LEVEL:
        return "cannot tell" if difference.wins or difference.losses else "same"
    return "better" if difference.difference > 0 else "worse"


def _legend(comparison: Comparison) -> Iterator[str]:
    """Yield notes that explain the columns."""
    family = comparison.family
    within = " by one measure" if len(comparison.datasets) > _datasets(comparison) else ""
    yield (
        f"verdict: by p Holm, at .05; p: paired randomisation test, {comparison.resamples:,} resamples; p Holm: corrected for "
        f"{family} comparison{'s' * (family > 1)}{within}; 95 %: bootstrap-t over queries, not corrected"
    )
    if any(one.detectable is not None for on in comparison.datasets for one in on.differences):
        yield "finds: the smallest difference that this one test, with its queries, finds four times in five"
    if comparison.means:
        yield "means over datasets: the bootstrap is stratified by dataset"
    if comparison.margin is not None:
        yield from _margin_notes(comparison, comparison.margin)


def _margin_notes(comparison: Comparison, margin: float) -> Iterator[str]:
    """Yield a note that explains "no worse", and one per dataset with too few queries for the margin."""
    yield (
        f"no worse: the loss is shown to be below {margin:g}, at .05 by Holm over all comparisons; bound: by betting, valid "
        "for any differences, all bounds together with 95 % confidence"
    )
    fewest = fewest_queries(margin)
    for on in comparison.datasets:
        if on.queries < fewest:
            yield f"{on.dataset}: a margin of {margin:g} takes {fewest} queries even if none differs; it has {on.queries}"


def _counts(comparison: Comparison, names: dict[str, str]) -> Iterator[str]:
    """Yield a line per system and measure: on how many datasets it is better or worse, and with a margin, no worse."""
    several = len(comparison.datasets) > _datasets(comparison)
    if _datasets(comparison) == 1:
        return
    for system in comparison.systems[1:]:
        for measure, group in _by_measure(comparison):
            found = [on.difference(system) for on in group]
            differences = [difference for difference in found if difference]
            significant = [difference for difference in differences if difference.corrected < LEVEL]
            better = sum(difference.difference > 0 for difference in significant)
            equal = len(differences) - len(significant)
            counts = f"better than A on {better}, worse on {len(significant) - better}, cannot tell on {equal}"
            by = f" by {measure or group[0].measure}" if several else ""
            line = f"{names[system]}{by}: {counts} of {len(differences)} datasets"
            if len(differences) < len(found):
                line += f"; not measured on {len(found) - len(differences)}"
            if comparison.margin is not None:
                holds = [bool(difference.no_worse and difference.no_worse.holds) for difference in differences]
                line += f"; {no_worse(comparison.margin, holds)}"
            yield line


def no_worse(margin: float, holds: Sequence[bool]) -> str:
    """Return on how many datasets a system is shown to lose less than *margin*, e.g. `no worse than .005 on 11 of 12`."""
    return f"no worse than {f'{margin:g}'.removeprefix('0')} on {sum(holds)} of {len(holds)}"


_SIDES = {
    "both": "the queries that changed most",
    "gained": "the queries that gained most",
    "lost": "the queries that lost most",
}  # titles of tables


def _query_changes(comparison: Comparison, names: dict[str, str]) -> Iterator[Table]:
    """Yield for each system the queries that changed most, with the documents that moved."""
    several = len(comparison.datasets) > 1
    for system in comparison.systems[1:]:
        changes = [change for change in comparison.query_changes if change.system == system]
        if changes:
            title = f"{_named(system, names)}: {_SIDES[comparison.side]}"
            yield changes_table(title, ("A", names[system]), changes, several=several)


def changes_table(title: str, heads: tuple[str, str], changes: Sequence[QueryChange], *, several: bool = False) -> Table:
    """Return a table of queries with both values, below each the documents that moved. *heads* name the values."""
    rows = [row for change in changes for row in change_rows(change, several=several)]
    return Table(title, ("query", *heads), tuple(rows), tuple(dict.fromkeys(map(_unknown, changes))))


def change_rows(change: QueryChange, *, several: bool = False) -> Iterator[tuple[str, str, str]]:
    """Yield a query as a row, with its dataset if there are *several*, then a row for each document that moved."""
    text = shortened(one_line(change.text or ""), _TEXT)
    query = f"{change.dataset} {change.query}" if several else change.query
    yield f"{query}: {text}" if text else query, number(change.baseline_value), number(change.value)
    for moved in change.moved[:_MOVED]:
        yield f"↳ {moved}" + (f": {moved.beginning}" if moved.beginning else ""), "", ""


def _unknown(change: QueryChange) -> str:
    """Return why the query's text or the document that moved is not shown, or else how to see more."""
    if change.text is None:
        return (
            f"the queries of {change.dataset} were not found, so only their ids are shown; for run files, add --queries FILE "
            "with their texts; for a folder of your own, add -d FOLDER"
        )
    if not change.moved:
        return "no document below a query: a run is not on this machine, or no relevant document moved"
    return "↳ a relevant document, its rank in A and now; for the terms behind its score, see: lexbench explain"
