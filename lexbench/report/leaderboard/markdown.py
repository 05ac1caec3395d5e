"""A board as GitHub Markdown: the main tables and a picture of top-K curves. All other details are on the HTML page."""

import re
from collections.abc import Iterator
from html import escape as in_xml

from lexbench.display.table import escape
from lexbench.errors import listed, visible
from lexbench.report.grid import Grid
from lexbench.report.leaderboard import copies
from lexbench.report.leaderboard.board import COLOURS, Board, Section
from lexbench.report.leaderboard.copies import View, main_grid

_INTRODUCTION = """\
Made by `lexbench leaderboard` from `results/`. [index.html](index.html) has all measures, plots and queries.
`sh reproduce.sh` repeats the measurements.

Best in bold, second underlined. *rank*: the ranks by the first measure that paired randomisation tests leave possible, all
together with 95 % confidence (Holm over all pairs; with several datasets their mean is tested, stratified; the tests assume
that a difference could as well have had the other sign). *QPS*: queries per second, one at a time, encoding included; ~: not
ranked, see the page; ≠: the timed search returned other documents.
*zero-shot*: ‡ trained on documents of the datasets, ‡‡ on queries of them, ? unknown. †: published, not tested.
"""
CURVES = "top-k.svg"
_SEEDS = "± is the standard deviation over seeds. Tests are over queries, with these very models."
_MACHINES = 2  # lines


def markdown(board: Board) -> str:
    """Return the page; equal boards give equal text."""
    curves = [f"![{CURVES}]({CURVES})\n"] if any(section.top_k for section in board.suites) else []
    return "\n".join(["# Leaderboard\n", _INTRODUCTION, *map(_section, board.suites), *curves, _footer(board)])


def _section(section: Section) -> str:
    grid = main_grid(section, section.summary)
    first = section.description.partition(". ")[0].rstrip(".")  # sentence
    lines = [f"## {escape(section.name)}\n", escape(f"{first}. {grid.title}:" if first else f"{grid.title}:") + "\n"]
    lines.append(_table(grid))
    if section.top_k is not None:
        lines += [
            f"{escape('; '.join([section.top_k.title, *section.top_k.notes]))}:\n",
            _table(section.top_k),
        ]
    if section.published is not None:
        lines += ["Published by others:\n", _table(section.published)]
    seeds = [_SEEDS] if any(system.seeds for system in section.systems) else []
    lines += [*(f"- {escape(note)}" for note in (*section.notes, *seeds)), ""]
    if section.ran:
        lines += ["Who ran what where:\n", *(f"- {escape(line)}" for line in section.ran), ""]
    return "\n".join(lines)


def _table(grid: Grid) -> str:
    """Return a table without the spaces around its cells, a fifth of the page."""
    return re.sub(r" ?(?<!\\)\| ?", "|", copies.markdown(View(grid, "")))


def _footer(board: Board) -> str:
    """Return the expressions of the names in all tables, the contracts, and the software and machines of the measurements."""
    names: dict[str, None] = {}
    for section in board.suites:
        rows = main_grid(section, section.summary).rows
        shown = [name for row in rows for name in (row.name, *row.name.split(" = "))]  # a row of equal systems has all names
        starts = tuple(f"{name}{sign}" for name in shown for sign in (" = ", ": "))
        names |= dict.fromkeys(line for line in section.names if line.startswith(starts))
    lines = [f"Names: {'; '.join(map(_code, names))}.\n"] if names else []
    stamps = ", ".join(_code(panel.stamp) for section in board.suites for panel in section.datasets)
    every = sorted(line for section in board.suites for line in section.made)
    made = list(dict.fromkeys(f"{line.partition(',')[0].partition(';')[0]} ({line.partition('; ')[2]})" for line in every))
    return "\n".join([*lines, f"Contracts: {stamps}. Made with {escape(listed(made, _MACHINES))}.\n"])


def _code(text: str) -> str:
    """Return *text* as code, in which nothing is markup."""
    return "`" + visible(text).replace("`", "'") + "`"


# ---- the picture of top-K curves -------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _LEFT, _TOP, _PLOT = 300, 205, 44, 40, (190, 140)  # of a panel, and of its axes, in pixels
_LABEL = 12  # pixels between the names of two lines


def svg(board: Board) -> str:
    """Return the picture; equal boards give equal text. It is "" if no suite has a table of top-K variants."""
    panels = [(section.name, section.top_k) for section in board.suites if section.top_k]
    if not panels:
        return ""
    drawn = "\n".join(
        f'<g transform="translate({at * _WIDTH})">\n' + "\n".join(_panel(*panel)) + "\n</g>" for at, panel in enumerate(panels)
    )
    size = f'width="{_WIDTH * len(panels)}" height="{_HEIGHT}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="10">\n'
        f'<rect {size} fill="white"/>\n{drawn}\n</svg>\n'
    )


def _panel(name: str, grid: Grid) -> Iterator[str]:
    """Yield the axes and lines of one suite. Columns are equally spaced, because K doubles from one to the next."""
    width, height = _PLOT
    measured = [cell.value for row in grid.rows for cell in row.values if cell.value is not None]
    highest = max(measured, default=0) or 1
    step = width / max(len(grid.columns) - 1, 1)
    yield f'<text x="{_LEFT}" y="16" font-weight="bold">{in_xml(name)}</text>'
    yield f'<text x="{_LEFT}" y="30">{in_xml(grid.title.partition(" ")[0])} by terms per document</text>'
    for share in (0, 0.5, 1):
        y = _TOP + height * (1 - share)
        yield f'<path d="M{_LEFT} {y:g}h{width}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 5}" y="{y + 3:g}" text-anchor="end">{share * highest:.3f}</text>'
    for at, column in enumerate(grid.columns):
        yield f'<text x="{_LEFT + at * step:.1f}" y="{_TOP + height + 15}" text-anchor="middle">{in_xml(column.name)}</text>'
    last = float(_TOP - _LABEL)
    lines = []
    for number, row in enumerate(grid.rows):
        points = [
            (_LEFT + at * step, _TOP + height * (1 - cell.value / highest))
            for at, cell in enumerate(row.values)
            if cell.value is not None
        ]
        lines.append((points, row.name, COLOURS[number % len(COLOURS)]))
    for points, model, colour in sorted((line for line in lines if line[0]), key=lambda line: line[0][-1][1]):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in points)
        last = max(points[-1][1] + 3, last + _LABEL)  # names of close lines move down
        yield f'<text x="{points[-1][0] + 7:.1f}" y="{last:.1f}" fill="{colour}">{in_xml(model)}</text>'
