"""The leaderboard: pages made from committed result files and nothing else.

    leaderboard/results/<suite>/<system>.json   one file per system: its results on the suite's datasets
    leaderboard/README.md                       generated; `lexbench leaderboard --check` fails if it is out of date
    leaderboard/index.html                      also generated: all measures, plots and single queries
    leaderboard/reproduce.sh                    also generated: the commands that repeat the measurements
    leaderboard/top-k.svg                       also generated, if there are top-K variants: their curves

Callers use `pages`, `write` and `stale`, and `copies` for one table to paste elsewhere. `result_folders` reads and merges
results; `sections` computes a `board` from them once; `markdown`, `copies` and `page` write it.
"""

from collections.abc import Mapping
from pathlib import Path

from lexbench.errors import CommandError
from lexbench.report.leaderboard import result_folders
from lexbench.report.leaderboard.board import Board
from lexbench.report.leaderboard.curve import svg
from lexbench.report.leaderboard.markdown import CURVES, markdown
from lexbench.report.leaderboard.page import html
from lexbench.report.leaderboard.reproduce import script
from lexbench.report.leaderboard.sections import board
from lexbench.storage import atomic

SCRIPT = "reproduce.sh"
MARKDOWN = "README.md"
HTML = "index.html"


def read_board(folder: Path, others: Mapping[str, Path] = {}, published: str = "few") -> Board:
    """Return the board of a folder of results, merged with the folders of *others*, by the name of who ran them.

    *published* is how many published scores it has: none, few or all.

    Raises CannotStart for a folder without results, and InvalidFile for a faulty file.
    """
    if not others:
        return board(result_folders.read_folder(folder), published=published)
    if folder.name in others:
        raise CommandError(f"{folder.name} is the name of {folder}; rename {others[folder.name]}: --merge NAME=FOLDER")
    by_person = {who: result_folders.read_folder(path) for who, path in {folder.name: folder, **others}.items()}
    results, ran = result_folders.merge(by_person)
    lines = {
        suite: tuple(
            result_folders.who_ran_what(results[suite], ran[suite], {who: of.get(suite, {}) for who, of in by_person.items()})
        )
        for suite in results
    }
    return board(results, ran, lines, published)


def pages(folder: Path, others: Mapping[str, Path] = {}, published: str = "few") -> dict[Path, str]:
    """Return the texts of the files of *folder* by path; equal results give equal texts. Arguments as in `read_board`."""
    shown = read_board(folder, others, published)
    commands = [section.command for section in shown.suites]
    curves = {folder / CURVES: text} if (text := svg(shown)) else {}
    return {folder / MARKDOWN: markdown(shown), folder / HTML: html(shown), folder / SCRIPT: script(commands)} | curves


def write(texts: Mapping[Path, str]) -> None:
    """Write the pages that `pages` returned."""
    for path, text in texts.items():
        atomic.write_text(path, text)


def stale(texts: Mapping[Path, str]) -> list[Path]:
    """Return which of the pages that `pages` returned differ from the files on disk."""
    return [path for path, text in texts.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
