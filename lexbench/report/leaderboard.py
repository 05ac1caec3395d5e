"""The leaderboard: a Markdown page and an HTML page made from committed result files, and from nothing else.

leaderboard/results/<suite>/<system>.json   one file a system: its results on the suite's datasets
leaderboard/README.md                       generated; `lexbench leaderboard --check` fails when one is stale
leaderboard/index.html                      likewise: the same figures, with plots, by query
"""

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from lexbench import results
from lexbench.errors import CannotStart, InvalidFile
from lexbench.report.board import Board
from lexbench.results import Result
from lexbench.storage import atomic

MARKDOWN = "README.md"
HTML = "index.html"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One system on one suite, as its file holds it."""

    schema: int = 1
    suite: str
    system: str
    results: list[Result]


def write_results(found: Iterable[Result], suite: str, folder: Path) -> list[Path]:
    """Write one file a system below *folder*; datasets that a file has already and *found* does not are kept."""
    by_system: dict[str, dict[str, Result]] = {}
    for result in found:
        by_system.setdefault(result.system, {})[result.dataset] = result
    written = []
    for system, fresh in by_system.items():
        path = folder / "results" / suite / f"{file_name(system)}.json"
        kept = {result.dataset: result for result in read_results(path).results} if path.is_file() else {}
        merged = {**kept, **fresh}
        entry = Entry(suite=suite, system=system, results=[merged[name] for name in sorted(merged)])
        results.save(entry, path)
        written.append(path)
    return written


def file_name(system: str) -> str:
    """Return a file name for a system: its label, with a digest where characters had to go."""
    safe = re.sub(r"[^A-Za-z0-9@._=,()-]", "_", system)[:80]
    return safe if safe == system else f"{safe}-{hashlib.sha256(system.encode()).hexdigest()[:8]}"


def read_results(path: Path) -> Entry:
    """Read what *write_results* wrote; InvalidFile where it does not read."""
    try:
        entry = msgspec.json.decode(path.read_bytes(), type=Entry)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidFile(f"{path}: {error}") from None
    return msgspec.structs.replace(entry, results=[results.modern(result) for result in entry.results])


def read_board(folder: Path) -> Board:
    """Return what the result files of *folder* show; CannotStart where there are none."""
    found: dict[str, dict[str, dict[str, Result]]] = {}
    for path in sorted((folder / "results").glob("*/*.json")):
        entry = read_results(path)
        found.setdefault(entry.suite, {})[entry.system] = {result.dataset: result for result in entry.results}
    if not found:
        raise CannotStart(f"no result files in {folder / 'results'}; write some: lexbench run suite pydoc --save {folder}")
    from lexbench.report.sections import board  # it takes published scores from lexbench.verification, which reads our files

    return board(found)


def pages(folder: Path) -> dict[Path, str]:
    """Return both pages of *folder* by path: the same files, the same text."""
    from lexbench.report.board_markdown import markdown
    from lexbench.report.page import html

    shown = read_board(folder)
    return {folder / MARKDOWN: markdown(shown), folder / HTML: html(shown)}


def write(made: dict[Path, str]) -> None:
    """Write *made*, what `pages` returned."""
    for target, text in made.items():
        atomic.write_text(target, text)


def stale(made: dict[Path, str]) -> list[Path]:
    """Return which of *made*, what `pages` returned, are not on the disk as they should be."""
    return [target for target, text in made.items() if not target.is_file() or target.read_text(encoding="utf-8") != text]
