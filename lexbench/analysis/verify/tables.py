"""The tables of `lexbench verify`: one per dataset, with the causes of scores that are off below."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from lexbench.analysis.verify.diagnosis import Cause
from lexbench.analysis.verify.verdicts import Check, Unmatched, Verdict, Verification
from lexbench.results import Result
from lexbench.table import DIGITS, Table, heading

_HEADER = ("system", "measure", "measured", "published", "difference", "verdict", "source")

# By position in `Verification.off`: the possible causes, or why the cause is unknown.
Causes: TypeAlias = Mapping[int, Sequence[Cause] | str]


def tables(verification: Verification, causes: Causes, *, everything: bool = False) -> list[Table]:
    """Return one table per dataset.

    Means without a published score are noted only if a score of something else has the same name; with *everything*, all are.
    """
    unmatched = [mean for mean in verification.unmatched if everything or mean.mistakable]
    shown: list[Check | Unmatched] = [*verification.checks, *unmatched]
    datasets = dict.fromkeys(row.result.dataset for row in shown)
    return [_table(dataset, verification, causes, everything=everything) for dataset in datasets]


def _table(dataset: str, verification: Verification, causes: Causes, *, everything: bool) -> Table:
    checks = [check for check in verification.checks if check.result.dataset == dataset]
    unmatched = [mean for mean in verification.unmatched if mean.result.dataset == dataset]
    rows = [*map(_row, checks), *(map(_unmatched_row, unmatched) if everything else ())]
    mistakable = [mean for mean in unmatched if mean.mistakable or (everything and mean.reason)]
    notes = [
        *(_cause_note(check, causes[number]) for number, check in enumerate(verification.off) if check in checks),
        *(
            f"{_name(check)}: {check.published[0].printed} ({check.published[0].source.name}) does not count: {check.reason}"
            for check in checks
            if check.reason
        ),
        *(f"{_name(mean)}: not compared, {mean.reason}" for mean in mistakable),
    ]
    return Table(dataset, _HEADER, tuple(rows), tuple(dict.fromkeys(notes)))


def _row(check: Check) -> tuple[str, ...]:
    first = check.published[0]
    digits = max(DIGITS, len(first.printed.partition(".")[2]))
    named, *more = dict.fromkeys(score.source.name for score in check.published)
    numbers = f"{check.measured:.{digits}f}", first.printed, f"{check.difference:+.{digits}f}"
    source = named + (f" +{len(more)}" if more else "")
    return check.result.system, heading(check.measure), *numbers, str(check.verdict), source


def _unmatched_row(mean: Unmatched) -> tuple[str, ...]:
    value = mean.result.means[mean.measure]
    return mean.result.system, heading(mean.measure), f"{value:.{DIGITS}f}", "—", "—", "no figure", "—"


def _name(mean: Check | Unmatched) -> str:
    return f"{mean.result.system}, {mean.measure}"


def _cause_note(check: Check, causes: Sequence[Cause] | str) -> str:
    allowed = f"{_name(check)}: off by more than {check.tolerance:.4g}"
    if isinstance(causes, str):
        return f"{allowed}; {causes}"
    if not causes:
        return f"{allowed}; scoring its run under other rules does not explain it"
    return f"{allowed}; the run {', or '.join(map(str, causes))}"


def summary(verification: Verification) -> str:
    """Return how many means have which verdict, in one line."""
    counts = {verdict: sum(check.verdict is verdict for check in verification.checks) for verdict in Verdict}
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    unmatched = len(verification.unmatched)
    rest = f"; {unmatched} mean{'s have' if unmatched > 1 else ' has'} no published figure" if unmatched else ""
    return f"{verdicts or 'nothing could be compared'}{rest}"


def as_json_document(verification: Verification, causes: Causes) -> dict[str, Any]:
    """Return the verification for `--json`."""
    numbers = {id(check): number for number, check in enumerate(verification.off)}
    return {
        "checks": [
            _what(check.result, check.measure)
            | {
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
                "causes": _cause_lines(causes.get(numbers.get(id(check), -1), ())),
            }
            for check in verification.checks
        ],
        "no_figure": [_what(mean.result, mean.measure) | {"reason": mean.reason} for mean in verification.unmatched],
    }


def _what(result: Result, measure: str) -> dict[str, Any]:
    return {"system": result.system, "dataset": result.dataset, "measure": measure, "measured": result.means[measure]}


def _cause_lines(causes: Sequence[Cause] | str) -> list[str]:
    return [causes] if isinstance(causes, str) else [str(cause) for cause in causes]
