"""The tables of `lexbench verify`: one a dataset, what is off with its cause below."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from lexbench.analysis.verify import Cause, Check, Unmatched, Verdict, Verification
from lexbench.report.table import DIGITS, Table, heading

_HEADER = ("system", "measure", "measured", "published", "difference", "verdict", "source")
_NAMED = 1  # sources by name; how many more agree is said

# What explains each of `Verification.off`, by its place in that tuple, or why it is not known.
Causes: TypeAlias = Mapping[int, Sequence[Cause] | str]


def tables(verification: Verification, causes: Causes, *, everything: bool = False) -> list[Table]:
    """Return one table a dataset.

    What has no published score is told where one of the same name is of something else; with *everything*, all of it.
    """
    unmatched = [mean for mean in verification.unmatched if everything or mean.mistakable]
    shown: list[Check | Unmatched] = [*verification.checks, *unmatched]
    datasets = dict.fromkeys(row.result.dataset for row in shown)
    return [_table(dataset, verification, causes, everything=everything) for dataset in datasets]


def _table(dataset: str, verification: Verification, causes: Causes, *, everything: bool) -> Table:
    checks = [check for check in verification.checks if check.result.dataset == dataset]
    unmatched = [mean for mean in verification.unmatched if mean.result.dataset == dataset]
    rows = [*map(_row, checks), *(map(_unmatched_row, unmatched) if everything else ())]
    named = [mean for mean in unmatched if mean.mistakable or (everything and mean.reason)]
    notes = [
        *(_explained(check, causes[number]) for number, check in enumerate(verification.off) if check in checks),
        *(_reason(check) for check in checks if check.reason),
        *(f"{_name(mean)}: not compared, {mean.reason}" for mean in named),
    ]
    return Table(dataset, _HEADER, tuple(rows), tuple(dict.fromkeys(notes)))


def _row(check: Check) -> tuple[str, ...]:
    first = check.published[0]
    digits = max(DIGITS, len(first.printed.partition(".")[2]))
    names = list(dict.fromkeys(score.source.name for score in check.published))
    source = ", ".join(names[:_NAMED]) + (f" +{len(names) - _NAMED}" if len(names) > _NAMED else "")
    numbers = f"{check.measured:.{digits}f}", first.printed, f"{check.difference:+.{digits}f}"
    return check.result.system, heading(check.measure), *numbers, str(check.verdict), source


def _unmatched_row(mean: Unmatched) -> tuple[str, ...]:
    value = mean.result.means[mean.measure]
    return mean.result.system, heading(mean.measure), f"{value:.{DIGITS}f}", "—", "—", "no figure", "—"


def _name(mean: Check | Unmatched) -> str:
    return f"{mean.result.system}, {mean.measure}"


def _reason(check: Check) -> str:
    first = check.published[0]
    return f"{_name(check)}: {first.printed} ({first.source.name}) is not held against it: {check.reason}"


def _explained(check: Check, causes: Sequence[Cause] | str) -> str:
    allowed = f"{_name(check)}: off by more than {check.tolerance:.4g}"
    if isinstance(causes, str):
        return f"{allowed}; {causes}"
    if not causes:
        return f"{allowed}; scoring the kept run by other rules does not explain it"
    return f"{allowed}; the run {', or '.join(map(str, causes))}"


def summary(verification: Verification) -> str:
    """Return how many figures say what, as one line."""
    counts = {verdict: sum(check.verdict is verdict for check in verification.checks) for verdict in Verdict}
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    unmatched = len(verification.unmatched)
    rest = f"; {unmatched} mean{'s have' if unmatched > 1 else ' has'} no published figure" if unmatched else ""
    return f"{verdicts or 'nothing could be compared'}{rest}"


def document(verification: Verification, causes: Causes) -> dict[str, Any]:
    """Return all of it for JSON."""
    numbers = {id(check): number for number, check in enumerate(verification.off)}
    return {
        "checks": [
            {
                "system": check.result.system,
                "dataset": check.result.dataset,
                "measure": check.measure,
                "measured": check.measured,
                "published": check.published[0].value,
                "difference": check.difference,
                "tolerance": check.tolerance,
                "verdict": str(check.verdict),
                "reason": check.reason,
                "spread": list(check.spread),
                "sources": [
                    {"source": score.source.name, "where": score.where, "called": score.called, "rules": score.source.protocol}
                    for score in check.published
                ],
                "causes": _causes(causes.get(numbers.get(id(check), -1), ())),
            }
            for check in verification.checks
        ],
        "no_figure": [
            {
                "system": mean.result.system,
                "dataset": mean.result.dataset,
                "measure": mean.measure,
                "measured": mean.result.means[mean.measure],
                "reason": mean.reason,
            }
            for mean in verification.unmatched
        ],
    }


def _causes(causes: Sequence[Cause] | str) -> list[str]:
    return [causes] if isinstance(causes, str) else [str(cause) for cause in causes]
