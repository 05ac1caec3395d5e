"""Figures of a leaderboard in other files: cells of Markdown tables, and pictures.

`elsewhere.toml` in its folder names them:

    [[table]]                                          # the first table of the file that has these columns and rows
    file = "../README.md"
    columns = {"MRR" = "pydoc/RR@10"}                  # its heading, and suite/column of the leaderboard
    rows = {"`nano`" = "nano"}                         # its first cell, or the one behind the rank, and the system

    [[picture]]                                        # as `lexbench export figures` draws it
    file = "../docs/leaderboard.svg"
    cost = "index"
    dataset = "pydoc/test"
    systems = ["bm25", "nano"]

Only files below the parent of the leaderboard's folder are written, because the folder may be another person's.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from lexbench.errors import InvalidFile, UnknownName
from lexbench.report import figures
from lexbench.report.leaderboard.board import Board
from lexbench.results import Results
from lexbench.storage.reading import Strict, read_toml

FILE = "elsewhere.toml"
_FIGURE = re.compile(r"[\d.,\u2014-]+")


class _Table(Strict, frozen=True):
    file: str
    columns: dict[str, str]
    rows: dict[str, str]


class _Picture(Strict, frozen=True):
    file: str
    cost: Literal["index", "speed"]
    dataset: str
    systems: list[str]


class _Elsewhere(Strict, frozen=True):
    table: tuple[_Table, ...] = ()
    picture: tuple[_Picture, ...] = ()


def texts_elsewhere(board: Board, results: Results, folder: Path) -> dict[Path, str]:
    """Return the texts of the other files that show figures of the board in *folder*, by path; {} if there are none.

    A picture that was drawn from the same data is left as it is. Raises InvalidFile for a file that lacks what is named, and
    UnknownName for a system or column that the board lacks.
    """
    path = folder / FILE
    if not path.is_file() or any(entry.person for entry in results.entries):
        return {}
    named, texts = read_toml(path, _Elsewhere), dict[Path, str]()
    for table in named.table:
        file = _inside(path, table.file, ".md")
        texts[file] = _filled(texts.get(file) or file.read_text(encoding="utf-8"), table, _cells(board, table), path)
    for one in named.picture:
        file = _inside(path, one.file, ".svg")
        if missing := set(one.systems) - set(results.systems):
            raise UnknownName(f"system of the leaderboard for {one.file}", min(missing), results.systems)
        chosen = results.select(systems=one.systems, datasets=[one.dataset])
        texts[file] = figures.picture(chosen, one.cost, one.dataset, file).svg
    return texts


def _inside(path: Path, name: str, ending: str) -> Path:
    """Return the file *name*, which must end in *ending* and be below the parent of the leaderboard's folder."""
    file = (path.parent / name).resolve()
    if not (file.is_file() and file.suffix == ending and file.is_relative_to(path.parent.resolve().parent)):
        raise InvalidFile(f"{path}: {name} is no {ending} file below {path.parent.resolve().parent}")
    return file


def _cells(board: Board, table: _Table) -> dict[tuple[str, str], str]:
    """Return the figures of a table by its own names of row and column."""
    found: dict[str, dict[str, str]] = {}
    for section in board.suites:
        grid = section.summary
        for at, column in enumerate(grid.columns):
            found[f"{section.id}/{column.name}"] = {row.name: row.values[at].text for row in grid.rows}
    cells = {}
    for heading, source in table.columns.items():
        if source not in found:
            raise UnknownName(f"column of the leaderboard for {table.file}", source, found)
        for name, system in table.rows.items():
            if system not in found[source]:
                raise UnknownName(f"system of the leaderboard for {table.file}", system, found[source])
            cells[name, heading] = found[source][system]
    return cells


def _filled(text: str, table: _Table, cells: Mapping[tuple[str, str], str], path: Path) -> str:
    """Return *text* with the figures of a table. Each keeps the form that it has: marks, and .1 or 0.1."""
    lines = text.split("\n")
    for start, stop in _tables(lines):
        rows = [re.split(r"(?<!\\)\|", line) for line in lines[start:stop]]
        heads = [cell.strip() for cell in rows[0]]
        at = {row[1 + (heads[1] == "rank")].strip(): number for number, row in enumerate(rows)}
        if not (table.columns.keys() <= set(heads) and table.rows.keys() <= at.keys()):
            continue
        for (name, heading), figure in cells.items():
            row, place = rows[at[name]], heads.index(heading)
            bare = figure.removeprefix("0") if re.search(r"(?<!\d)\.", row[place]) else figure
            row[place] = _FIGURE.sub(bare, row[place], count=1)
            lines[start + at[name]] = "|".join(row)
        return "\n".join(lines)
    wanted = ", ".join((*table.columns, *table.rows))
    raise InvalidFile(f"{path}: {table.file} has no table with these columns and rows: {wanted}")


def _tables(lines: list[str]) -> Iterator[tuple[int, int]]:
    """Yield where each table of Markdown begins and ends (lines)."""
    inside = [line.startswith("|") for line in [*lines, ""]]
    starts = [at for at, one in enumerate(inside) if one and not (at and inside[at - 1])]
    yield from ((start, inside.index(False, start)) for start in starts)
