"""Tables as GitHub Markdown."""

from lexbench.report.table import Table

_ESCAPED = str.maketrans({"\\": "\\\\", "|": "\\|", "`": "\\`", "<": "&lt;", ">": "&gt;", "*": "\\*", "_": "\\_", "\n": " "})


def escape(text: str) -> str:
    """Return *text* so that Markdown shows it as it is, whatever is in it."""
    return text.translate(_ESCAPED)


def render(table: Table) -> str:
    """Return *table* as Markdown; every cell is escaped by whoever made it, the header here."""
    lines = [
        "| " + " | ".join(escape(name) for name in table.header) + " |",
        "|" + "|".join([" :-- ", *[" --: "] * (len(table.header) - 1)]) + "|",
        *("| " + " | ".join(row) + " |" for row in table.rows),
    ]
    if table.notes:
        lines += ["", *(f"- {escape(note)}" for note in table.notes)]
    return "\n".join(lines) + "\n"
