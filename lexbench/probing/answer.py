"""What a probe of a running index found: a point for each setting and filter, and the table of `lexbench probe`."""

from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from lexbench.display.answer import Answer
from lexbench.display.table import Table, interval_cell, number
from lexbench.results import Latency

Value: TypeAlias = int | float | str | bool

_KEPT_UP = 0.95  # share of the offered load; below it the server is overloaded


class FilterShare(msgspec.Struct, frozen=True, kw_only=True):
    """A filter, and how many documents pass it."""

    text: str  # "": no filter
    documents: int
    share: float


class ProbedPoint(msgspec.Struct, frozen=True, kw_only=True):
    """What one setting gives under one filter."""

    settings: dict[str, Value]
    filter: FilterShare
    recall: float  # of exact, mean over the queries
    recall_range: tuple[float, float]  # 95 % bootstrap interval
    short: int  # answers with fewer documents than there are to find, at most k
    length: float  # median number of documents in an answer
    alone: float  # seconds, the median of one query at a time
    load: Latency | None  # at the offered load, from the time when a query was due
    achieved: float  # queries per second
    plan: str  # how the server carries the search out; "" if it does not say

    def overloaded(self, offered: float) -> bool:
        """Whether the server fell behind the offered load."""
        return bool(offered) and self.achieved < _KEPT_UP * offered

    @property
    def name(self) -> str:
        """The settings as text, e.g. "ef_search=40 iterative_scan=off"; "" for none."""
        return " ".join(f"{name}={value}" for name, value in self.settings.items())


class Probe(Answer, msgspec.Struct, frozen=True, kw_only=True):
    """What a probe found."""

    target: str
    k: int
    queries: int
    documents: int
    similarity: str
    ties: int  # queries whose k-th document ties with a later one, without a filter or under the first
    offered: float  # queries per second
    points: list[ProbedPoint]
    warnings: list[str]  # faults that explain the figures: short answers, a setting that does nothing, one answer to all
    advice: str
    notes: list[str]

    def head(self) -> list[str]:
        """Return the faults that explain the figures, and the advice."""
        return [*self.warnings, self.advice]

    def tables(self) -> list[Table]:
        """Return a table with one row per filter and setting."""
        filters = {point.filter.text: point.filter for point in self.points if point.filter.text}
        shares = [f"{point.filter.share:.2%}" if point.filter.text else "all" for point in self.points]  # of the documents
        columns: dict[str, list[str]] = {"passes": shares} if filters else {}
        fixed = []
        for name in self.points[0].settings:
            values = [str(point.settings[name]) for point in self.points]
            if len(set(values)) > 1 or (len(self.points[0].settings) == 1 and not filters):
                columns[name] = values
            else:
                fixed.append(f"{name}={values[0]}")
        if not columns:  # the first column is text
            columns["index"] = ["as it is"] * len(self.points)
        columns |= {
            f"recall\n@{self.k}": [number(point.recall) for point in self.points],
            "95 %\ninterval": [interval_cell(point.recall_range) for point in self.points],
        }
        if any(point.short for point in self.points):
            columns |= {
                "short\nanswers": [f"{point.short:,}" for point in self.points],
                "median\nlength": [f"{point.length:g}" for point in self.points],
            }
        columns["alone\nms"] = [_ms(point.alone) for point in self.points]
        if self.offered:
            for share in ("p50", "p95", "p99"):
                columns[f"{share}\nms"] = [_ms(getattr(point.load, share)) for point in self.points]
        if any(point.overloaded(self.offered) for point in self.points):
            columns["server"] = ["overloaded" if point.overloaded(self.offered) else "" for point in self.points]
        plans = [point.plan for point in self.points]
        if len(set(plans)) > 1:
            columns["plan"] = plans
        notes = [
            f"{self.queries:,} queries, {self.documents:,} documents, similarity {self.similarity}",
            *(f"{one.documents:,} documents ({one.share:.2%}) pass {text}" for text, one in filters.items()),
            *([f"settings: {' '.join(fixed)}"] if fixed else []),
            *([f"plan: {plans[0]}"] if "plan" not in columns and plans[0] else []),
            f"at rank {self.k} documents tie in {self.ties:,} queries, and any of them counts",
            "alone: median of one query at a time",
            *([f"p50, p95, p99: at {self.offered:,.0f} queries/s, from the time when a query was due"] if self.offered else []),
            *self.notes,
        ]
        rows = tuple(zip(*columns.values(), strict=True))
        return [Table(f"{self.target}: recall of exact", tuple(columns), rows, tuple(notes))]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per filter and setting, times in seconds."""
        return [
            {**point.settings, "filter": point.filter.text, "passes": point.filter.share}
            | {name: getattr(point, name) for name in ("recall", "short", "length", "alone", "achieved", "plan")}
            | {name: getattr(point.load, name) for name in ("p50", "p95", "p99") if point.load}
            for point in self.points
        ]

    def plot(self, path: "str | Path") -> list[Path]:
        """Draw recall over latency into files with the endings .svg, .pdf and .png, and return them."""
        from lexbench.report.figures import write_curve

        drawn = [(1000 * point.alone, point.recall, f"{point.name} {point.filter.text}".strip()) for point in self.points]
        axes = "median ms, one query at a time", f"recall of exact @{self.k}"
        return list(write_curve(drawn, self.target, axes, Path(path)))


def _ms(seconds: float | None) -> str:
    """Return milliseconds as a cell."""
    return number(None if seconds is None else seconds * 1000, ".2f")
