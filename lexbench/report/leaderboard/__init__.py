"""The leaderboard: pages made from committed result files and nothing else.

    leaderboard/results/<suite>/<system>.json   one file per system: its results on the suite's datasets
    leaderboard/README.md                       generated
    leaderboard/index.html                      also generated: all measures, plots and single queries
    leaderboard/reproduce.sh                    also generated: the commands that repeat the measurements
    leaderboard/top-k.svg                       also generated, if there are top-K variants: their curves

`lexbench leaderboard --check` fails if a generated file is out of date.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from lexbench.errors import CommandError
from lexbench.report.leaderboard.board import Board, machine_line
from lexbench.report.leaderboard.markdown import CURVES, markdown, svg
from lexbench.report.leaderboard.page import html
from lexbench.report.leaderboard.sections import ResultsBySystem, board, script
from lexbench.results import Result
from lexbench.runner import soundness
from lexbench.storage import atomic

SCRIPT = "reproduce.sh"
MARKDOWN = "README.md"
HTML = "index.html"


def read_board(folder: Path, others: Mapping[str, Path] = {}, published: str = "few") -> Board:
    """Return the board of a folder of results, merged with the folders of *others*, by the name of the person who ran them.

    *published* is how many published scores it has: none, few or all. Raises CannotStart for a folder without results, and
    InvalidFile for a faulty file.
    """
    if not others:
        return board(read_folder(folder), published=published)
    if folder.name in others:
        raise CommandError(f"{folder.name} is the name of {folder}; rename {others[folder.name]}: --merge NAME=FOLDER")
    by_person = {who: read_folder(path) for who, path in {folder.name: folder, **others}.items()}
    return board(*merge(by_person), published)


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


# ---- reading and merging folders of results --------------------------------------------------------------------------------


def read_folder(folder: Path) -> dict[str, ResultsBySystem]:
    """Return the results of a folder by suite. Raises like `soundness.read_folder`."""
    by_suite: dict[str, ResultsBySystem] = {}
    for entry in soundness.read_folder(folder):
        by_suite.setdefault(entry.suite, {})[entry.system] = {result.dataset: result for result in entry.results}
    return by_suite


def merge(
    by_person: Mapping[str, dict[str, ResultsBySystem]],
) -> tuple[dict[str, ResultsBySystem], dict[str, dict[str, tuple[str, ...]]], dict[str, tuple[str, ...]]]:
    """Merge the results of several people.

    Returns three mappings by suite: the results by row, the people who ran each row, and lines with the rows, version and
    machine of each person.
    """
    merged: dict[str, ResultsBySystem] = {}
    ran: dict[str, dict[str, tuple[str, ...]]] = {}
    lines: dict[str, tuple[str, ...]] = {}
    for suite in dict.fromkeys(suite for results in by_person.values() for suite in results):
        of_suite = {who: results[suite] for who, results in by_person.items() if suite in results}
        rows_of: dict[tuple[str, str], dict[str, None]] = {}  # rows by person, and version and machine
        for system in dict.fromkeys(system for results in of_suite.values() for system in results):
            copies = {who: results[system] for who, results in of_suite.items() if system in results}
            for row, people in _rows(system, copies):
                # In reverse, so that the first person's result is kept where several have the dataset.
                merged.setdefault(suite, {})[row] = {
                    dataset: result for who in reversed(people) for dataset, result in copies[who].items()
                }
                ran.setdefault(suite, {})[row] = people
                for who in people:
                    for measured in (result.measured for result in copies[who].values()):
                        where = f"lexbench {measured.versions.get('lexbench', '?')}; {machine_line(measured.machine)}"
                        rows_of.setdefault((who, where), {})[row] = None
        lines[suite] = tuple(f"{who}: {', '.join(rows)} ({where})" for (who, where), rows in rows_of.items())
        soundness.check_all_comparable({row: results.values() for row, results in merged[suite].items()})
    return merged, ran, lines


def _rows(system: str, copies: Mapping[str, Mapping[str, Result]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the rows of one system, each with the people who ran it."""
    scored: dict[str, tuple[object, ...]] = {}
    for results in copies.values():
        for dataset, result in results.items():
            facts = (result.contract, sorted(result.digests.items()), result.query_ids, result.per_query)
            if scored.setdefault(dataset, facts) != facts:
                yield from ((f"{system} ({who})", (who,)) for who in copies)
                return
    yield system, tuple(copies)
