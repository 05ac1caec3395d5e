"""The leaderboard: pages made from committed result files and nothing else.

    leaderboard/results/<suite>/<system>.json   one file per system: its results on the suite's datasets
    leaderboard/README.md                       generated
    leaderboard/index.html                      also generated: all measures, plots and single queries
    leaderboard/reproduce.sh                    also generated: the commands that repeat the measurements
    leaderboard/top-k.svg                       also generated, if there are top-K variants: their curves
    leaderboard/elsewhere.toml                  the figures that other files show of these results, which are made as well

`lexbench leaderboard --check` fails if a generated file is out of date.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from lexbench.datasets.location import typed_id
from lexbench.display.answer import Answer
from lexbench.display.table import Table
from lexbench.errors import CannotStart, CommandError, UnknownName
from lexbench.measures import MARK
from lexbench.report.leaderboard import copies
from lexbench.report.leaderboard.board import Board
from lexbench.report.leaderboard.elsewhere import texts_elsewhere
from lexbench.report.leaderboard.markdown import CURVES, markdown, svg
from lexbench.report.leaderboard.page import html
from lexbench.report.leaderboard.sections import board, script
from lexbench.results import Results, merged
from lexbench.runner.soundness import read_folder
from lexbench.storage import atomic

SCRIPT = "reproduce.sh"
MARKDOWN = "README.md"
HTML = "index.html"


def people(texts: Sequence[str] | Mapping[str, str | Path]) -> dict[str, Path]:
    """Return the folder of each person from texts "NAME=FOLDER"; without a NAME, the folder's own name counts."""
    if isinstance(texts, Mapping):
        return {name: Path(folder) for name, folder in texts.items()}
    found: dict[str, Path] = {}
    for text in texts:
        name, equals, folder = text.partition("=")
        path = Path(folder if equals else text)
        name = name if equals else path.resolve().name
        if name in found:
            raise CommandError(f"--merge {text}: {name} is the name of {found[name]}; give NAME=FOLDER with another name")
        found[name] = path
    return found


def read_results(folder: Path, others: Mapping[str, Path] = {}) -> Results:
    """Return the results of a folder, merged with the folders of *others*, by the name of the person who ran them."""
    if not others:
        return read_folder(folder)
    if folder.name in others:
        raise CommandError(f"{folder.name} is the name of {folder}; rename {others[folder.name]}: --merge NAME=FOLDER")
    return merged({who: read_folder(path) for who, path in {folder.name: folder, **others}.items()})


class Leaderboard(Answer):
    """A leaderboard: its texts, computed once from results."""

    def __init__(self, results: Results, folder: Path | None = None, published: str = "") -> None:
        """Take results and, if they are in one, their folder. *published* scores are none, few or all."""
        self.results, self.folder, self.published = results, folder, published

    @cached_property
    def board(self) -> Board:
        """The data of all texts."""
        return board(self.results, self.published or "few")

    @property
    def markdown(self) -> str:
        """The page README.md."""
        return markdown(self.board)

    @property
    def html(self) -> str:
        """The page index.html, which needs no network and no server."""
        return html(self.board)

    @property
    def latex(self) -> str:
        """The main table in LaTeX. Raises UnknownName if there are several suites; see `copy`."""
        return self.copy("latex")

    def copy(self, form: str, *, suite: str = "", dataset: str = "", split: str | None = None, baseline: str = "") -> str:
        """Return one table as latex, markdown or csv: the main one of *suite*, or all measures on one *dataset*.

        In LaTeX and Markdown, each figure that differs significantly from that of *baseline* is marked. *dataset* may be a
        folder, of which *split* chooses the judgements. Raises CommandError for a baseline in CSV, which has no marks.
        """
        if form not in copies.FORMATS:
            raise UnknownName("format of a table", form, copies.FORMATS)
        dataset = typed_id(f"{dataset}#{split}" if split else dataset)
        if baseline and form == "csv":
            raise CommandError(f"CSV has no marks for what differs from {baseline}; choose latex or markdown")
        shown = board(self.results, self.published or "none")
        return copies.FORMATS[form](copies.view(shown, suite, dataset, baseline, self.results))

    def pages(self, folder: str | Path | None = None) -> dict[Path, str]:
        """Return the texts of the files of *folder* (default: that of the results) by path; equal results give equal texts."""
        place = Path(folder) if folder else self.folder
        if place is None:
            raise CommandError("these results are in no folder; name one to save the pages in")
        pages = {place / MARKDOWN: self.markdown, place / HTML: self.html}
        pages[place / SCRIPT] = script([section.command for section in self.board.suites])
        if text := svg(self.board):
            pages[place / CURVES] = text
        return pages | texts_elsewhere(self.board, self.results, place) if place == self.folder else pages

    def stale(self) -> list[Path]:
        """Return which pages differ from the files on disk."""
        texts = self.pages()
        return [path for path, text in texts.items() if not path.is_file() or path.read_bytes() != text.encode()]

    def save(self, folder: str | Path | None = None) -> list[Path]:
        """Write the pages that differ from the files on disk into *folder*; return all pages.

        In a folder other than that of the results, the results are written as well.
        """
        if own := [name for name in self.results.measures if MARK in name]:
            raise CannotStart(
                f"{own[0]} is a function, which nobody else can compute again, so it is on no board; run without it, or make "
                "it a measure with a name: docs/howto/measure.md"
            )
        if folder and (self.folder is None or Path(folder) != self.folder):
            self.results.save(folder)
        texts = self.pages(folder)
        for path, text in texts.items():
            atomic.write_text(path, text)
        return list(texts)

    def tables(self) -> list[Table]:
        """Return the main table of each suite, as README.md has it."""
        shown = []
        for section in self.board.suites:
            grid = copies.main_grid(section, section.summary)
            header = ("system", *(column.name for column in grid.columns))
            rows = tuple((row.name, *(value.text for value in row.values)) for row in grid.rows)
            shown.append(Table(f"{section.name}: {grid.title}", header, rows, (*grid.notes, *section.notes)))
        return shown
