"""What a table is, whatever it is shown with: cells as text."""

from dataclasses import dataclass, field

DIGITS = 4  # as trec_eval prints


@dataclass(frozen=True)
class Table:
    """Cells as text; the first column is text, the others are figures. A heading may have several lines."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = field(default=())


def heading(measure: str) -> str:
    """Return *measure* as the head of a column no wider than it must be: `RR(rel=2)@10` is RR@10, and below it rel=2."""
    name, bracket, rest = measure.partition("(")
    settings, _, cutoff = rest.rpartition(")")
    return f"{name}{cutoff}\n{settings}" if bracket else measure


def figure(value: float | None, form: str = f".{DIGITS}f") -> str:
    """Return a figure as a cell; a dash where there is none."""
    return "—" if value is None else format(value, form)
