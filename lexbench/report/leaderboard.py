"""The leaderboard: a Markdown page and an HTML page made from committed result files, and from nothing else.

leaderboard/results/<suite>/<system>.json   one file a system: its results on the suite's datasets
leaderboard/README.md                       generated; `lexbench leaderboard --check` fails when one is stale
leaderboard/index.html                      likewise: the same figures, with plots, by query
"""

from pathlib import Path

from lexbench import results
from lexbench.errors import CannotStart
from lexbench.report.board import Board
from lexbench.report.sections import board
from lexbench.results import Result
from lexbench.storage import atomic

MARKDOWN = "README.md"
HTML = "index.html"


def read_board(folder: Path) -> Board:
    """Return what the result files of *folder* show; CannotStart where there are none."""
    found: dict[str, dict[str, dict[str, Result]]] = {}
    for path in results.files_of(folder):
        entry = results.load_system(path)
        found.setdefault(entry.suite, {})[entry.system] = {result.dataset: result for result in entry.results}
    if not found:
        raise CannotStart(f"no result files in {folder / 'results'}; write some: lexbench run suite pydoc --save {folder}")
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
