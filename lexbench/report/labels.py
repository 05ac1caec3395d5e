"""Place labels beside points so that they hide no point, line or other label.

A thin line leads from a distant label to its point.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Boxes: TypeAlias = NDArray[np.float64]  # (n, 4) left, bottom, right and top, in pixels

_DIRECTIONS = np.array([(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)])  # right and up
_STEPS = (1, 2, 3, 4.5, 6.5, 9, 12)  # distances to try, in units of
_NEAR = 6  # 1/72 inch from the middle of a mark
_FAR = 2  # steps; beyond them a label has a line to its point
_FONT = 7.5  # points
_MARK = 4  # 1/72 inch around a point that no label may cover
_LEADER = {"arrowstyle": "-", "linewidth": 0.5, "alpha": 0.6}


def place_labels(
    figure: "Figure",
    axes: "Axes",
    points: Sequence[tuple[float, float, str, str]],
    lines: Sequence[Sequence[tuple[float, float]]] = (),
) -> None:
    """Write the label of each point (x, y, label, colour) into *axes* without hiding *lines*. Limits and scales must be final.

    Points are processed from the highest down, so equal points give equal pictures. If no position is free, the one that hides
    least is used.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)  # its methods are not typed
    canvas.draw()  # compute the layout, so that positions are known
    figure.set_layout_engine("none")  # labels must not move the axes from here on
    renderer = canvas.get_renderer()
    pixel = figure.dpi / 72  # pixels per 1/72 inch
    marks = _around(axes.transData.transform([(x, y) for x, y, _, _ in points]), _MARK * pixel)
    on_lines = [_around(spot, 1) for line in lines for spot in _along(axes.transData.transform(line), _MARK * pixel)]
    taken = np.vstack([marks, *on_lines])
    inside = np.array(axes.get_window_extent(renderer).extents)
    steps = np.vstack([_DIRECTIONS * step for step in _STEPS])
    for x, y, name, colour in sorted(points, key=lambda point: (-point[1], point[0], point[2])):
        text = axes.text(0, 0, name, fontsize=_FONT)
        size = np.array(text.get_window_extent(renderer).size)
        text.remove()
        # On the right side a text begins at its spot, on the left it ends there.
        low = axes.transData.transform((x, y)) + steps * _NEAR * pixel + (np.sign(steps) - 1) / 2 * size
        boxes = np.hstack([low, low + size])
        outside = size.prod() - _shared(boxes, inside[np.newaxis])[:, 0]
        best = int(np.argmin(_shared(boxes, taken).sum(axis=1) + 10 * outside))  # of equal positions the first, the nearest
        across, up = (int(side) for side in np.sign(steps[best]))
        sides = {"ha": ("center", "left", "right")[across], "va": ("center", "bottom", "top")[up]}
        leader = _LEADER | {"color": colour} if np.abs(steps[best]).max() > _FAR else None
        look: Any = {"textcoords": "offset points", "color": colour, "fontsize": _FONT, "arrowprops": leader, **sides}
        axes.annotate(name, (x, y), tuple(steps[best] * _NEAR), **look)
        taken = np.vstack([taken, boxes[best]])


def _around(spots: NDArray[np.float64], reach: float) -> Boxes:
    """Return boxes that reach *reach* pixels around *spots* (n, 2), or around one spot."""
    spots = np.atleast_2d(spots)
    return np.hstack([spots - reach, spots + reach])


def _along(corners: NDArray[np.float64], step: float) -> Iterator[NDArray[np.float64]]:
    """Yield positions on a line with these *corners* (n, 2), at most *step* pixels apart."""
    for start, stop in pairwise(corners):
        yield np.linspace(start, stop, int(np.ceil(np.hypot(*(stop - start)) / step)) + 1)


def _shared(boxes: Boxes, others: Boxes) -> NDArray[np.float64]:
    """Return the area (n, m) that each of *boxes* shares with each of *others*."""
    sides = np.minimum(boxes[:, np.newaxis, 2:], others[:, 2:]) - np.maximum(boxes[:, np.newaxis, :2], others[:, :2])
    return np.asarray(np.clip(sides, 0, None).prod(axis=2))
