"""One table of a leaderboard to paste elsewhere, as LaTeX, Markdown or CSV. `page/copies.js` does the same in the browser."""

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from lexbench.analysis.significance import randomisation
from lexbench.display.table import escape
from lexbench.errors import UnknownName, visible
from lexbench.report.grid import MISSING, Column, Grid, Row, Value
from lexbench.report.leaderboard.board import Board, Section
from lexbench.results import Results

_LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"$\sim$", "^": r"\textasciicircum{}", "|": r"\textbar{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "—": "--", "±": r"$\pm$", "≠": r"$\neq$", "‡": r"$\ddagger$",
})  # fmt: skip
_PACKAGES = r"% needs \usepackage{booktabs,graphicx}, and XeLaTeX or LuaLaTeX for names in other scripts"
_COLUMN = 6  # figures fit into one of two columns of text; wider tables span both
_NO_WIDER = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"


class View(NamedTuple):
    """A table to copy."""

    grid: Grid
    label: str
    expressions: Mapping[str, str] = {}  # what names stand for
    headline: str = ""  # the measure of the ranks
    baseline: str = ""
    starred: frozenset[tuple[int, int]] = frozenset()  # systems and columns that differ significantly from the baseline
    untested: tuple[str, ...] = ()  # the names of columns without stars, whatever differs


def view(board: Board, suite: str = "", dataset: str = "", baseline: str = "", results: Results | None = None) -> View:
    """Return the table of *suite* ("" if there is only one): the main table, or all measures on one *dataset*.

    Published scores are in it as the board has them. A *baseline* takes the *results* of the board: each measure is tested.
    Raises UnknownName for a suite, dataset or baseline that is not there.
    """
    by_id = {section.id: section for section in board.suites}
    section = by_id.get(suite) if suite else board.suites[0] if len(by_id) == 1 else None
    if section is None:
        raise UnknownName("suite of these results", suite, by_id)
    panels = {panel.id: panel for panel in section.datasets}
    if dataset and dataset not in panels:
        raise UnknownName(f"dataset of {section.id} in these results", dataset, panels)
    own = main_grid(section, panels[dataset].details if dataset else section.summary)
    grid = own if dataset or section.published is None else _with_published(own, section.published)
    places = {name: row.system for row in own.rows for name in (row.name, *row.name.split(" = "))}
    if baseline and baseline not in places:
        raise UnknownName("system of this table", baseline, [row.name for row in own.rows])
    expressions = {one.label: one.expression for one in section.systems if one.expression}
    title = f"{grid.title}." if section.name in grid.title else f"{section.name}: {grid.title}."
    shown = View(msgspec.structs.replace(grid, title=title), f"tab:{section.id}", expressions, section.headline, baseline)
    return _with_stars(shown, section, results.select(suite=section.id), places[baseline]) if baseline and results else shown


def _with_stars(table: View, section: Section, results: Results, baseline: int) -> View:
    """Return the table with the significant differences from the system at position *baseline*, in each column of a measure.

    In a column of means over datasets, the means are tested.
    """
    starred: set[tuple[int, int]] = set()
    untested = []
    for at, column in enumerate(table.grid.columns):
        mean = not column.measures and column.ranked
        better = section.better if mean else _significant_pairs(section, results, column)
        if better is not None:
            starred |= {(other, at) for pair in better if baseline in pair for other in pair if other != baseline}
        elif column.measures:
            untested.append(column.name)
    return table._replace(starred=frozenset(starred), untested=tuple(untested))


def _significant_pairs(section: Section, results: Results, column: Column) -> list[tuple[int, int]] | None:
    """Return the positions of every two systems that differ in the measure of a column; None if it is not tested.

    p is corrected by Holm over all pairs. Variants, upper bounds and systems without the measure are left out.
    """
    if not column.ranked or not column.measures:
        return None
    columns = [(results.column(dataset), measure) for dataset, measure in column.measures]
    tested = [
        at
        for at, system in enumerate(section.systems)
        if system.base is None and not system.aside
        and all(system.label in by_label and measure in by_label[system.label].per_query for by_label, measure in columns)
    ]  # fmt: skip
    names = [section.systems[at].label for at in tested]
    values = [np.array([by_label[name].per_query[measure] for name in names], np.float64) for by_label, measure in columns]
    if len(tested) < 2:  # noqa: PLR2004 - a pair
        return []
    better = randomisation.ranking(randomisation.stratified(values)).better
    return [(tested[one], tested[other]) for one, other in np.argwhere(better).tolist()]


def main_grid(section: Section, grid: Grid) -> Grid:
    """Return *grid* without variants: systems that share the row of another one, which then has both names."""
    same: dict[int, list[str]] = {}
    for system in section.systems:
        if system.base is not None and not system.k:
            same.setdefault(system.base, []).append(system.label)
    rows = [row for row in grid.rows if section.systems[row.system].base is None]
    return grid.only(msgspec.structs.replace(row, name=" = ".join([row.name, *same.get(row.system, ())])) for row in rows)


def _with_published(grid: Grid, published: Grid) -> Grid:
    """Return *grid* with the rows of *published* added at the end. Columns are matched by their names."""
    places = {column.name: at for at, column in enumerate(published.columns)}
    rows = [
        msgspec.structs.replace(
            row, values=tuple(row.values[places[one.name]] if one.name in places else Value() for one in grid.columns)
        )
        for row in published.rows
    ]
    return msgspec.structs.replace(grid, rows=(*grid.rows, *rows))


def latex(table: View) -> str:
    """Return a booktabs table: best bold, second underlined, published rows with a dagger below a rule.

    A star marks systems that differ significantly from the baseline. A table wider than the line is scaled down.
    """
    grid, marks = table.grid, table.grid.marks()

    def write(row: Row, column: int, mark: int) -> str:
        text = ("{}", r"\textbf{{{}}}", r"\underline{{{}}}")[mark].format(_tex(row.values[column].text))
        return text + r"\rlap{$^{*}$}" * (not row.published and (row.system, column) in table.starred)

    def line(row: Row, mark: Sequence[int]) -> str:
        name = _tex(row.name) + r"$^{\dagger}$" * row.published
        return " & ".join([name, *(write(row, column, one) for column, one in enumerate(mark))]) + r" \\"

    place = "table*" if len(grid.columns) > _COLUMN else "table"
    own = [line(row, mark) for row, mark in zip(grid.rows, marks, strict=True) if not row.published]
    others = [line(row, mark) for row, mark in zip(grid.rows, marks, strict=True) if row.published]
    lines = [
        _PACKAGES, rf"\begin{{{place}}}", r"\centering", rf"\caption{{{_tex(caption(table))}}}", rf"\label{{{table.label}}}",
        _NO_WIDER,
        rf"\begin{{tabular}}{{l{'r' * len(grid.columns)}}}", r"\toprule",
        rf"{' & '.join(_tex(name) for name in ('system', *(one.name for one in grid.columns)))} \\", r"\midrule",
        *own, *([r"\midrule", *others] if others else []),
        r"\bottomrule", r"\end{tabular}}", rf"\end{{{place}}}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def caption(table: View) -> str:
    """Return the title of a table and the meaning of its marks."""
    parts = [table.grid.title]
    if any(mark for row in table.grid.marks() for mark in row):
        parts.append("Best in bold, second underlined, among the systems measured here.")
    if any(one.name == "rank" for one in table.grid.columns):
        by = f" by {table.headline}" if table.headline else ""
        parts.append(f"Rank{by}: what paired randomisation tests at .05 leave possible, Holm-corrected over all pairs.")
    if table.baseline:
        parts.append(_meaning_of_stars(table))
    if any(row.published for row in table.grid.rows):
        parts.append("†: published scores, not measured here.")
    shown = {cell.text for row in table.grid.rows for cell in row.values}
    if any("~" in text for text in shown):
        parts.append("~: timing not ranked.")
    parts += [
        f"{mark}: trained on {what} of the datasets." for mark, what in (("‡", "documents"), ("‡‡", "queries")) if mark in shown
    ]
    return " ".join(parts)


def _meaning_of_stars(table: View) -> str:
    stars = f"*: significantly different from {table.baseline} in this measure" if table.starred else (
        f"No figure is significantly different from that of {table.baseline}"
    )  # fmt: skip
    untested = f"; {' and '.join(table.untested)}: not tested" if table.untested else ""
    return f"{stars} (paired randomisation tests at .05, Holm-corrected over all pairs, each measure by itself{untested})."


def _tex(text: str) -> str:
    plain = re.sub("-(?=-)", "-{}", visible(text)).translate(_LATEX).replace("-\\{\\}", "-{}")  # LaTeX would join -- to a dash
    return plain.replace("†", r"$\dagger$")


def markdown(table: View) -> str:
    """Return a table in GitHub's Markdown with the same marks and stars. The rank is the first column."""
    grid = table.grid
    ranked = bool(grid.columns) and grid.columns[0].name == "rank"
    heads = [escape(" ".join(f"{one.name} {one.about}".split())) for one in grid.columns]
    lines = [
        _line([*heads[:ranked], "system", *heads[ranked:]]),
        f"|{'|'.join([' --: '] * ranked + [' :-- '] + [' --: '] * (len(heads) - ranked))}|",
    ]
    for row, marks in zip(grid.rows, grid.marks(), strict=True):
        cells = [
            ("{}", "**{}**", "<ins>{}</ins>")[mark].format(escape(one.text))
            + r" \*" * (not row.published and (row.system, at) in table.starred)
            for at, (one, mark) in enumerate(zip(row.values, marks, strict=True))
        ]
        lines.append(_line([*cells[:ranked], "† " * row.published + escape(row.name), *cells[ranked:]]))
    if table.baseline:
        lines += ["", escape(_meaning_of_stars(table))]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def comma_separated(table: View) -> str:
    """Return comma-separated values: the system, its expression, and bare figures; missing ones are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["system", "expression", *(one.name for one in table.grid.columns)])
    for row in table.grid.rows:
        figures = ("" if one.text == MISSING else one.text.partition(" ")[0].replace(",", "") for one in row.values)
        writer.writerow([_inert(row.name), _inert(table.expressions.get(row.name, "")), *figures])
    return text.getvalue()


def _inert(text: str) -> str:
    """Return *text* so that no spreadsheet reads it as a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


FORMATS: Mapping[str, Callable[[View], str]] = {"latex": latex, "markdown": markdown, "csv": comma_separated}
