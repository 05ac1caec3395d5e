"""One table of a leaderboard to paste elsewhere, as LaTeX, Markdown or CSV. `page/copies.js` does the same in the browser."""

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from lexbench.errors import UnknownName, visible
from lexbench.report.leaderboard.board import Board, Cell, Section
from lexbench.table import Table, escape, number
from lexbench.table import markdown as as_markdown

_LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "|": r"\textbar{}", "<": r"\textless{}", ">": r"\textgreater{}",
})  # fmt: skip
_PACKAGES = r"% needs \usepackage{booktabs,graphicx}, and XeLaTeX or LuaLaTeX for names in other scripts"
_NO_WIDER = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
_MARKED = "Best in bold, second underlined."
_TESTED = (
    "Systems that share a letter have no significant difference (paired randomisation test, Holm-corrected over all pairs of "
    "the dataset, p < .05)."
)


class Score(NamedTuple):
    """A cell: its text, its rank in the column (1 or 2), the letters of its tie groups, and its deviation."""

    text: str
    mark: int = 0
    letters: str = ""
    deviation: str = ""  # over seeds


class Row(NamedTuple):
    """A system."""

    name: str
    notation: str  # the expression that the name stands for; "" if the name is one
    scores: tuple[Score, ...]


class View(NamedTuple):
    """A table to copy."""

    caption: str
    header: tuple[str, ...]  # of the columns of scores
    rows: tuple[Row, ...]


def view(board: Board, suite: str = "", dataset: str = "") -> View:
    """Return the table of *suite* ("" if there is only one): its headline on all datasets, or all measures on one *dataset*.

    Raises UnknownName for a suite or dataset that the board does not have.
    """
    by_id = {section.id: section for section in board.suites}
    section = by_id.get(suite) if suite else board.suites[0] if len(by_id) == 1 else None
    if section is None:
        raise UnknownName("suite of these results", suite, by_id)
    panels = {panel.id: panel for panel in section.datasets}
    if dataset and dataset not in panels:
        raise UnknownName(f"dataset of {section.id} in these results", dataset, panels)
    several = len(panels) > 1 or section.aggregates
    return _across(section) if several and not dataset else _of_dataset(section, dataset or next(iter(panels)))


def _across(section: Section) -> View:
    rows = []
    for at, system in enumerate(section.systems):
        scores = [_score(panel.cells[at], section.headline, section.headline) for panel in section.datasets]
        scores += [Score(mean.text, mean.mark) for mean in system.means]
        rows.append(Row(_name(section, at), system.notation, tuple(scores)))
    header = (*(panel.id for panel in section.datasets), *section.aggregates)
    return _view(f"{section.name}: {section.headline} on each dataset.", header, rows)


def _of_dataset(section: Section, dataset: str) -> View:
    panel = next(panel for panel in section.datasets if panel.id == dataset)
    rows = [
        Row(
            _name(section, at),
            section.systems[at].notation,
            tuple(_score(cell, measure, panel.headline) for measure in panel.measures),
        )
        for at, cell in enumerate(panel.cells)
        if cell is not None
    ]
    return _view(f"{section.name}: {panel.id}.", panel.measures, rows)


def _view(caption: str, header: Sequence[str], rows: Sequence[Row]) -> View:
    tested = any(score.letters for row in rows for score in row.scores)
    return View(" ".join([caption, _MARKED, *([_TESTED] if tested else [])]), tuple(header), tuple(rows))


def _name(section: Section, at: int) -> str:
    system = section.systems[at]
    return f"{system.label} ({system.source})" if system.source else system.label


def _score(cell: Cell | None, measure: str, headline: str) -> Score:
    value = cell.means.get(measure) if cell else None
    if cell is None or value is None:
        return Score(number(None))
    letters = cell.letters if measure == headline else ""
    deviation = number(cell.deviations[measure]) if measure in cell.deviations else ""
    return Score(number(value), cell.marks.get(measure, 0), letters, deviation)


def latex(table: View) -> str:
    """Return a booktabs table: the best bold, the second underlined, tie groups as superscripts.

    A table wider than the line is scaled down. Columns with superscripts or deviations are left-aligned, so that digits line
    up.
    """
    marks = {0: "{}", 1: r"\textbf{{{}}}", 2: r"\underline{{{}}}"}

    def write(score: Score) -> str:
        letters = f"\\textsuperscript{{{score.letters}}}" if score.letters else ""
        deviation = rf" $\pm$ {score.deviation}" if score.deviation else ""
        return marks[score.mark].format(_tex(score.text)) + deviation + letters

    columns = [[row.scores[at] for row in table.rows] for at in range(len(table.header))]
    sides = "".join("l" if any(one.letters or one.deviation for one in column) else "r" for column in columns)
    lines = [
        _PACKAGES, r"\begin{table}", r"\centering", rf"\caption{{{_tex(table.caption)}}}", _NO_WIDER,
        rf"\begin{{tabular}}{{l{sides}}}", r"\toprule",
        rf"{' & '.join(_tex(name) for name in ('system', *table.header))} \\", r"\midrule",
        *(rf"{' & '.join((_tex(row.name), *map(write, row.scores)))} \\" for row in table.rows),
        r"\bottomrule", r"\end{tabular}}", r"\end{table}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _tex(text: str) -> str:
    return re.sub("-(?=-)", "-{}", visible(text).translate(_LATEX)).replace("—", "---")  # LaTeX would join -- to a longer dash


def markdown(table: View) -> str:
    """Return a table in GitHub's Markdown, with the same marks."""
    marks = {0: "{}", 1: "**{}**", 2: "<ins>{}</ins>"}

    def write(score: Score) -> str:
        letters = f" <sup>{escape(score.letters)}</sup>" if score.letters else ""
        deviation = f" ±{score.deviation}" if score.deviation else ""
        return marks[score.mark].format(score.text) + deviation + letters

    rows = tuple((escape(row.name), *map(write, row.scores)) for row in table.rows)
    return as_markdown(Table("", ("system", *table.header), rows), escaped=True)


def comma_separated(table: View) -> str:
    """Return comma-separated values: the system, its expression, and bare means; missing means are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["system", "notation", *table.header])
    writer.writerows(_plain(row) for row in table.rows)
    return text.getvalue()


def _plain(row: Row) -> Iterator[str]:
    yield from (_inert(row.name), _inert(row.notation))
    yield from ("" if score.text == number(None) else score.text for score in row.scores)


def _inert(text: str) -> str:
    """Return *text* so that no spreadsheet reads it as a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text


FORMATS: Mapping[str, Callable[[View], str]] = {"latex": latex, "markdown": markdown, "csv": comma_separated}
