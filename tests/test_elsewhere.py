"""Figures of a leaderboard in other files, as `elsewhere.toml` names them: written, checked, and never outside."""

import re
import tomllib
from pathlib import Path

import pytest
import samples
from tiny import ended

from lexbench.cli import code
from lexbench.report import figures
from lexbench.results import write_results

pytestmark = pytest.mark.usefixtures("open_contracts")
ROOT = Path(__file__).parents[1]
PAGE = """# Page

| other | nDCG@10 |
| :-- | --: |
| b25 | .1 |

| rank | what | score | note |
| --: | :-- | --: | :-- |
| 9 | b25 | **.1000** | |
| 7-9 | a \\| b | 0.2 | stays .3 |
"""
TABLE = """[[table]]
file = "../page.md"
columns = { rank = "pydoc/rank", score = "pydoc/nDCG@10" }
rows = { b25 = "bm25", 'a \\| b' = "other" }
"""
PICTURE = """[[picture]]
file = "../drawn.svg"
cost = "index"
dataset = "pydoc/test"
systems = ["bm25", "other"]
"""


@pytest.fixture
def board(tmp_path):
    """Return a folder of results of two systems, beside a page and an empty picture."""
    names = {"bm25": (0.5, 100), "other": (0.25, 50)}
    made = [samples.result(name, (score, score), documents=10, sizes={"index": size}) for name, (score, size) in names.items()]
    write_results(made, "pydoc", tmp_path / "board")
    (tmp_path / "page.md").write_text(PAGE)
    (tmp_path / "drawn.svg").write_text("")
    return tmp_path / "board"


def test_cells_of_tables_are_filled_and_checked(board, capsys):
    """The figures of the table that has all columns and rows; marks, other cells and the form .5 or 0.5 stay."""
    (board / "elsewhere.toml").write_text(TABLE)
    command = ["leaderboard", "--results", str(board)]
    assert str(board.parent / "page.md") in ended(capsys, 0, *command).out
    filled = PAGE.replace("| 9 | b25 | **.1000** |", "| 1-2 | b25 | **.5000** |").replace(
        "| 7-9 | a \\| b | 0.2 |", "| 1-2 | a \\| b | 0.2500 |"
    )
    assert (board.parent / "page.md").read_text() == filled
    assert code([*command, "--check"]) == 0
    (board.parent / "page.md").write_text(filled.replace("**.5000**", "**.5001**"))
    assert f"out of date: {board.parent / 'page.md'}; type: lexbench leaderboard" in ended(capsys, 1, *command, "--check").err


def test_a_picture_is_drawn_when_its_data_change(board, monkeypatch, capsys):
    """The SVG has a digest of what it shows; with the same data it is not drawn again, e.g. by another matplotlib."""
    pytest.importorskip("matplotlib", reason="figures are drawn by matplotlib, of the extra figures")
    (board / "elsewhere.toml").write_text(PICTURE)
    command = ["leaderboard", "--results", str(board)]
    assert code(command) == 0
    drawn = (board.parent / "drawn.svg").read_text()
    assert drawn.startswith("<?xml")
    assert len(re.findall("data: [0-9a-f]{16}", drawn)) == 1
    with monkeypatch.context() as patched:
        patched.setattr(figures, "_against", lambda *_: pytest.fail("drawn again"))
        assert code([*command, "--check"]) == 0
    (board.parent / "drawn.svg").write_text(drawn.replace("</svg>", "<text>.99</text></svg>"))  # edited by hand
    assert "drawn.svg" in ended(capsys, 1, *command, "--check").err
    (board.parent / "drawn.svg").write_text(drawn)
    write_results([samples.result("other", (0.5, 0.25), documents=10, sizes={"index": 50})], "pydoc", board)
    assert "drawn.svg" in ended(capsys, 1, *command, "--check").err


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("../page.md", "../../page.md", "is no .md file below"),
        ("../page.md", "../drawn.svg", "is no .md file below"),
        ("../page.md", "../nothing.md", "is no .md file below"),
        ("pydoc/rank", "pydoc/ranks", "no column of the leaderboard for ../page.md 'pydoc/ranks'; did you mean 'pydoc/rank'?"),
        ('"other"', '"others"', "no system of the leaderboard for ../page.md 'others'; did you mean 'other'?"),
        ("score", "scores", "../page.md has no table with these columns and rows: rank, scores, b25"),
        ("file", "path", "elsewhere.toml: "),
    ],
)
def test_what_is_not_there_is_named(board, capsys, old, new, said):
    """A file outside, or of another kind, an unknown column or system, and a missing table are refused in one line."""
    (board / "elsewhere.toml").write_text(TABLE.replace(old, new))
    assert code(["leaderboard", "--results", str(board)]) != 0
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_all_rows_of_the_readme_are_the_leaderboards():
    """`lexbench leaderboard --check`, of `make lint`, compares every row of the table in README, and its picture."""
    named = tomllib.loads((ROOT / "leaderboard" / "elsewhere.toml").read_text())
    (table,) = [one for one in named["table"] if one["file"] == "../README.md"]
    readme = (ROOT / "README.md").read_text()
    rows = [line.split("|")[2].strip() for line in readme.splitlines() if re.match(r"\| [\d-]+ \|", line)]
    assert rows == list(table["rows"])
    assert all((ROOT / "leaderboard" / one["file"]).resolve().name in readme for one in named["picture"])
