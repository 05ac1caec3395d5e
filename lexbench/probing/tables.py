"""The table of `lexbench probe`."""

from lexbench.probing.probe import Point, Probe
from lexbench.table import Table, interval_cell, number


def tables(found: Probe) -> list[Table]:
    """Return a table with one row per filter and setting."""
    filters = {point.filter.text: point.filter for point in found.points if point.filter.text}
    columns: dict[str, list[str]] = {"passes": [_passes(point) for point in found.points]} if filters else {}
    fixed = []
    for name in found.points[0].settings:
        values = [str(point.settings[name]) for point in found.points]
        if len(set(values)) > 1 or (len(found.points[0].settings) == 1 and not filters):
            columns[name] = values
        else:
            fixed.append(f"{name}={values[0]}")
    if not columns:  # the first column is text
        columns["index"] = ["as it is"] * len(found.points)
    columns |= {
        f"recall\n@{found.k}": [number(point.recall) for point in found.points],
        "95 %\ninterval": [interval_cell(point.recall_range) for point in found.points],
    }
    if any(point.short for point in found.points):
        columns |= {
            "short\nanswers": [f"{point.short:,}" for point in found.points],
            "median\nlength": [f"{point.length:g}" for point in found.points],
        }
    columns["alone\nms"] = [_ms(point.alone) for point in found.points]
    if found.offered:
        for share in ("p50", "p95", "p99"):
            columns[f"{share}\nms"] = [_ms(getattr(point.load, share)) for point in found.points]
    if any(point.overloaded(found.offered) for point in found.points):
        columns["server"] = ["overloaded" if point.overloaded(found.offered) else "" for point in found.points]
    plans = [point.plan for point in found.points]
    if len(set(plans)) > 1:
        columns["plan"] = plans
    notes = [
        f"{found.queries:,} queries, {found.documents:,} documents, similarity {found.similarity}",
        *(f"{one.documents:,} documents ({one.share:.2%}) pass {text}" for text, one in filters.items()),
        *([f"settings: {' '.join(fixed)}"] if fixed else []),
        *([f"plan: {plans[0]}"] if "plan" not in columns and plans[0] else []),
        f"at rank {found.k} documents tie in {found.ties:,} queries, and any of them counts",
        "alone: median of one query at a time",
        *([f"p50, p95, p99: at {found.offered:,.0f} queries/s, from the time when a query was due"] if found.offered else []),
        *found.notes,
    ]
    rows = tuple(zip(*columns.values(), strict=True))
    return [Table(f"{found.target}: recall of exact", tuple(columns), rows, tuple(notes))]


def _passes(point: Point) -> str:
    """Return the share of the documents that pass the filter, as a cell."""
    return f"{point.filter.share:.2%}" if point.filter.text else "all"


def _ms(seconds: float | None) -> str:
    """Return milliseconds as a cell."""
    return number(None if seconds is None else seconds * 1000, ".2f")
