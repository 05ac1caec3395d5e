"""Choose the results to verify, and give a verdict on each mean with a published score of the same measure; and the tables."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple

import msgspec

from lexbench.analysis.definitions import changes_of, singles
from lexbench.analysis.stored_results import run_behind, stored_results
from lexbench.analysis.verify.published import PublishedScore, is_same_system
from lexbench.contracts import contract_of
from lexbench.datasets.dataset import open_dataset
from lexbench.display.answer import Answer
from lexbench.display.table import DIGITS, Table, heading
from lexbench.errors import CannotStart
from lexbench.results import Entry, Result, Results
from lexbench.storage.store import Store
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run

_HEADER = ("system", "measure", "measured", "published", "difference", "verdict", "source")


_MISTAKEN = ("self", "level", "measure", "gain", "queries")  # kinds of rules that published tables differ in


class CheckVerdict(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    OFF = "off"
    SPREAD = "other figure"  # differs, but agrees with another score that its source measured itself
    QUOTED = "quoted"  # differs from a score that its source copied, which proves nothing
    PROTOCOL = "other rules"  # the published score was made under other or unknown rules


class Check(NamedTuple):
    """One measured mean and the published scores of one value that it is compared with."""

    result: Result
    measure: str
    published: tuple[PublishedScore, ...]  # the first is the one that is shown
    verdict: CheckVerdict
    spread: tuple[str, str] = ("", "")  # the lowest and the highest published score of the same mean, as printed
    causes: tuple[str, ...] = ()  # if it is off: rules that explain it, e.g. "would be 0.3333 with ..."
    unexplained: str = ""  # why the cause is unknown

    @property
    def measured(self) -> float:
        """The measured mean."""
        return self.result.means[self.measure]

    @property
    def difference(self) -> float:
        """Measured minus published."""
        return self.measured - self.published[0].value

    @property
    def reason(self) -> str:
        """Why the verdict is neither ok nor off; "" otherwise."""
        lowest, highest = self.spread
        reasons = {
            CheckVerdict.QUOTED: self.published[0].quoted,
            CheckVerdict.PROTOCOL: self.published[0].differs,
            CheckVerdict.SPREAD: f"published scores range from {lowest} to {highest}, and it agrees with one of them",
        }
        return reasons.get(self.verdict, "")

    @property
    def tolerance(self) -> float:
        """How far the mean may be off."""
        return self.published[0].tolerance(self.result.counts.queries)


class Verification(Answer, msgspec.Struct, frozen=True):
    """All checks, and the means that could not be checked."""

    checks: tuple[Check, ...]
    unmatched: tuple[tuple[Result, str], ...]  # results and measures without a published score

    @property
    def holds(self) -> bool:
        """Whether something was compared and nothing is off."""
        verdicts = {check.verdict for check in self.checks}
        return CheckVerdict.OK in verdicts and CheckVerdict.OFF not in verdicts

    def tables(self) -> list[Table]:
        """Return one table per dataset."""
        shown = []
        for dataset in dict.fromkeys(check.result.dataset for check in self.checks):
            checks = [check for check in self.checks if check.result.dataset == dataset]
            notes = [_cause_note(check) for check in checks if check.verdict is CheckVerdict.OFF]
            notes += [_does_not_count(check) for check in checks if check.reason]
            shown.append(Table(dataset, _HEADER, tuple(map(_row, checks)), tuple(dict.fromkeys(notes))))
        return shown

    def lines(self) -> list[str]:
        """Return how many means have which verdict, in one line."""
        counts = {verdict: sum(check.verdict is verdict for check in self.checks) for verdict in CheckVerdict}
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
        unmatched = len(self.unmatched)
        rest = f"; {unmatched} mean{'s have' if unmatched > 1 else ' has'} no published figure" if unmatched else ""
        return [f"{verdicts or 'nothing could be compared'}{rest}"]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per check."""
        return [
            _what(check.result, check.measure)
            | {"published": check.published[0].value, "difference": check.difference, "verdict": str(check.verdict)}
            for check in self.checks
        ]

    def document(self) -> dict[str, Any]:
        """Return all checks with their sources and causes, and the means without a published figure."""
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
                        {
                            "source": score.source.name,
                            "where": score.where,
                            "called": score.called,
                            "rules": score.source.protocol,
                        }
                        for score in check.published
                    ],
                    "causes": [check.unexplained] if check.unexplained else list(check.causes),
                }
                for check in self.checks
            ],
            "no_figure": [_what(*mean) for mean in self.unmatched],
        }


def compared_with(results: Sequence[Result], published: Sequence[PublishedScore]) -> Verification:
    """Compare each of *results* with the *published* scores of its system, dataset and measure."""
    names = dict.fromkeys(score.system for score in published if score.system)
    checks: list[Check] = []
    unmatched: list[tuple[Result, str]] = []
    for result in results:
        fitting = {one for one in names if is_same_system(result, one)}
        scores = [score for score in published if score.system in fitting]
        for measure in result.means:
            same = [score for score in scores if (score.dataset, score.measure) == (result.dataset, measure)]
            checks += _checks(result, measure, same)
            if not same:
                unmatched.append((result, measure))
    return Verification(tuple(checks), tuple(unmatched))


def _checks(result: Result, measure: str, scores: Iterable[PublishedScore]) -> list[Check]:
    """Return one check per published value, with all sources that agree on it.

    If sources measured different values (e.g. with PyTorch and with ONNX), a mean that agrees with one of them is not off.
    """
    groups: dict[tuple[str, CheckVerdict], list[PublishedScore]] = {}
    for score in scores:
        groups.setdefault((score.printed, _verdict(result, measure, score)), []).append(score)
    by_source = [score for agreed in groups.values() for score in agreed if not (score.differs or score.quoted)]
    agrees = any(verdict is CheckVerdict.OK and not agreed[0].quoted for (_, verdict), agreed in groups.items())
    ends = [end(by_source, key=lambda score: score.value).printed for end in (min, max)] if by_source else ["", ""]
    checks = (Check(result, measure, tuple(agreed), verdict, (ends[0], ends[1])) for (_, verdict), agreed in groups.items())
    return [one._replace(verdict=CheckVerdict.SPREAD) if agrees and one.verdict is CheckVerdict.OFF else one for one in checks]


def _verdict(result: Result, measure: str, score: PublishedScore) -> CheckVerdict:
    if score.differs:
        return CheckVerdict.PROTOCOL
    if abs(result.means[measure] - score.value) <= score.tolerance(result.counts.queries):
        return CheckVerdict.OK
    return CheckVerdict.QUOTED if score.quoted else CheckVerdict.OFF


def verify(results: Results, published: Sequence[PublishedScore], store: Store) -> Verification:
    """Compare *results* with the *published* scores, and find the causes of means that are off in the runs of *store*."""
    compared = compared_with(list(results), published)
    checks = (_diagnosed(check, store) if check.verdict is CheckVerdict.OFF else check for check in compared.checks)
    return msgspec.structs.replace(compared, checks=tuple(checks))


def _row(check: Check) -> tuple[str, ...]:
    """Return a check as cells under `_HEADER`, with enough digits for the published score."""
    first = check.published[0]
    digits = max(DIGITS, len(first.printed.partition(".")[2]))
    named, *more = dict.fromkeys(score.source.name for score in check.published)
    numbers = f"{check.measured:.{digits}f}", first.printed, f"{check.difference:+.{digits}f}"
    source = named + (f" +{len(more)}" if more else "")
    return check.result.system, heading(check.measure), *numbers, str(check.verdict), source


def _name(check: Check) -> str:
    return f"{check.result.system}, {check.measure}"


def _does_not_count(check: Check) -> str:
    first = check.published[0]
    return f"{_name(check)}: {first.printed} ({first.source.name}) does not count: {check.reason}"


def _cause_note(check: Check) -> str:
    why = check.unexplained or "scoring its run under other rules does not explain it"
    if check.causes:
        why = f"the run {', or '.join(check.causes)}"
    return f"{_name(check)}: off by more than {check.tolerance:.4g}; {why}"


def _what(result: Result, measure: str) -> dict[str, Any]:
    return {"system": result.system, "dataset": result.dataset, "measure": measure, "measured": result.means[measure]}


# ---- the rules that explain a score that is off ----------------------------------------------------------------------------


def _diagnosed(check: Check, store: Store) -> Check:
    run = run_behind(Entry(check.result), partial(stored_results, store))
    if run is None:
        return check._replace(unexplained=f"the cause is unknown, because its run is not in the store {store.root}")
    try:
        qrels = open_dataset(contract_of(check.result.dataset)).qrels
    except CannotStart as error:
        return check._replace(unexplained=f"the cause is unknown: {error}")
    return check._replace(causes=tuple(causes(run, qrels, check.published[0])))


def causes(run: Run, qrels: Qrels, score: PublishedScore) -> list[str]:
    """Return the rules under which *run* has the published *score* within its tolerance, each as "would be MEAN with RULE"."""
    close = score.tolerance(len(qrels.query_ids))
    changes = [change for change in changes_of(run, qrels, score.measure, cutoffs=False) if change.kind in _MISTAKEN]
    found = (one for one in singles(run, qrels, score.measure, changes) if abs(one.mean - score.value) <= close)
    return [f"would be {one.mean:.4f} {one.text}" for one in found]
