"""One page that answers "should we change?": systems against a baseline, what they gain, lose and cost, with texts.

`lexbench report` prints it, and writes it as Markdown and HTML (`lexbench.report.change.page`). A leaderboard begins with it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from lexbench.analysis.compare.comparison import Compared
from lexbench.analysis.compare.query_changes import Pair, Reader, most_changed
from lexbench.analysis.compare.tables import Comparison, DatasetComparison, Difference, MeanDifference, verdict
from lexbench.analysis.judgements import judged_levels
from lexbench.analysis.significance import bootstrap, randomisation
from lexbench.display.answer import Answer
from lexbench.display.table import Table, interval_cell, number, p_text
from lexbench.errors import CannotStart
from lexbench.report.change import page
from lexbench.report.change.facts import SIGNED, Change, Cost, MeasureChange, tables
from lexbench.report.grid import comparable_timings
from lexbench.results import Result

_SAME = 0.05  # costs that differ by a smaller share are called the same
_NAMED = ("latency, ms", "index, MB")  # costs in the verdict
_LARGE = 10  # a ratio from here on has no decimals


class Report(Answer, msgspec.Struct, frozen=True, kw_only=True):
    """Whether to change from the first system to another, on one page."""

    changes: list[Change]
    comparison: Comparison  # of the headline, with the settings that differ

    def head(self) -> list[str]:
        """Return the verdict of each system in one sentence, and what makes it doubtful."""
        return [line for change in self.changes for line in (change.verdict, *change.cautions)]

    def tables(self) -> list[Table]:
        """Return for each system what changes, how many queries gain and lose, and those that lose and gain most."""
        return [table for change in self.changes for table in tables(change)]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per system and measure."""
        return [
            {"system": change.system, "baseline": change.baseline, **msgspec.structs.asdict(one)}
            for change in self.changes
            for one in change.measures
        ]

    @property
    def markdown(self) -> str:
        """The report as Markdown, e.g. for a pull request or a mail."""
        return page.markdown(self.changes)

    @property
    def html(self) -> str:
        """The report as a page that needs no network."""
        return page.html(self.changes, self.comparison)

    def _repr_html_(self) -> str:
        """Show the report in a notebook, with its picture."""
        return page.notebook(self.changes)


def report_of(found: Compared, queries: int) -> Report:
    """Return the report of a comparison, with the *queries* that each system gains and loses most on.

    Raises CannotStart for a system that was not measured.
    """
    for on in found.comparison.datasets:
        for system, why in on.unmeasured.items():
            raise CannotStart(f"{system} was not measured on {on.dataset}, so there is nothing to report: {why}")
    by_system = zip(found.comparison.systems[1:], found.pairs, strict=True)
    changes = [
        _change(found.comparison, at, system, pairs, found.reader, queries) for at, (system, pairs) in enumerate(by_system)
    ]
    return Report(changes=changes, comparison=found.comparison)


def _change(comparison: Comparison, at: int, system: str, pairs: list[Pair], reader: Reader, queries: int) -> Change:
    baseline = comparison.systems[0]
    largest = max(pairs, key=lambda pair: pair.baseline.result.counts.documents or 0)
    costs = list(_costs(largest.baseline.result, largest.other.result))
    sides = {baseline: largest.baseline.result, system: largest.other.result}
    differences = np.concatenate([_values(pair, pair.measure)[1] - _values(pair, pair.measure)[0] for pair in pairs])
    tested = [on.differences[at] for on in comparison.datasets]
    means = [mean.differences[at] for mean in comparison.means]
    one = len(pairs) == 1
    return Change(
        system=system,
        baseline=baseline,
        verdict=_sentence(comparison, at, system, means, costs),
        cautions=list(_cautions(comparison.datasets, tested, list(sides.values()), largest.measure)),
        measures=[
            *_headlines(comparison.datasets, at),
            *(_other_measures(pairs[0]) if one else ()),
        ],
        costs=costs,
        judged={name: result.counts.judged for name, result in sides.items()},
        gained=most_changed(pairs, queries, reader, "gained"),
        lost=most_changed(pairs, queries, reader, "lost"),
        differences=sorted(differences.tolist()),
    )


def _values(pair: Pair, measure: str) -> "np.ndarray[Any, np.dtype[np.float64]]":
    return np.array([entry.result.per_query[measure] for entry in (pair.baseline, pair.other)])


# ---- the verdict -----------------------------------------------------------------------------------------------------------


def _sentence(comparison: Comparison, at: int, system: str, means: Sequence[MeanDifference], costs: Sequence[Cost]) -> str:
    """Return the verdict: the difference with its interval, queries that get worse, and how many times the costs."""
    baseline, tested = comparison.systems[0], [on.differences[at] for on in comparison.datasets]
    worse, queries = sum(one.losses for one in tested), sum(on.queries for on in comparison.datasets)
    if len(tested) == 1:
        on, found = comparison.datasets[0], tested[0]
        scores = f"{on.measure} {number(on.scores[0].mean)} → {number(on.scores[at + 1].mean)}"
        moved = f"{found.difference:{SIGNED}} {interval_cell(found.interval, '+.3f')}"
        change = f"{scores}, {moved}, p {p_text(found.corrected, found.p)}"
        what = {
            "better": f"{system} is better than {baseline} on {on.dataset}: {change}",
            "worse": f"{system} is worse than {baseline} on {on.dataset}: {change}",
            "same": f"{system} has the same {on.measure} as {baseline} on every query of {on.dataset}",
        }.get(verdict(found), f"Whether {system} is better than {baseline} on {on.dataset} cannot be told: {change}")
    else:
        verdicts = [verdict(one) for one in tested]
        better, worse_on = (verdicts.count(word) for word in ("better", "worse"))
        what = f"{system} is better than {baseline} on {better} of {len(tested)} datasets"
        what += f", worse on {worse_on}" if worse_on else ""
        what += f"; on {len(tested) - better - worse_on} it cannot be told" if better + worse_on < len(tested) else ""
        what += "".join(f"; in the mean {one.difference:{SIGNED}} {interval_cell(one.interval, '+.3f')}" for one in means[:1])
    times = [
        _times(cost.ratio, cost.what.partition(",")[0]) + (f" ({cost.aside})" if cost.aside else "")
        for cost in costs
        if cost.ratio and cost.what in _NAMED
    ]
    return "; ".join([what, f"{worse} of {queries} queries get worse", *times]) + "."


def _times(ratio: float, what: str) -> str:
    if abs(ratio - 1) < _SAME:
        return f"the same {what}"
    return f"{ratio:,.0f} times the {what}" if ratio >= _LARGE else f"{ratio:.2g} times the {what}"


def _cautions(
    datasets: Sequence[DatasetComparison], tested: Sequence[Difference], results: Sequence[Result], measure: str
) -> Iterator[str]:
    """Yield what makes the verdict doubtful: few judged documents, or too few queries for a difference of this size."""
    yield from (f"Careful: {line}." for line in judged_levels(results, measure))
    for on, found in zip(datasets, tested, strict=True):
        if len(datasets) == 1 and verdict(found) == "cannot tell" and found.detectable is not None:
            yield f"{on.queries} queries find a difference of {number(found.detectable)} four times in five."


# ---- measures and costs ----------------------------------------------------------------------------------------------------


def _headlines(datasets: Sequence[DatasetComparison], at: int) -> Iterator[MeasureChange]:
    for on in datasets:
        found = on.differences[at]
        yield MeasureChange(
            dataset=on.dataset,
            measure=on.measure,
            before=on.scores[0].mean,
            after=on.scores[at + 1].mean,
            interval=found.interval,
            p=found.corrected,
            tested=found.p,
            verdict=verdict(found),
        )


def _other_measures(pair: Pair) -> Iterator[MeasureChange]:
    first, other = pair.baseline.result, pair.other.result
    for measure in first.per_query:
        if measure == pair.measure or measure not in other.per_query or measure.startswith("Judged"):
            continue
        before, after = _values(pair, measure)
        yield MeasureChange(
            dataset=first.dataset,
            measure=measure,
            before=first.means[measure],
            after=other.means[measure],
            interval=bootstrap.interval(after - before),
            p=randomisation.p_value(after - before),
        )


def _costs(before: Result, after: Result) -> Iterator[Cost]:
    """Yield latency, rate and sizes of both, those that one of them has."""
    timings = comparable_timings({"before": before, "after": after})
    aside = next((one.unranked for one in timings.values() if one.unranked), "")
    if timings:
        sides = [timings.get(side) for side in ("before", "after")]
        latencies = [one.stages["e2e"].p50 * 1e3 if one else None for one in sides]
        rates = [one.qps["e2e"] if one else None for one in sides]
        yield Cost(what="latency, ms", before=latencies[0], after=latencies[1], form=",.3g", aside=aside)
        yield Cost(what="queries per second", before=rates[0], after=rates[1], form=",.0f", aside=aside)
    for what in ("index", "model"):
        sizes = [result.sizes[what] / 1e6 if what in result.sizes else None for result in (before, after)]
        if any(sizes):
            yield Cost(what=f"{what}, MB", before=sizes[0], after=sizes[1], form=",.1f")
