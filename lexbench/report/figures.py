"""Figures of results: effectiveness over speed (like Figure 1 of the LexMAE paper), and over index bytes.

They are written as SVG for pages, PDF for papers and PNG to look at; equal results give equal bytes. Needs the extra `figures`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from lexbench.errors import CannotStart, listed, require, shortened
from lexbench.report.leaderboard.board import COLOURS, Plot, PlotPoint, systems_of
from lexbench.report.leaderboard.panels import frontier, plots_of
from lexbench.report.timings import single_stream
from lexbench.results import Result, Results, by_dataset
from lexbench.storage import atomic
from lexbench.storage.artifact_folder import digest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lexbench.analysis.watch import Point

_STYLE: Any = {
    "svg.hashsalt": "lexbench",  # otherwise ids are random
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "text.parse_math": False,  # a $ in the name of a system is a $
    "font.family": "DejaVu Sans",  # is part of matplotlib
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
}
_TIMELESS: Mapping[str, dict[str, Any]] = {"svg": {}, "pdf": {"CreationDate": None}, "png": {"Software": None}}
_SIZE = (7.2, 4.6)  # inches
_DPI = 150
_LABEL, _TITLE = 36, 70  # characters that fit beside a point and above a figure
_DECADES = 3000  # an axis that spans a larger factor has ticks at powers of ten only
_NAMED = 5  # results in one line of text

Boxes: TypeAlias = NDArray[np.float64]  # (n, 4) left, bottom, right and top, in pixels

_DIRECTIONS = np.array([(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)])  # right and up
_STEPS = (1, 2, 3, 4.5, 6.5, 9, 12)  # distances to try, in units of
_NEAR = 6  # 1/72 inch from the middle of a mark
_FAR = 2  # steps; beyond them a label has a line to its point
_FONT = 7.5  # points
_MARK = 4  # 1/72 inch around a point that no label may cover
_LEADER = {"arrowstyle": "-", "linewidth": 0.5, "alpha": 0.6}


class Drawing(NamedTuple):
    """What a figure shows."""

    plot: Plot
    names: Sequence[str]  # by system
    lines: Sequence[int]  # by system; points with the same line are joined
    title: str
    file: str  # its name without an ending

    @property
    def stamp(self) -> str:
        """The digest of its data, which its SVG has. The rest of an SVG depends on the version of matplotlib."""
        return f"data: {digest(msgspec.to_builtins((self.plot, self.names, self.lines, self.title)))}"


def write(results: Sequence[Result], folder: Path) -> Iterator[Path]:
    """Write each figure that *results* have data for into *folder*, as SVG, PDF and PNG. Yields every path."""
    for drawing in _drawings(results):
        yield from _saved(_against(drawing), folder / drawing.file, drawing.stamp)


def _drawings(results: Sequence[Result]) -> Iterator[Drawing]:
    """Yield each figure that *results* have data for."""
    for dataset, group in by_dataset(results).items():
        measure, name = headline(group), dataset.replace("/", "-")
        systems = systems_of(Results(group))
        kept = [one.k if one.base is not None else 0 for one in systems]
        names = [f"top {k}" if k else drawable(one.label) for k, one in zip(kept, systems, strict=True)]
        lines = [at if one.base is None or not k else one.base for at, (k, one) in enumerate(zip(kept, systems, strict=True))]
        for plot in plots_of(systems, group, measure, {}, ()):
            if any(not point.aside for point in plot.points):
                yield Drawing(plot, names, lines, f"{dataset}: {plot.title}", f"{plot.name}.{name}")


def write_curve(points: Sequence[tuple[float, float, str]], title: str, labels: tuple[str, str], path: Path) -> Iterator[Path]:
    """Write a curve through *points* (cost, value, name) as *path* with .svg, .pdf and .png. *labels* name the axes."""
    best = frontier([(x, y) for x, y, _ in points], lower_is_better=True)
    drawn = tuple(PlotPoint(system=at, x=x, y=y, frontier=at in best) for at, (x, y, _) in enumerate(points))
    plot = Plot(title=title, x=labels[0], y=labels[1], lower_is_better=True, points=drawn, name="curve")
    drawing = Drawing(plot, [name for _, _, name in points], [0] * len(points), title, path.name)
    yield from _saved(_against(drawing), path, drawing.stamp)


def drawn_points(points: "Iterable[Point]", path: Path) -> "Iterator[Point]":
    """Yield the *points* of `lexbench watch`; after each, draw their curves as *path* with .svg, .pdf and .png."""
    require("--plot", ["matplotlib"], "figures")
    curves: dict[str, list[Point]] = {}
    for point in points:
        if point.result:
            curves.setdefault(point.dataset, []).append(point)
            list(_saved(_training(curves), path))
        yield point


def _training(curves: "Mapping[str, Sequence[Point]]") -> "Figure":
    """Draw the first mean of the points of each dataset over their steps, with the 95 % intervals, which the axis includes."""
    with _styled():
        from matplotlib.figure import Figure

        figure = Figure(_SIZE, dpi=_DPI, layout="constrained")
        axes = figure.add_subplot()
        for number, (dataset, points) in enumerate(curves.items()):
            results = [point.result for point in points if point.result]
            measure = next(iter(results[0].means))
            steps = [points[at - 1].step or at if point.step is None else point.step for at, point in enumerate(points)]
            means = [result.means[measure] for result in results]
            reach = [[abs(end - mean) for end in point.intervals[measure]] for mean, point in zip(means, points, strict=True)]
            colour, label = COLOURS[number % len(COLOURS)], drawable(f"{measure} on {dataset}")
            axes.errorbar(steps, means, np.transpose(reach), fmt="o-", capsize=3, color=colour, label=label)
        axes.set(xlabel="step", ylabel="mean, with its 95 % interval")
        figure.legend(loc="outside lower right", frameon=False, fontsize=8)
    return figure


class Picture:
    """A figure, which a notebook shows."""

    def __init__(self, svg: str) -> None:
        """Take the figure as SVG."""
        self.svg = svg

    def _repr_svg_(self) -> str:
        """Show the figure in a notebook."""
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write the figure as SVG. For PDF and PNG see `lexbench export figures`."""
        atomic.write_text(Path(path), self.svg)


def picture(results: Results, cost: str, dataset: str | None, known: Path | None = None) -> Picture:
    """Return the figure of effectiveness over a *cost*, "index" or "speed", on *dataset*, by default the first.

    The file *known* is returned as it is if it was drawn from the same data, also by another matplotlib, and not edited since.
    Raises CannotStart if no result has that cost.
    """
    name = dataset or next(iter(results.datasets), "")
    for drawing in _drawings(list(results.select(datasets=[name]))):
        if drawing.plot.name.startswith(cost):
            text = known.read_text(encoding="utf-8") if known else ""
            if drawing.stamp in text and text == _sealed(text, drawing.stamp):
                return Picture(text)
            with TemporaryDirectory() as folder:
                svg = next(_saved(_against(drawing), Path(folder) / "x", drawing.stamp)).read_text("utf-8")
            return Picture(_sealed(svg, drawing.stamp))
    raise CannotStart(next((line for line in missing(results) if cost in line), f"no two results on {name} have a {cost}"))


def _sealed(svg: str, stamp: str) -> str:
    """Return a drawing with a digest of everything else in it behind the *stamp* of its data."""
    bare = re.sub(f"{stamp}, drawing: [0-9a-f]+", stamp, svg, count=1)
    return bare.replace(stamp, f"{stamp}, drawing: {digest(bare)}", 1)


def missing(results: Iterable[Result]) -> list[str]:
    """Return one line for each kind of figure for which *results* lack data."""
    results = list(results)
    timed = [any(not timing.unranked for timing in single_stream(result)) for result in results]
    untimed = [f"{one.system} on {one.dataset}" for one, known in zip(results, timed, strict=True) if not known]
    lines = []
    if len(untimed) == len(results):
        lines.append("no figure of speed: no result has timings; to measure them, type: lexbench run suite NAME --time")
    elif untimed:
        lines.append(f"not in the figures of speed, because they have no timings: {listed(untimed, _NAMED)}")
    if not any("index" in result.sizes for result in results):
        lines.append("no figure of index bytes: no result has an index")
    return lines


def _against(drawing: Drawing) -> "Figure":
    """Draw the ranked points of a plot."""
    plot, names, lines, title, _ = drawing
    points = sorted((point for point in plot.points if not point.aside), key=lambda point: (point.x, point.y, point.system))
    joined = {line: [point for point in points if lines[point.system] == line] for line in sorted(set(lines))}
    joined = {line: members for line, members in joined.items() if members}
    with _styled():
        from matplotlib.figure import Figure

        figure = Figure(_SIZE, dpi=_DPI, layout="constrained")
        axes = figure.add_subplot()
        axes.set(xscale="log", xlabel=plot.x, ylabel=plot.y, title=drawable(title, _TITLE))
        axes.margins(x=0.22, y=0.16)
        steps = _steps(sorted((p.x, p.y) for p in points if p.frontier), smaller=plot.lower_is_better)
        axes.plot(*zip(*steps, strict=True), "--", color="#888888", linewidth=1, label="frontier: no system is better in both")
        colours = {line: COLOURS[number % len(COLOURS)] for number, line in enumerate(joined)}
        for line, members in joined.items():
            xs, ys = [point.x for point in members], [point.y for point in members]
            axes.plot(xs, ys, "-" if len(members) > 1 else "", marker="o", markersize=5, linewidth=1.2, color=colours[line])
        _plain_ticks(axes)
        figure.legend(loc="outside lower right", frameon=False, fontsize=8)
        drawn = [steps, *([(point.x, point.y) for point in members] for members in joined.values())]
        labels = [(one.x, one.y, names[one.system], colours[lines[one.system]]) for one in points]
        place_labels(figure, axes, labels, drawn)
    return figure


def _steps(ahead: Sequence[tuple[float, float]], *, smaller: bool) -> list[tuple[float, float]]:
    """Return the corners of the frontier. There is no system between two of its points, so it is a staircase."""
    corners = [ahead[0]]
    for (x, y), following in pairwise(ahead):
        corners += [(following[0], y) if smaller else (x, following[1]), following]
    return corners


def _plain_ticks(axes: "Axes") -> None:
    """Label the logarithmic axis with numbers like 200 and 5,000 instead of powers, also between decades if there is room."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = axes.get_xlim()
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < _DECADES else (1,), numticks=12))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def _saved(figure: "Figure", path: Path, stamp: str = "") -> Iterator[Path]:
    """Write a figure in every format, without time and version of the program; yield the SVG, with its *stamp*, first."""
    with _styled():
        for form, metadata in {**_TIMELESS, "svg": {"Date": None, "Description": stamp or None}}.items():
            target = path.with_name(f"{path.name}.{form}")
            with atomic.atomic_path(target) as draft:
                figure.savefig(draft, format=form, metadata=metadata)
            yield target


@contextmanager
def _styled() -> Iterator[None]:
    """Use our style instead of the user's matplotlibrc. Characters that the font lacks become boxes, without warnings."""
    require("figures", ["matplotlib"], "figures")
    import warnings

    import matplotlib as mpl

    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Glyph .* missing from font.*")
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def headline(results: Sequence[Result]) -> str:
    """Return the measure that most of *results* have; of several, the first in the first result."""
    return Counter(measure for result in results for measure in result.means).most_common(1)[0][0]  # of equals the first


def drawable(name: str, most: int = _LABEL) -> str:
    """Return *name* for a figure: shortened, with spaces in place of unprintable characters."""
    return shortened("".join(sign if sign.isprintable() else " " for sign in name), most)


def place_labels(
    figure: "Figure",
    axes: "Axes",
    points: Sequence[tuple[float, float, str, str]],
    lines: Sequence[Sequence[tuple[float, float]]] = (),
) -> None:
    """Write the label of each point (x, y, label, colour) into *axes* without hiding *lines*. Limits and scales must be final.

    Points are processed from the highest down, so equal points give equal pictures. If no position is free, a label is put
    where it hides least.
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
