"""What changes from a baseline to another system: measures, costs and queries, and their tables."""

from dataclasses import replace

import msgspec
import numpy as np

from lexbench.analysis.compare.query_changes import QueryChange
from lexbench.analysis.compare.tables import changes_table
from lexbench.display.table import Table, interval_cell, number, p_text
from lexbench.errors import shortened
from lexbench.results import UNRANKED

_JUDGED_AT = 10  # documents whose judged share is shown
SIGNED = "+.4f"
_BOUNDS = (0.1, 0.3)  # of the sizes of changes, for the groups of queries in the picture
_BAR = 24  # characters of the longest bar
_NAME = 40  # characters of a system in a table


class MeasureChange(msgspec.Struct, frozen=True, kw_only=True):
    """One measure of both systems on one dataset."""

    dataset: str
    measure: str
    before: float
    after: float
    interval: tuple[float, float]  # 95 % of the difference, paired bootstrap over queries
    p: float  # two-sided paired randomisation test; corrected for all comparisons if it is the headline
    tested: float | None = None  # p of the headline before the correction
    verdict: str = ""  # of the headline: better, worse, cannot tell or same


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """A cost of both systems, on the dataset with most documents."""

    what: str
    before: float | None
    after: float | None
    form: str  # of the numbers
    aside: str = ""  # why the two can be compared roughly or not at all, e.g. "noisy timing"

    @property
    def ratio(self) -> float | None:
        """How many times as much it is, roughly if timings were noisy; None if it is unknown or cannot be compared."""
        return self.after / self.before if self.before and self.after and self.aside in ("", UNRANKED["noisy"]) else None


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One system against the baseline."""

    system: str
    baseline: str
    verdict: str  # one sentence
    cautions: list[str]  # what makes it doubtful
    measures: list[MeasureChange]  # of one dataset all measures, of several the headline of each
    costs: list[Cost]
    judged: dict[str, float | None]  # by system: the share of the first 10 documents that are judged
    gained: list[QueryChange]
    lost: list[QueryChange]
    differences: list[float]  # of the headline by query, ascending

    @property
    def heads(self) -> tuple[str, str]:
        """The names of both systems in tables."""
        return shortened(self.baseline, _NAME), shortened(self.system, _NAME)

    def groups(self) -> list[tuple[str, int]]:
        """Return how many queries lost and gained how much: a name and a count for each group."""
        names = ("below .1", "from .1 to .3", "above .3")
        values = np.array(self.differences)
        sizes = np.searchsorted(_BOUNDS, np.abs(values))  # of equal bounds the smaller group
        counts = {
            sign: [int(((np.sign(values) == sign) & (sizes == at)).sum()) for at in range(len(names))] for sign in (-1, 1)
        }
        lost = [(f"lost {name}", count) for name, count in zip(names, counts[-1], strict=True)]
        gained = [(f"gained {name}", count) for name, count in zip(names, counts[1], strict=True)]
        return [*reversed(lost), ("same", int((values == 0).sum())), *gained]


# ---- tables ----------------------------------------------------------------------------------------------------------------


def tables(change: Change) -> list[Table]:
    """Return the tables of one system: what changes, the queries by change, and those that lose and gain most."""
    several = len({one.dataset for one in change.measures}) > 1
    shown = [summary_table(change), picture_table(change)]
    for name, changes in (("lose", change.lost), ("gain", change.gained)):
        if changes:
            table = changes_table(f"the queries that {name} most", change.heads, changes, several=several)
            shown.append(replace(table, notes=() if set(table.notes) <= set(shown[-1].notes) else table.notes))
    return shown


def summary_table(change: Change) -> Table:
    """Return measures, judged share and costs of both systems."""
    several = len({one.dataset for one in change.measures}) > 1
    rows: list[tuple[str, ...]] = [
        (
            one.dataset if several else one.measure,
            number(one.before),
            number(one.after),
            number(one.after - one.before, SIGNED),
            interval_cell(one.interval, "+.3f"),
            p_text(one.p, one.tested),
            one.verdict,
        )
        for one in change.measures
    ]
    shares = [change.judged[change.baseline], change.judged[change.system]]
    if any(share is not None for share in shares):
        rows.append((f"judged of the first {_JUDGED_AT}", number(shares[0], ".0%"), number(shares[1], ".0%"), "", "", "", ""))
    for cost in change.costs:
        ratio = f"x {cost.ratio:,.3g}" + " ~" * bool(cost.aside) if cost.ratio else "~" * bool(cost.aside)
        rows.append((cost.what, number(cost.before, cost.form), number(cost.after, cost.form), ratio, "", "", ""))
    title = ", ".join(dict.fromkeys(one.measure if several else one.dataset for one in change.measures))
    header = ("", *change.heads, "change", "95 %", "p", "verdict")
    notes = [
        "p: paired randomisation test"
        + ("" if several else "; only the first is corrected for all comparisons, and has a verdict")
    ]
    notes += [f"~: {aside}" for aside in dict.fromkeys(cost.aside for cost in change.costs) if aside]
    return Table(title, header, tuple(rows), tuple(notes))


def picture_table(change: Change) -> Table:
    """Return how many queries lost and gained how much, as bars of text."""
    groups = change.groups()
    most = max(count for _, count in groups) or 1
    rows = tuple((name, str(count), "█" * round(count / most * _BAR) or ("▏" if count else "")) for name, count in groups)
    return Table(f"queries by their change of {change.measures[0].measure}", ("", "queries", ""), rows, is_text=True)
