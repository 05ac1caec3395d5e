"""The page that lists every system."""

from pathlib import Path

import systems_page as tool

from lexbench import catalog


def row(page, start):
    """Return the cells of the one row whose first cell begins so."""
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {start}")]
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def test_the_page_is_fresh():
    """docs/systems.md is what the catalogue says now; if it is not, run tools/systems_page.py."""
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page()


def test_every_system_has_one_row():
    """Each file of the catalogue is one row: what can be run as it is typed, what cannot with the reason."""
    page = tool.page()
    runnable, unrunnable = page.split("## What cannot be run")

    for path in Path(catalog.__file__).parent.glob("*.toml"):  # not the models of other packages that are installed
        found = catalog.model(path.stem)
        if found.weights == "none":
            assert row(unrunnable, f"{found.summary} ")[3] == found.why
        else:
            assert row(runnable, f"{found.summary} ")[2] == f"`{found.run}`"


def test_figures_are_marked():
    """A figure has its source and all its digits, T where passages have titles; one of another dataset says of which."""
    page = tool.page()

    assert row(page, "BM25, Anserini's default")[4:] == [".1840", ".8526", "", "pyserini 2CR"]
    assert row(page, "coCondenser, fine-tuned")[4:] == [".382 T", ".984 T", "", "LexMAE paper, Table 1"]
    assert row(page, "DPR, trained on four")[4:] == ["", "", ".318 nDCG@10, beir/scifact/test", "LexMAE paper, Table 2"]
