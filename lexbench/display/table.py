"""Tables of text cells, and tables as GitHub Markdown. Commands and pages build their tables from `Table`."""

from dataclasses import dataclass

from lexbench.errors import visible

DIGITS = 4  # like trec_eval
LEAST_P = 1e-4
_ESCAPED = str.maketrans({"\\": "\\\\", "|": "\\|", "`": "\\`", "<": "&lt;", ">": "&gt;", "*": "\\*", "_": "\\_"})


@dataclass(frozen=True)
class Table:
    """Text cells, and notes below them. The first column is text, the others are numbers. A heading may have several lines."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    is_text: bool = False  # whether the other columns are also text


def heading(measure: str) -> str:
    """Return *measure* as a narrow column heading: `RR(rel=2)@10` becomes RR@10, with rel=2 on a second line."""
    name, bracket, rest = measure.partition("(")
    settings, _, cutoff = rest.rpartition(")")
    return f"{name}{cutoff}\n{settings}" if bracket else measure


def number(value: float | None, form: str = f".{DIGITS}f") -> str:
    """Return a number as a cell in the format *form*; a dash for None."""
    return "—" if value is None else format(value, form)


def p_text(p: float, tested: float | None = None) -> str:
    """Return p as a cell, with ≤ if it is the smallest that 10,000 resamples show; *tested* is p before a correction."""
    return number(p) if (p if tested is None else tested) > LEAST_P else f"≤ {number(max(p, LEAST_P))}"


def interval_cell(interval: tuple[float, float], form: str = ".3f") -> str:
    """Return an interval as a cell, e.g. [0.312, 0.345]."""
    return f"[{interval[0]:{form}}, {interval[1]:{form}}]"


def escape(text: str) -> str:
    """Return *text* so that Markdown shows it literally. Control characters become escapes."""
    return visible(text).translate(_ESCAPED)


def markdown(table: Table, *, escaped: bool = False) -> str:
    """Return *table* as Markdown, without its title. With *escaped* the cells are Markdown already."""
    write = str if escaped else escape
    lines = [
        "| " + " | ".join(escape(name) for name in table.header) + " |",
        "|" + "|".join([" :-- ", *[" --: "] * (len(table.header) - 1)]) + "|",
        *("| " + " | ".join(write(cell) for cell in row) + " |" for row in table.rows),
    ]
    if table.notes:
        lines += ["", *(f"- {escape(note)}" for note in table.notes)]
    return "\n".join(lines) + "\n"
