"""Claims about run files: which definition of a measure gives a printed value, and whether a printed difference holds.

    B nDCG@10 0.412     the value of a system
    B > A nDCG@10       an order of two systems

Systems are letters of the table, or names. A value is confirmed if its digits are those of the mean. If they are not, the rules
by which people score differently are tried, one and then two at a time.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import product
from string import ascii_uppercase
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench.analysis.compare.run_files import GivenRuns
from lexbench.analysis.definitions import Definition, changes_of, definition, pairs, singles
from lexbench.analysis.significance import bootstrap, randomisation
from lexbench.analysis.significance.randomisation import LEVEL
from lexbench.display.table import Table, interval_cell, number, p_text
from lexbench.errors import CannotStart, CommandError
from lexbench.results import Entry, Results
from lexbench.runner.scoring import excluded
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run, read_by_rank, without_self_matches

_VALUE = re.compile(
    r"(?P<system>.+?)\s+(?P<measure>\S+)\s*(?:=|\s)\s*(?P<value>[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:e-?\d+)?)\s*(?P<percent>%?)"
)
_ORDER = re.compile(r"(?P<one>.+?)\s*(?P<sign>[<>])\s*(?P<other>.+?)\s+(?P<measure>\S+)")
_HOW = "write --claim 'B nDCG@10 0.412' or --claim 'B > A nDCG@10'"
_SHOWN = 6  # definitions in a note
_CHANCE = {1: 0.1, 2: 0.01}  # by the number of changes: definitions that may give a value by chance; more prove nothing
_ROUNDING = 1e-9
_TESTS = ("randomisation", "paired t", "sign", "Wilcoxon")


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """A definition that gives, or nearly gives, the claimed value."""

    rules: list[str]  # what differs from the rules of the comparison; [] if nothing does
    mean: float


class ValueClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed value of a measure."""

    claim: str
    system: str
    measure: str
    value: float  # as a fraction, if it was printed in percent
    tolerance: float  # half a unit of its last digit
    mean: float  # under the rules of the comparison
    verdict: str  # confirmed, other rules, unclear (definitions give it, and as many would by chance), or refused
    matches: list[Match] = []  # definitions that give the value, those with fewest changes
    nearest: Match | None = None  # if none does
    tried: int  # definitions
    chance: float = 0.0  # how many of them would give a value of so many digits by chance


class TestOfClaim(msgspec.Struct, frozen=True, kw_only=True):
    """One two-sided test of a claimed difference."""

    test: str
    p: float
    holds: bool  # the difference has the claimed direction, and p is below .05


class OrderClaim(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed order of two systems."""

    claim: str
    better: str
    worse: str
    measure: str
    queries: int
    difference: float  # better minus worse
    interval: tuple[float, float]  # 95 %, paired bootstrap
    tests: list[TestOfClaim]  # the first decides
    verdict: str  # holds, not shown, or refused
    needed: int | None  # queries that a test needs to find this difference with power .8; None if there is no such difference
    same: int  # definitions with the claimed direction
    tried: int
    against: list[str] = []  # definitions without it


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """The claims of a comparison."""

    values: list[ValueClaim] = []
    orders: list[OrderClaim] = []

    @property
    def refused(self) -> list[str]:
        """The claims that are refused, unclear or not shown."""
        verdicts = [*((one.claim, one.verdict) for one in self.values), *((one.claim, one.verdict) for one in self.orders)]
        return [claim for claim, verdict in verdicts if verdict in ("refused", "unclear", "not shown")]


class _System(NamedTuple):
    """A system of a claim."""

    label: str
    run: Run
    by_rank: Run | None


def check_claims(texts: Sequence[str], runs: GivenRuns, compared: Results, run_of: Callable[[Entry], Run | None]) -> Claims:
    """Check the claims *texts* about the systems *compared* by the judgements of *runs*; *run_of* returns the run of a result.

    Raises CommandError for a text that is no claim, or a system without a run, and CannotStart for an order of systems of
    which one was not measured.
    """
    values, orders = [], []
    system_of = cache(partial(_system, runs=runs, compared=compared, run_of=run_of))
    for text in texts:
        if found := _ORDER.fullmatch(text.strip()):
            one, other = (system_of(found[name]) for name in ("one", "other"))
            for result in compared.select(systems={one.label, other.label}, where=lambda result: bool(result.unmeasured)):
                raise CannotStart(f"{text!r} cannot be checked: {result.system} was not measured: {result.unmeasured}")
            better, worse = (one, other) if found["sign"] == ">" else (other, one)
            orders.append(_order(text, better, worse, runs.measure(found["measure"]), runs))
        elif found := _VALUE.fullmatch(text.strip()):
            system, measure = system_of(found["system"]), runs.measure(found["measure"])
            values.append(_value(text, system, measure, found["value"], runs, percent=bool(found["percent"])))
        else:
            raise CommandError(f"{text!r} is no claim; {_HOW}")
    return Claims(values=values, orders=_with_holm(orders))


def _system(typed: str, runs: GivenRuns, compared: Results, run_of: Callable[[Entry], Run | None]) -> _System:
    """Return the system that a letter of the table, a name, or what was typed for its run stands for."""
    by_letter = {letter: label for label, letter in lettered(compared.systems).items()}
    by_typed = {name: found.systems[0] for name, found in runs.results.items() if len(found.systems) == 1}
    meant = {known[typed] for known in ({name: name for name in compared.systems}, by_letter, by_typed) if typed in known}
    known = ", ".join(f"{letter} ({label})" for letter, label in by_letter.items())
    if len(meant) > 1:
        raise CommandError(
            f"{typed!r} is the name of one system and the letter of another, of {known}; type the other one's name"
        )
    if not meant:
        raise CommandError(f"a claim is about {typed!r}, and there is: {known}; {_HOW}")
    (label,) = meant
    run = run_of(next(entry for entry in compared.entries if entry.result.system == label))
    if run is None:
        raise CommandError(f"the run of {label} is not on this machine, so no claim about it can be checked")
    by_rank = read_by_rank(runs.files[label]) if label in runs.files else None
    return _System(label, _under_rules(run, runs), _under_rules(by_rank, runs) if by_rank else None)


def _under_rules(run: Run, runs: GivenRuns) -> Run:
    """Return *run* without the documents that the contract leaves out."""
    protocol = runs.judged.protocol
    run = without_self_matches(run).run if protocol.self_match == "drop" else run
    return excluded(run, runs.judged.qrels, protocol).run


def lettered(systems: Sequence[str]) -> dict[str, str]:
    """Return the letters of *systems* in the tables: A to Z, AA, AB and so on."""
    letters = [*ascii_uppercase, *map("".join, product(ascii_uppercase, repeat=2))]
    return dict(zip(systems, letters, strict=False))


# ---- values ----------------------------------------------------------------------------------------------------------------


def _value(text: str, system: _System, measure: str, typed: str, runs: GivenRuns, *, percent: bool) -> ValueClaim:
    printed = typed.replace(",", ".")
    value, unit = float(printed), 10.0 ** -len(printed.partition("e")[0].partition(".")[2])
    qrels = runs.judged.qrels
    base = definition(system.run, qrels, measure)
    if percent or (abs(value) > 1 and base.mean <= 1):
        value, unit = value / 100, unit / 100
    changes = changes_of(system.run, qrels, measure, by_rank=system.by_rank, topics=runs.topics)
    found: list[Definition] = []
    matches: list[Match] = []
    for group in ((base,), singles(system.run, qrels, measure, changes), pairs(system.run, qrels, measure, changes)):
        of_group = list(group)
        found += of_group
        matches = [_match(one) for one in of_group if abs(one.mean - value) <= unit / 2 + _ROUNDING]
        if matches:
            break
    means = [one.mean for one in found]
    chance = min(len(found) * unit / (max(means) - min(means) or unit), float(len(found))) if len(found) > 1 else 0.0
    by_chance = matches and matches[0].rules and chance > _CHANCE[len(matches[0].rules)]
    verdict = "refused" if not matches else "unclear" if by_chance else "other rules"
    nearest = None if matches else _match(min(found, key=lambda one: abs(one.mean - value)))
    return ValueClaim(
        claim=text,
        system=system.label,
        measure=measure,
        value=value,
        tolerance=unit / 2,
        mean=base.mean,
        verdict="confirmed" if matches and not matches[0].rules else verdict,
        matches=matches,
        nearest=nearest,
        tried=len(found),
        chance=chance,
    )


def _match(one: Definition) -> Match:
    return Match(rules=[change.text for change in one.changes], mean=one.mean)


# ---- orders ----------------------------------------------------------------------------------------------------------------


def _order(text: str, better: _System, worse: _System, measure: str, runs: GivenRuns) -> OrderClaim:
    qrels = runs.judged.qrels
    first, second = (definition(one.run, qrels, measure).values for one in (better, worse))
    differences = first - second
    mean = float(differences.mean())
    directions = dict(_directions(better, worse, measure, qrels, runs.topics))
    tests = [
        TestOfClaim(test=name, p=p, holds=mean > 0 and p < LEVEL)
        for name, p in zip(_TESTS, _ps(differences), strict=True)
    ]  # fmt: skip
    needed = randomisation.queries_needed(differences, abs(mean)) if mean and len(differences) > 1 else None
    return OrderClaim(
        claim=text,
        better=better.label,
        worse=worse.label,
        measure=measure,
        queries=len(differences),
        difference=mean,
        interval=bootstrap.interval(differences),
        tests=tests,
        verdict="",
        needed=needed,
        same=sum(directions.values()),
        tried=len(directions),
        against=[rule for rule, same in directions.items() if not same],
    )


def _directions(better: _System, worse: _System, measure: str, qrels: Qrels, topics: int) -> "list[tuple[str, bool]]":
    """Return for each definition that both runs have whether the claimed system has the higher mean."""
    means: list[dict[str, float]] = []
    for one in (better, worse):
        changes = changes_of(one.run, qrels, measure, by_rank=one.by_rank, topics=topics)
        found = [definition(one.run, qrels, measure), *singles(one.run, qrels, measure, changes)]
        means.append({each.text: each.mean for each in found})
    return [(rule, means[0][rule] > means[1][rule]) for rule in means[0] if rule in means[1]]


def _ps(differences: NDArray[np.float64]) -> list[float]:
    """Return two-sided p of the tests in `_TESTS`: scipy's, except the first. Without any difference they are 1."""
    from scipy import stats

    if not differences.any() or len(differences) < 2:  # noqa: PLR2004 - a deviation
        return [1.0] * len(_TESTS)
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    return [
        randomisation.p_value(differences),
        float(stats.ttest_1samp(differences, 0).pvalue),
        float(stats.binomtest(wins, wins + losses).pvalue),
        float(stats.wilcoxon(differences).pvalue),
    ]


def _with_holm(orders: Sequence[OrderClaim]) -> list[OrderClaim]:
    """Return the claims with verdicts by the randomisation test, corrected by Holm over all claims of orders."""
    corrected = randomisation.holm([one.tests[0].p for one in orders])

    def verdict(one: OrderClaim, p: float) -> str:
        return "refused" if one.difference <= 0 else "holds" if p < LEVEL else "not shown"

    return [msgspec.structs.replace(one, verdict=verdict(one, p)) for one, p in zip(orders, corrected, strict=True)]


# ---- tables ----------------------------------------------------------------------------------------------------------------


def claim_tables(claims: Claims) -> list[Table]:
    """Return the table of values, with the definitions that give them, and a table of tests for each order."""
    tables = []
    if claims.values:
        rows = tuple((one.claim, number(one.mean), one.verdict) for one in claims.values)
        notes = tuple(line for one in claims.values for line in _value_notes(one))
        tables.append(Table("claimed values", ("claim", "mean", "verdict"), rows, notes))
    for one in claims.orders:
        rows = tuple((test.test, p_text(test.p), "yes" if test.holds else "no") for test in one.tests)
        title = f"claim {one.claim}: {one.verdict}"
        tables.append(Table(title, ("test", "p", "holds at .05"), rows, tuple(_order_notes(one, len(claims.orders)))))
    return tables


def _value_notes(one: ValueClaim) -> list[str]:
    if one.verdict == "confirmed":
        return []
    if one.nearest:
        rules = f" {' and '.join(one.nearest.rules)}" if one.nearest.rules else ""
        return [f"{one.claim}: none of {one.tried} definitions gives it; the nearest is {number(one.nearest.mean)}{rules}"]
    given = [f"{number(match.mean)} {' and '.join(match.rules)}" for match in one.matches[:_SHOWN]]
    more = f"; and {len(one.matches) - _SHOWN} more" if len(one.matches) > _SHOWN else ""
    chance = f", and about {one.chance:.1g} would by chance" if one.verdict == "unclear" else ""
    verb = "gives" if len(one.matches) == 1 else "give"
    return [f"{one.claim}: {len(one.matches)} of {one.tried} definitions {verb} it{chance}: {'; '.join(given)}{more}"]


def _order_notes(one: OrderClaim, orders: int) -> list[str]:
    found = f"{one.better} - {one.worse} in {one.measure}: {one.difference:+.4f}, 95 % {interval_cell(one.interval, '+.3f')}"
    lines = [f"{found}, {one.queries} queries; p: two-sided, of paired tests"]
    if orders > 1:
        lines.append(f"the verdict is by the randomisation test, with p corrected by Holm over {orders} claims")
    if one.needed is None:
        lines.append("there is no difference to be settled")
    elif one.verdict == "not shown":
        lines.append(f"about {one.needed:,} such queries would settle it: they find this difference four times in five")
    else:
        lines.append(f"{one.needed:,} such queries find this difference four times in five; here are {one.queries:,}")
    same = f"the direction is the claimed one under {one.same} of {one.tried} definitions"
    rules = "; ".join(one.against[:_SHOWN]) if one.difference > 0 else ""
    return [*lines, f"{same}; not {rules}" if rules else same]
