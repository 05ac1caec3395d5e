"""Tables as GitHub Markdown."""

from lexbench.report.cells import Table

_ESCAPED = str.maketrans({"\\": "\\\\", "|": "\\|", "`": "\\`", "<": "&lt;", ">": "&gt;", "*": "\\*", "_": "\\_", "\n": " "})


def escape(text: str) -> str:
    """Return *text* so that Markdown shows it as it is, whatever is in it."""
    return text.translate(_ESCAPED)


def render(table: Table, *, escaped: bool = False) -> str:
    """Return *table* as Markdown. Its cells are shown as they are, or with *escaped* are Markdown already."""
    write = str if escaped else escape
    lines = [
        "| " + " | ".join(escape(name) for name in table.header) + " |",
        "|" + "|".join([" :-- ", *[" --: "] * (len(table.header) - 1)]) + "|",
        *("| " + " | ".join(write(cell) for cell in row) + " |" for row in table.rows),
    ]
    if table.notes:
        lines += ["", *(f"- {escape(note)}" for note in table.notes)]
    return "\n".join(lines) + "\n"
