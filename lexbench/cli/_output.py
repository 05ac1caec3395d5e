"""Printing answers: tables for people, one JSON document for programs."""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from textwrap import TextWrapper
from typing import Any

import click

_WIDTH = 100  # what tables are made for, where nothing says how wide the terminal is


def print_json(value: Any) -> None:
    """Print *value* as JSON, the same text for the same value."""
    click.echo(json.dumps(value, indent=1, ensure_ascii=False))


def _columns() -> int | None:
    """Return how wide the terminal is; None where nothing says so, as in a pipe."""
    return shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stdout.isatty() or "COLUMNS" in os.environ else None


def print_lines(lines: Iterable[str]) -> None:
    """Print lines; in a terminal long ones are folded between words, further in than they begin, and no word is cut."""
    columns = _columns()
    for line in lines:
        further = " " * (len(line) - len(line.lstrip()) + 2)
        fold = TextWrapper(columns or len(line) + 1, subsequent_indent=further, break_long_words=False, break_on_hyphens=False)
        click.echo(fold.fill(line))


def print_rich(*items: Any) -> None:
    """Print tables; wide output that is not to a terminal is not cut."""
    from rich.console import Console

    console = Console(width=_columns() or _WIDTH, highlight=False)
    for item in items:
        console.print(item)


def print_rows(header: Sequence[str], rows: Sequence[Sequence[str]], *, as_json: bool) -> None:
    """Print rows of text as a table, or as a JSON list of objects."""
    if as_json:
        print_json([dict(zip(header, row, strict=True)) for row in rows])
        return
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False)
    for number, name in enumerate(header):
        table.add_column(name, no_wrap=number == 0, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    print_rich(table)
