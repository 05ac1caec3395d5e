"""Answers: typed values that show themselves, in a terminal, in a notebook and as data frames.

Every public function of lexbench returns an answer. The command line prints the same tables, and with `--json` its document.
"""

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from lexbench.display.table import Table
from lexbench.errors import one_line, require, shortened, visible

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table as RichTable
    from rich.text import Text

_SHORT = 90  # characters of an answer in one line
_WIDTH = 100  # columns of an answer as text
_GAP = 2  # characters between columns: an invisible divider and the padding
_NAMES = 0.45  # the largest share of the width for the first column of a split table; longer names wrap
_LEAST = 0.25  # names wrap down to this share of the width before a table is split


class Answer:
    """Base class of what the functions of lexbench return: facts with names, and the tables that show them."""

    __slots__ = ()

    def tables(self) -> Sequence[Table]:
        """Return the tables that show the answer; none if lines do."""
        return ()

    def head(self) -> Sequence[str]:
        """Return the lines above the tables, e.g. a verdict."""
        return ()

    def lines(self) -> Sequence[str]:
        """Return the lines below the tables, e.g. what failed or what to type next."""
        return ()

    def document(self) -> Any:
        """Return what `--json` prints: structs and plain values."""
        return self

    def rows(self) -> list[dict[str, Any]]:
        """Return the facts as rows of one data frame: one name per column, any library of data frames reads them."""
        return [dict(zip(table.header, row, strict=True)) for table in self.tables() for row in table.rows]

    def to_pandas(self) -> "pd.DataFrame":
        """Return the rows as a data frame. Needs pandas (`lexbench[pandas]`)."""
        require("to_pandas()", ["pandas"], "pandas")
        import pandas as pd

        return pd.DataFrame(self.rows())

    def __repr__(self) -> str:
        """Return the kind of answer with its first line, or with the size of its first table, in short."""
        first = next(iter(self.head()), "")
        if not first:
            tables = self.tables()
            first = f"{tables[0].title or ', '.join(tables[0].header)}: {len(tables[0].rows)} rows" if tables else "empty"
        return f"<{type(self).__name__}: {shortened(one_line(first), _SHORT)}>"

    def __str__(self) -> str:
        """Return the tables and lines as the terminal prints them, 100 columns wide."""
        from rich.console import Console

        console = Console(width=_WIDTH, no_color=True, highlight=False)
        with console.capture() as text:
            console.print(self)
        return text.get()

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        """Show the tables and lines in a terminal that uses rich."""
        from rich.text import Text

        yield from (Text(visible(line)) for line in self.head())
        for table in self.tables():
            yield from render(table, options.max_width)
        yield from (Text(visible(line)) for line in self.lines())

    def _repr_html_(self) -> str:
        """Show the tables and lines in a notebook."""
        above, below = (("".join(f"<p>{escape(visible(one))}</p>" for one in part)) for part in (self.head(), self.lines()))
        return above + "".join(map(html, self.tables())) + below


class Tables(Answer):
    """An answer that is nothing but tables, e.g. the list of all datasets."""

    def __init__(self, tables: Sequence[Table], document: Any = None) -> None:
        """Take the tables, and what `--json` prints, by default a list of rows."""
        self._tables, self._document = tuple(tables), document

    def tables(self) -> Sequence[Table]:
        """Return the tables."""
        return self._tables

    def document(self) -> Any:
        """Return the rows, or what was given for them."""
        return self.rows() if self._document is None else self._document


class Facts(Answer):
    """An answer that is one value with named fields, e.g. the contract of a dataset, shown as YAML."""

    def __init__(self, value: Any) -> None:
        """Take a struct or a mapping."""
        self.value = value

    def __getattr__(self, name: str) -> Any:
        """Return a field of the value."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.value, name)

    def document(self) -> Any:
        """Return the facts as plain values."""
        import msgspec

        return msgspec.json.decode(msgspec.json.encode(self.value))

    def rows(self) -> list[dict[str, Any]]:
        """Return one row: a column per field."""
        return [self.document()]

    def head(self) -> Sequence[str]:
        """Return the facts as YAML, without empty values."""
        import yaml

        filled = _filled(self.document())
        text = yaml.safe_dump(filled, sort_keys=False, allow_unicode=True, default_flow_style=None, width=math.inf)
        return list(text.splitlines())

    def _repr_html_(self) -> str:
        """Show the facts in a notebook."""
        text = "\n".join(map(visible, self.head()))
        return f"<pre>{escape(text)}</pre>"


def _filled(value: Any) -> Any:
    """Return *value* without the empty values in its tables."""
    if isinstance(value, dict):
        return {name: _filled(item) for name, item in value.items() if item not in (None, "", [], {})}
    return [_filled(item) for item in value] if isinstance(value, list) else value


def html(table: Table) -> str:
    """Return a table as HTML for a notebook: the title, the cells, and the notes as a list. All texts are escaped."""

    def row(cells: Sequence[str], tag: str) -> str:
        texts = (escape(visible(cell)) if "\n" not in cell else "<br>".join(map(escape, cell.split("\n"))) for cell in cells)
        align = ["left", *["left" if table.is_text else "right"] * (len(cells) - 1)]
        return "".join(f'<{tag} style="text-align:{one}">{text}</{tag}>' for one, text in zip(align, texts, strict=True))

    head = f"<thead><tr>{row(table.header, 'th')}</tr></thead>" if table.header else ""
    body = "".join(f"<tr>{row(cells, 'td')}</tr>" for cells in table.rows)
    title = f"<p><b>{escape(visible(table.title))}</b></p>" if table.title else ""
    notes = "".join(f"<li>{escape(visible(note))}</li>" for note in table.notes)
    return title + f"<table>{head}<tbody>{body}</tbody></table>" * bool(table.header) + f"<ul>{notes}</ul>" * bool(notes)


# ---- tables in terminals. A table that is too wide is split into several below each other; no number is cut ------------------


def render(table: Table, width: int) -> "Iterator[RichTable | Text]":
    """Yield a table in as many parts as a terminal of *width* columns needs, then its notes. Cells are text, never markup."""
    from rich.text import Text

    if table.title:
        yield Text(visible(table.title), style="bold")
    if table.header:  # a table may have only notes
        yield from _parts(table, width)
    yield from (Text(f"· {visible(note)}", style="dim") for note in table.notes)


def _parts(table: Table, width: int) -> "Iterator[RichTable]":
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


def _rich(table: Table, columns: Sequence[int], most: int) -> "RichTable":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

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
