"""The leaderboard: a Markdown page and an HTML page made from committed result files, and from nothing else.

    leaderboard/results/<suite>/<system>.json   one file a system: its results on the suite's datasets
    leaderboard/README.md                       generated; `lexbench leaderboard --check` fails when one is stale
    leaderboard/index.html                      likewise: the same scores, with plots, by query

Others take from here `pages`, `write` and `stale`. A board (`board`) is worked out once from results (`sections`, `panels`,
`trade_off`); `markdown` and `page` write it.
"""

from collections.abc import Mapping
from pathlib import Path

from lexbench.errors import CannotStart
from lexbench.report.leaderboard.acceptance import accepted
from lexbench.report.leaderboard.board import Board
from lexbench.report.leaderboard.markdown import markdown
from lexbench.report.leaderboard.page import html
from lexbench.report.leaderboard.sections import ResultsBySystem, board
from lexbench.results import files_of
from lexbench.storage import atomic

MARKDOWN = "README.md"
HTML = "index.html"


def read_board(folder: Path) -> Board:
    """Return what the files of a folder of results show; CannotStart where there are none, InvalidFile for a wrong one."""
    by_suite: dict[str, ResultsBySystem] = {}
    for path in files_of(folder):
        entry = accepted(path)
        by_suite.setdefault(entry.suite, {})[entry.system] = {result.dataset: result for result in entry.results}
    if not by_suite:
        raise CannotStart(f"no result files in {folder / 'results'}; write some: lexbench run suite pydoc --results {folder}")
    return board(by_suite)


def pages(folder: Path) -> dict[Path, str]:
    """Return the text of both pages of *folder* by path: the same files, the same text."""
    shown = read_board(folder)
    return {folder / MARKDOWN: markdown(shown), folder / HTML: html(shown)}


def write(texts: Mapping[Path, str]) -> None:
    """Write the pages, as `pages` returned them."""
    for path, text in texts.items():
        atomic.write_text(path, text)


def stale(texts: Mapping[Path, str]) -> list[Path]:
    """Return which of the pages, as `pages` returned them, are not on the disk as they should be."""
    return [path for path, text in texts.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
