"""The leaderboard as one HTML file that needs no network, no library and no server.

The data are embedded as JSON, escaped so that no browser reads them as markup; the script inserts them as text only. The
content security policy in the page's head allows this script and this style, by their digests, and nothing else.
"""

import re
from html import escape
from importlib.resources import files
from typing import Any

import msgspec

from lexbench.errors import visible
from lexbench.report import web
from lexbench.report.change.page import section as change_section
from lexbench.report.leaderboard.board import Board, Section
from lexbench.report.leaderboard.copies import main_grid

_SCRIPTS = ("dom", "copies", "links", "table", "plots", "heat_map", "queries", "provenance")
_INERT = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def html(board: Board) -> str:
    r"""Return the page; equal boards give equal text. Control characters of names and texts are shown, e.g. as \x1b."""
    board = msgspec.convert(_without_controls(msgspec.to_builtins(board)), Board)
    script = f'"use strict";\n{"".join(_read(f"{name}.js") for name in _SCRIPTS)}'
    suites = tuple(msgspec.structs.replace(one, change=None) for one in board.suites)  # changes are markup already
    parts = {
        "policy": web.policy(script),
        "style": web.style(),
        "script": script,
        "data": msgspec.json.encode(msgspec.structs.replace(board, suites=suites)).decode().translate(_INERT),
        "tables": "\n".join(map(_table, board.suites)),
        "changes": "\n".join(_change(section, several=len(board.suites) > 1) for section in board.suites if section.change),
    }
    # One pass, so that inserted text is not searched for placeholders.
    return re.sub(r"@(policy|style|script|data|tables|changes)@", lambda name: parts[name[1]], _read("page.html"))


def _without_controls(value: Any) -> Any:
    """Return JSON values with all texts as `visible` shows them."""
    if isinstance(value, str):
        return "\n".join(map(visible, value.split("\n")))  # headings have several lines
    if isinstance(value, dict):
        return {_without_controls(name): _without_controls(one) for name, one in value.items()}
    return [_without_controls(one) for one in value] if isinstance(value, list | tuple) else value


def _read(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def _change(section: Section, *, several: bool) -> str:
    """Return the best system against the baseline; of several suites each is folded."""
    assert section.change is not None
    shown = change_section(section.change, heading=False)
    if not several:
        return shown
    return f"<details><summary>{web.text(f'{section.name}: {section.change.verdict}')}</summary>{shown}</details>"


def _table(section: Section) -> str:
    """Return the main table of a suite for browsers without JavaScript."""
    grid = main_grid(section, section.summary)
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("system", *(column.name for column in grid.columns)))
    rows = []
    for row in grid.rows:
        cells = "".join(f"<td>{escape(value.text)}</td>" for value in row.values)
        rows.append(f'<tr><th scope="row"><code>{escape(row.name)}</code></th>{cells}</tr>')
    body = "\n".join(rows)
    caption = escape(f"{section.name}: {grid.title}")
    return f'<table class="scores"><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>'
