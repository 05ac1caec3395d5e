"""Print tables in terminals with rich. A table that is too wide is split into several below each other; no number is cut."""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table as RichTable
from rich.text import Text

from lexbench.errors import visible
from lexbench.table import Table

_GAP = 2  # characters between columns: an invisible divider and the padding
_NAMES = 0.45  # the largest share of the width for the first column of a split table; longer names wrap
_LEAST = 0.25  # names wrap down to this share of the width before a table is split


def render(table: Table, width: int) -> Iterator[RichTable | Text]:
    """Yield a table in as many parts as a terminal of *width* columns needs, then its notes. Cells are text, never markup."""
    if table.title:
        yield Text(visible(table.title), style="bold")
    if table.header:  # a table may have only notes
        yield from _parts(table, width)
    yield from (Text(f"· {visible(note)}", style="dim") for note in table.notes)


def _parts(table: Table, width: int) -> Iterator[RichTable]:
    cells = zip(table.header, *([visible(cell) for cell in row] for row in table.rows), strict=True)
    widths = [max(len(line) for cell in column for line in cell.split("\n")) for column in cells]  # without wrapping
    left = width - sum(_GAP + other for other in widths[1:])  # for the first column
    names = min(widths[0], left if left >= width * _LEAST else int(width * _NAMES))
    if table.is_text:  # cells wrap
        yield _rich(table, range(len(widths)), widths[0])
    else:
        yield from (_rich(table, columns, names) for columns in _fitting([names, *widths[1:]], width))


def _fitting(widths: Sequence[int], width: int) -> Iterator[list[int]]:
    """Yield the columns of each part of a table. The first column is in every part."""
    part, used = [0], widths[0]
    for column in range(1, len(widths)):
        if used + _GAP + widths[column] > width and len(part) > 1:
            yield part
            part, used = [0], widths[0]
        part.append(column)
        used += _GAP + widths[column]
    yield part


def _rich(table: Table, columns: Sequence[int], most: int) -> RichTable:
    shown = RichTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1))
    for column in columns:
        if column and not table.is_text:
            shown.add_column(Text(table.header[column]), justify="right", no_wrap=True)
        else:
            shown.add_column(Text(table.header[column]), overflow="fold", max_width=None if column else most)
    for row in table.rows:
        shown.add_row(*(Text(visible(row[column]) if column else _wrapped(visible(row[0]), most)) for column in columns))
    return shown


def _wrapped(name: str, most: int) -> str:
    """Return a name in lines of at most *most* characters, ended after a space or a mark of the notation where there is one."""
    lines = []
    while len(name) > most:
        at = max((name.rfind(mark, most // 3, most) + 1 for mark in " ,|/("), default=0) or most
        at = max(at, name.rfind("@", most // 3, most))  # @ begins a line
        lines.append(name[:at].rstrip())
        name = name[at:].lstrip()
    return "\n".join([*lines, name])
