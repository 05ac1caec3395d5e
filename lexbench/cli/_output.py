"""Printing answers: tables for people, one JSON document for programs."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_WIDTH = 100  # what tables are made for, where nothing says how wide the terminal is


def json_option(function: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(function)


def print_json(value: Any) -> None:
    """Print *value* as JSON, the same text for the same value."""
    click.echo(json.dumps(value, indent=1, ensure_ascii=False))


def print_rich(*items: Any) -> None:
    """Print tables; wide output that is not to a terminal is not cut."""
    from rich.console import Console

    width = shutil.get_terminal_size((_WIDTH, 24)).columns if sys.stdout.isatty() or "COLUMNS" in os.environ else _WIDTH
    console = Console(width=width, highlight=False)
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
