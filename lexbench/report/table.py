"""What a table is, whatever it is shown with: cells as text; and tables as GitHub Markdown."""

from dataclasses import dataclass, field

from lexbench.errors import visible

DIGITS = 4  # as trec_eval prints
_ESCAPED = str.maketrans({"\\": "\\\\", "|": "\\|", "`": "\\`", "<": "&lt;", ">": "&gt;", "*": "\\*", "_": "\\_"})


@dataclass(frozen=True)
class Table:
    """Cells as text; the first column is text, the others are numbers. A heading may have several lines."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = field(default=())


def heading(measure: str) -> str:
    """Return *measure* as the head of a column no wider than it must be: `RR(rel=2)@10` is RR@10, and below it rel=2."""
    name, bracket, rest = measure.partition("(")
    settings, _, cutoff = rest.rpartition(")")
    return f"{name}{cutoff}\n{settings}" if bracket else measure


def number(value: float | None, form: str = f".{DIGITS}f") -> str:
    """Return a number as a cell, written in the format *form*; a dash where there is none."""
    return "—" if value is None else format(value, form)


def with_deviation(value: float | None, deviation: float | None) -> str:
    """Return a mean as a cell, with the standard deviation over seeds where there is one: `.3292 ±.0012` with its zeros."""
    return number(value) if value is None or deviation is None else f"{number(value)} ±{number(deviation)}"


def escape(text: str) -> str:
    """Return *text* so that Markdown shows it as it is, whatever is in it; control characters as escapes."""
    return visible(text).translate(_ESCAPED)


def markdown(table: Table, *, escaped: bool = False) -> str:
    """Return *table* as Markdown, without its title. Cells are shown as they are, or with *escaped* are Markdown already."""
    write = str if escaped else escape
    lines = [
        "| " + " | ".join(escape(name) for name in table.header) + " |",
        "|" + "|".join([" :-- ", *[" --: "] * (len(table.header) - 1)]) + "|",
        *("| " + " | ".join(write(cell) for cell in row) + " |" for row in table.rows),
    ]
    if table.notes:
        lines += ["", *(f"- {escape(note)}" for note in table.notes)]
    return "\n".join(lines) + "\n"
