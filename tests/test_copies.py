"""Tables of leaderboards to paste elsewhere, and merged boards."""

import csv
import io
import re
import shutil
import subprocess

import msgspec
import pytest
import samples
from tiny import ended

import lexbench
from lexbench.errors import UnknownName
from lexbench.report.grid import Column, Grid, Row, Value
from lexbench.report.leaderboard import copies
from lexbench.report.leaderboard.copies import View
from lexbench.results import write_results
from lexbench.storage.stopwatch import Measurement

pytestmark = pytest.mark.usefixtures("open_contracts")


def hard(columns=("a_b", "{c}|")):
    """Make a table with every character that LaTeX, Markdown and CSV treat specially; more columns have a third."""
    more = (Value("0.3333", 1 / 3),) * (len(columns) - 2)
    rows = [
        Row("bm25|x", (Value("0.5000 ~", 0.5), Value(), *more), system=0),
        Row("=1+1", (Value("0.2500", 0.25), Value("2/12"), *more), system=1),
        Row('x --y `z\' "w" <a>~^ \\end{tabular}', (Value("0.1000 ±0.0033", 0.1), Value("1,234", 1234.0), *more), system=2),
        Row("other (paper)", (Value("0.9000", 0.9), Value(), *more), ranked=False, published=True),
    ]
    grid = Grid("50 % of $x_1$ & more.", tuple(Column(name, ranked=name == "a_b") for name in columns), tuple(rows))
    return View(grid, "tab:hard", {"=1+1": 'a,"b"'}, baseline="bm25|x", starred=frozenset({(1, 0)}))


def test_latex_reads_as_a_table_of_booktabs():
    """Rules, equal numbers of columns, escaped texts, marks among our rows, a star, a dagger, a label and a caption."""
    text = copies.latex(hard())
    assert text.startswith(r"% needs \usepackage{booktabs,graphicx}, and XeLaTeX")
    assert r"\begin{tabular}{lrr}" in text
    text = text.partition("\n")[2].replace("{!}{%", "{!}{")  # without comments
    rows = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert [len(re.split(r"(?<!\\)&", row)) for row in rows] == [3] * 5
    assert [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule", r"\label{tab:hard}")] == [1, 2, 1, 1]
    assert r"\caption{50 \% of \$x\_1\$ \& more. Best in bold, second underlined, among the systems measured here." in text
    assert r"*: significantly different from bm25\textbar{}x" in text
    assert rows[1] == r"bm25\textbar{}x & \textbf{0.5000 $\sim$} & -- \\"
    assert rows[2] == r"=1+1 & \underline{0.2500}\rlap{$^{*}$} & 2/12 \\"
    assert rows[4] == r"other (paper)$^{\dagger}$ & 0.9000 & -- \\"
    bare = re.sub(r"\\[\\{}&%$#_]", "", text)
    assert bare.count("{") == bare.count("}")


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no pdflatex to compile the table by")
@pytest.mark.parametrize(("columns", "option"), [(2, ""), (14, "[twocolumn]")], ids=["narrow", "wider than the page"])
def test_latex_compiles(tmp_path, columns, option):
    """LaTeX compiles it in one column and in two, without a warning or an overfull line, for any characters in names."""
    table = copies.latex(hard(("a_b", "{c}|", *(f"a/b-{number}" for number in range(columns - 2)))))
    head = f"\\documentclass{option}{{article}}\\usepackage{{booktabs,graphicx}}\\begin{{document}}\n"
    (tmp_path / "table.tex").write_text(f"{head}{table}\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "table.tex"]
    for _ in range(2):  # the second time LaTeX knows the label
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120, check=False)

    assert done.returncode == 0, done.stdout[-1000:]
    assert "Overfull" not in done.stdout
    assert "Warning" not in done.stdout
    assert "Output written on table.pdf (1 page" in done.stdout


def test_markdown_and_csv():
    """Markdown is escaped and marked; CSV has bare numbers, necessary quotes, and no formula for a spreadsheet."""
    assert copies.markdown(hard()).splitlines()[2:4] == [
        r"| bm25\|x | **0.5000 ~** | — |",
        "| =1+1 | <ins>0.2500</ins> \\* | 2/12 |",
    ]
    rows = list(csv.reader(io.StringIO(copies.comma_separated(hard()))))
    assert rows[:3] == [
        ["system", "expression", "a_b", "{c}|"],
        ["bm25|x", "", "0.5000", ""],
        ["'=1+1", 'a,"b"', "0.2500", "2/12"],
    ]
    assert rows[3][2:] == ["0.1000", "1234"]


def result(system, value, who="anna", dataset="pydoc/test"):
    """Make a result with two queries, on a machine named after *who*."""
    measured = Measurement(versions={"lexbench": "0.2.0"}, machine={"processor": f"{who}'s CPU", "cores": "2"})
    return samples.result(system, [value, value], dataset, measured=measured)


@pytest.fixture
def two(tmp_path):
    """Make the folders of two people: one system the same, one different, and one that only the second ran."""
    write_results([result("bm25", 0.5), result("x", 0.25)], "pydoc", tmp_path / "anna")
    write_results(
        [result(name, value, "bo") for name, value in (("bm25", 0.5), ("x", 0.75), ("y", 0.1))], "pydoc", tmp_path / "bo"
    )
    return tmp_path


def test_boards_of_two_people_are_merged(two):
    """Equal results are one row, different ones a row each; the page lists the rows and the machine of each person."""
    (section,) = lexbench.leaderboard(two / "anna", merge={"bo": two / "bo"}).board.suites
    ours = {system.label: system.who for system in section.systems}
    assert ours == {"x (bo)": ("bo",), "bm25": ("anna", "bo"), "x (anna)": ("anna",), "y": ("bo",)}
    assert section.ran == (
        "anna: bm25, x (anna) (lexbench 0.2.0; anna's CPU, 2 cores)",
        "bo: bm25, x (bo), y (lexbench 0.2.0; bo's CPU, 2 cores)",
    )
    page = lexbench.leaderboard(two / "anna", merge={"bo": two / "bo"}).pages()[two / "anna" / "README.md"]
    assert "bo: bm25, x (bo), y (lexbench 0.2.0; bo's CPU, 2 cores)" in page


def test_notes_of_merged_boards_name_the_person(tmp_path):
    """If two people use one name for different systems, each has a note under the name of its row."""
    for who, notation, value in (("anna", "bm25(b=0.0)", 0.25), ("bo", "bm25(b=0.1)", 0.75)):
        write_results([msgspec.structs.replace(result("x", value, who), expression=notation)], "pydoc", tmp_path / who)
    (section,) = lexbench.leaderboard(tmp_path / "anna", merge={"bo": tmp_path / "bo"}).board.suites
    assert {"x (anna) = bm25(b=0.0)", "x (bo) = bm25(b=0.1)"} <= set(samples.texts_of(section.datasets[0].notes))


def test_the_command_merges_and_prints_one_table(two, capsys):
    """`--merge NAME=FOLDER` and `--copy` work together; an unknown dataset gives one line."""
    merge = ["leaderboard", "--results", str(two / "anna"), "--merge", f"bo={two / 'bo'}"]
    names = [row[0] for row in csv.reader(io.StringIO(ended(capsys, 0, *merge, "--copy", "csv", "-d", "pydoc/test").out))]
    assert {"bm25", "x (anna)", "x (bo)", "y"} <= set(names)
    assert "no dataset of pydoc in these results 'none'" in ended(capsys, 3, *merge, "--copy", "latex", "-d", "none").err
    with pytest.raises(UnknownName, match="no suite of these results 'beir'"):
        copies.view(lexbench.leaderboard(two / "anna").board, "beir")
    assert msgspec.json.decode(msgspec.json.encode(lexbench.leaderboard(two / "anna").board))["suites"][0]["ran"] == []
