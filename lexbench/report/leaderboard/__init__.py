"""The leaderboard: a Markdown page and an HTML page made from committed result files, and from nothing else.

    leaderboard/results/<suite>/<system>.json   one file a system: its results on the suite's datasets
    leaderboard/README.md                       generated; `lexbench leaderboard --check` fails when one is stale
    leaderboard/index.html                      likewise: the same scores, with plots, by query

Others take from here `pages`, `write` and `stale`, and from `copies` a table to paste elsewhere. A board (`board`) is worked
out once from results (`sections`, `panels`, `trade_off`), those of several people `merged`; `markdown` and `page` write it.
"""

from collections.abc import Mapping
from pathlib import Path

from lexbench.errors import CommandError
from lexbench.report.leaderboard import merged
from lexbench.report.leaderboard.board import Board
from lexbench.report.leaderboard.markdown import markdown
from lexbench.report.leaderboard.page import html
from lexbench.report.leaderboard.sections import board
from lexbench.storage import atomic

MARKDOWN = "README.md"
HTML = "index.html"


def read_board(folder: Path, others: Mapping[str, Path] = {}) -> Board:
    """Return what the files of a folder of results show, merged with folders of *others* by who ran them.

    CannotStart where a folder has no results, InvalidFile for a wrong file.
    """
    if not others:
        return board(merged.read(folder))
    if folder.name in others:
        raise CommandError(f"{folder.name} is the name of {folder}; call {others[folder.name]} otherwise: --merge NAME=FOLDER")
    by_person = {who: merged.read(path) for who, path in {folder.name: folder, **others}.items()}
    results, ran = merged.merge(by_person)
    lines = {
        suite: tuple(merged.who_ran_what(results[suite], ran[suite], {who: of.get(suite, {}) for who, of in by_person.items()}))
        for suite in results
    }
    return board(results, ran, lines)


def pages(folder: Path, others: Mapping[str, Path] = {}) -> dict[Path, str]:
    """Return the text of both pages of *folder* by path: the same files, the same text; *others* as in `read_board`."""
    shown = read_board(folder, others)
    return {folder / MARKDOWN: markdown(shown), folder / HTML: html(shown)}


def write(texts: Mapping[Path, str]) -> None:
    """Write the pages, as `pages` returned them."""
    for path, text in texts.items():
        atomic.write_text(path, text)


def stale(texts: Mapping[Path, str]) -> list[Path]:
    """Return which of the pages, as `pages` returned them, are not on the disk as they should be."""
    return [path for path, text in texts.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
