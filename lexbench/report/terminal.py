"""Tables for terminals, by rich."""

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from lexbench.report.table import Table

_NARROW = 16  # characters: a column up to this wide is not folded


def render(table: Table) -> RenderableType:
    """Return *table* with its notes as something rich prints; names are text, never markup."""
    title = Text(table.title, style="bold")
    shown = RichTable(title=title, title_justify="left", box=SIMPLE_HEAD, show_edge=False, padding=(0, 1), collapse_padding=True)
    for number, name in enumerate(table.header):
        shown.add_column(Text(name), justify="right" if number else "left", overflow="fold", no_wrap=len(name) <= _NARROW)
    for row in table.rows:
        shown.add_row(*(Text(cell) for cell in row))
    return Group(shown, *(Text(f"· {note}", style="dim") for note in table.notes))
