"""What a verification found, as tables: one a dataset, what is off with its cause below."""

from collections.abc import Mapping, Sequence
from typing import Any

from lexbench.analysis.verify import Cause, Check, Unmatched, Verdict, Verification
from lexbench.report.cells import DIGITS, Table, heading

_HEADER = ("system", "measure", "measured", "published", "difference", "verdict", "source")
_NAMED = 1  # sources by name; how many more agree is said


def tables(found: Verification, causes: Mapping[int, Sequence[Cause] | str], *, everything: bool = False) -> list[Table]:
    """Return one table a dataset. *causes* are those of each of `found.off`, by its place, or why they are not known.

    What has no figure is told where one of the same name is of something else; with *everything*, all of it.
    """
    rest = [one for one in found.unmatched if everything or one.mistakable]
    every: list[Check | Unmatched] = [*found.checks, *rest]
    datasets = dict.fromkeys(one.result.dataset for one in every)
    return [_table(dataset, found, causes, everything=everything) for dataset in datasets]


def _table(dataset: str, found: Verification, causes: Mapping[int, Sequence[Cause] | str], *, everything: bool) -> Table:
    checks = [check for check in found.checks if check.result.dataset == dataset]
    rest = [one for one in found.unmatched if one.result.dataset == dataset]
    rows = [_row(check) for check in checks]
    notes = dict.fromkeys(_explained(check, causes[number]) for number, check in enumerate(found.off) if check in checks)
    notes |= dict.fromkeys(_reason(check) for check in checks if check.reason)
    rows += [_without(one) for one in rest if everything]
    named = (one for one in rest if one.mistakable or (everything and one.reason))
    notes |= dict.fromkeys(f"{_place(one)}: not compared, {one.reason}" for one in named)
    return Table(dataset, _HEADER, tuple(rows), tuple(notes))


def _row(check: Check) -> tuple[str, ...]:
    first = check.published[0]
    digits = max(DIGITS, len(first.printed.partition(".")[2]))
    names = list(dict.fromkeys(figure.source.name for figure in check.published))
    source = ", ".join(names[:_NAMED]) + (f" +{len(names) - _NAMED}" if len(names) > _NAMED else "")
    figures = f"{check.measured:.{digits}f}", first.printed, f"{check.difference:+.{digits}f}"
    return check.result.system, heading(check.measure), *figures, str(check.verdict), source


def _without(one: Unmatched) -> tuple[str, ...]:
    mean = one.result.means[one.measure]
    return one.result.system, heading(one.measure), f"{mean:.{DIGITS}f}", "—", "—", "no figure", "—"


def _place(one: Check | Unmatched) -> str:
    return f"{one.result.system}, {one.measure}"


def _reason(check: Check) -> str:
    first = check.published[0]
    return f"{_place(check)}: {first.printed} ({first.source.name}) is not held against it: {check.reason}"


def _explained(check: Check, causes: Sequence[Cause] | str) -> str:
    allowed = f"{_place(check)}: off by more than {check.published[0].tolerance:.4g}"
    if isinstance(causes, str):
        return f"{allowed}; {causes}"
    if not causes:
        return f"{allowed}; scoring the kept run by other rules does not explain it"
    return f"{allowed}; the run {', or '.join(map(str, causes))}"


def summary(found: Verification) -> str:
    """Return how many figures say what, as one line."""
    counts = {verdict: sum(check.verdict is verdict for check in found.checks) for verdict in Verdict}
    said = [f"{count} {verdict}" for verdict, count in counts.items() if count]
    left = len(found.unmatched)
    without = f"; {left} mean{'s have' if left > 1 else ' has'} no published figure" if left else ""
    return f"{', '.join(said) or 'nothing could be compared'}{without}"


def document(found: Verification, causes: Mapping[int, Sequence[Cause] | str]) -> dict[str, Any]:
    """Return all of it for JSON."""
    places = {id(check): number for number, check in enumerate(found.off)}
    return {
        "checks": [
            {
                "system": check.result.system,
                "dataset": check.result.dataset,
                "measure": check.measure,
                "measured": check.measured,
                "published": check.published[0].value,
                "difference": check.difference,
                "tolerance": check.published[0].tolerance,
                "verdict": str(check.verdict),
                "reason": check.reason,
                "sources": [
                    {"source": one.source.name, "where": one.where, "called": one.called, "rules": one.source.protocol}
                    for one in check.published
                ],
                "causes": _causes(causes.get(places.get(id(check), -1), ())),
            }
            for check in found.checks
        ],
        "no_figure": [
            {
                "system": one.result.system,
                "dataset": one.result.dataset,
                "measure": one.measure,
                "measured": one.result.means[one.measure],
                "reason": one.reason,
            }
            for one in found.unmatched
        ],
    }


def _causes(causes: Sequence[Cause] | str) -> list[str]:
    return [causes] if isinstance(causes, str) else [str(cause) for cause in causes]
