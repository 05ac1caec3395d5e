"""Scores that others give, as rows: what other tools' result files become here.

They are no results: no run, no values by query, no digests of the data. So they are kept apart from results, each with who
says it and where, in the form of `suites/expected/*.toml`: a table a system and source, a line a dataset.
"""

import json
import math
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import msgspec

from lexbench.errors import InvalidFile
from lexbench.storage import atomic


class Row(NamedTuple):
    """One figure, sorted as it is written."""

    system: str  # as its source calls it
    source: str  # who says it, as "MTEB"
    dataset: str  # a contract's id
    where: str  # the file, and what in it tells its version
    measure: str  # in ir-measures' notation
    value: float  # 0 to 1


class _Figure(msgspec.Struct, frozen=True):
    dataset: str
    values: dict[str, float]
    where: str


class _System(msgspec.Struct, frozen=True):
    called: str
    source: str
    figures: list[_Figure]


class _File(msgspec.Struct, frozen=True):
    schema: int
    systems: list[_System] = []


def write(rows: Iterable[Row], path: Path) -> None:
    """Write rows as TOML, sorted, whole or not at all."""
    tables = ["schema = 1\n"]
    for (called, source), own in groupby(sorted(set(rows)), lambda row: row[:2]):
        lines = []
        for (dataset, where), figures in groupby(own, lambda row: row[2:4]):
            values = ", ".join(f"{_quoted(row.measure)} = {row.value!r}" for row in figures)
            lines.append(f"  {{ dataset = {_quoted(dataset)}, values = {{ {values} }}, where = {_quoted(where)} }},\n")
        head = f"[[systems]]\ncalled = {_quoted(called)}\nsource = {_quoted(source)}\n"
        tables.append(f"{head}figures = [\n{''.join(lines)}]\n")
    atomic.write_text(path, "\n".join(tables))


def read(path: Path) -> list[Row]:
    """Read what *write* wrote; InvalidFile where it does not read."""
    try:
        found = msgspec.toml.decode(path.read_bytes(), type=_File)
    except (OSError, msgspec.DecodeError, ValueError) as error:  # the last is tomllib's
        raise InvalidFile(f"{path}: {error}") from None
    return [
        Row(system.called, system.source, figure.dataset, figure.where, measure, value)
        for system in found.systems
        for figure in system.figures
        for measure, value in figure.values.items()
    ]


def fraction(value: object, what: str) -> float:
    """Return *value* if it is a score from 0 to 1; InvalidFile, naming *what*, otherwise. Percentages are not guessed."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= 1:
        raise InvalidFile(f"{what} is {value!r}, not a score from 0 to 1; if it is a percentage, divide it by 100")
    return float(value)


def _quoted(text: str) -> str:
    """Return *text* as a TOML string: as JSON's, but for one character that TOML wants escaped too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
