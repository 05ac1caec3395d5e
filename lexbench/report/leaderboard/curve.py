"""The top-K curves of a board as SVG: one panel per suite, one line per model."""

from collections.abc import Iterator
from html import escape

from lexbench.report.grid import Grid
from lexbench.report.leaderboard.board import Board

_WIDTH, _HEIGHT, _LEFT, _TOP, _PLOT = 300, 205, 44, 40, (190, 140)  # of a panel, and of its axes, in pixels
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito's
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
    yield f'<text x="{_LEFT}" y="16" font-weight="bold">{escape(name)}</text>'
    yield f'<text x="{_LEFT}" y="30">{escape(grid.title.partition(" ")[0])} by terms per document</text>'
    for share in (0, 0.5, 1):
        y = _TOP + height * (1 - share)
        yield f'<path d="M{_LEFT} {y:g}h{width}" stroke="#ddd"/>'
        yield f'<text x="{_LEFT - 5}" y="{y + 3:g}" text-anchor="end">{share * highest:.3f}</text>'
    for at, column in enumerate(grid.columns):
        yield f'<text x="{_LEFT + at * step:.1f}" y="{_TOP + height + 15}" text-anchor="middle">{escape(column.name)}</text>'
    last = float(_TOP - _LABEL)
    lines = []
    for number, row in enumerate(grid.rows):
        points = [
            (_LEFT + at * step, _TOP + height * (1 - cell.value / highest))
            for at, cell in enumerate(row.values)
            if cell.value is not None
        ]
        lines.append((points, row.name, _COLOURS[number % len(_COLOURS)]))
    for points, model, colour in sorted((line for line in lines if line[0]), key=lambda line: line[0][-1][1]):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in points)
        last = max(points[-1][1] + 3, last + _LABEL)  # names of close lines move down
        yield f'<text x="{points[-1][0] + 7:.1f}" y="{last:.1f}" fill="{colour}">{escape(model)}</text>'
