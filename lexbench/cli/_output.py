"""Print answers: tables for people, one JSON document for programs.

Every command prints through these functions only. They escape control characters, so no file can send them to a terminal.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Any

import click

from lexbench.errors import CONTROLS, LexbenchError, visible

if TYPE_CHECKING:
    from lexbench.display.answer import Answer
    from lexbench.display.table import Table

_WIDTH = 100  # columns of a table where the width of the terminal is unknown
_NARROWEST = 40  # a narrower terminal wraps lines itself; tables would lose their columns
_DEL = 0x7F
# json.dumps escapes the controls below DEL itself, but passes DEL and those above it through.
_JSON_ESCAPES = {
    code: f"\\u{code:04x}" if code == _DEL else json.dumps(chr(code)).strip('"') for code in CONTROLS if code >= _DEL
}


@contextmanager
def answering() -> Iterator[None]:
    """Turn errors from writing to stdout into a LexbenchError, except BrokenPipeError (the reader has gone)."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for the interpreter's last flush
        raise LexbenchError(f"the answer cannot be written to stdout: {error.strerror or error}") from None


def say(line: str, *, err: bool = False) -> None:
    """Print one line: to stdout as part of the answer, or with *err* to stderr."""
    if not err:
        with answering():
            click.echo(visible(line))
        return
    with suppress(OSError):  # a lost note must not stop the answer
        click.echo(visible(line), err=True)


def print_json(value: Any) -> None:
    """Print *value*, e.g. a struct, as JSON, always the same text for the same value; as ASCII unless stdout is UTF-8."""
    import msgspec

    in_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    with answering():
        click.echo(
            json.dumps(msgspec.to_builtins(value, str_keys=True), indent=1, ensure_ascii=not in_utf8).translate(_JSON_ESCAPES)
        )


def _columns() -> int | None:
    """Return the width of the terminal, at least 40; None in a pipe."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return None
    return max(_NARROWEST, shutil.get_terminal_size((_WIDTH, 24)).columns)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines. A terminal gets long ones wrapped between words and indented further than they begin."""
    columns = _columns()
    for line in map(visible, lines):
        further = " " * (len(line) - len(line.lstrip()) + 2)
        fold = TextWrapper(columns or len(line) + 1, subsequent_indent=further, break_long_words=False, break_on_hyphens=False)
        with answering():
            click.echo(fold.fill(line))


def print_tables(tables: "Iterable[Table]") -> None:
    """Print tables for people."""
    from rich.console import Console

    from lexbench.display.answer import render

    console = Console(width=_columns() or _WIDTH, highlight=False)
    with answering():
        for item in (item for table in tables for item in render(table, console.width)):
            console.print(item)


def print_answer(answer: "Answer", *, as_json: bool) -> None:
    """Print an answer: its lines and tables, or as one JSON document."""
    if as_json:
        print_json(answer.document())
        return
    print_lines(answer.head())
    print_tables(answer.tables())
    for line in answer.lines():  # whole, because they may have a command to copy
        say(line)
