"""What a table is, whatever it is shown with: cells as text."""

from dataclasses import dataclass, field

DIGITS = 4  # as trec_eval prints


@dataclass(frozen=True)
class Table:
    """Cells as text; the first column is text, the others are figures."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = field(default=())


def figure(value: float | None, form: str = f".{DIGITS}f") -> str:
    """Return a figure as a cell; a dash where there is none."""
    return "—" if value is None else format(value, form)
