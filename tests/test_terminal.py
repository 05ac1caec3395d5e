"""Tables in terminals."""

import pytest
from rich.console import Console

from lexbench.report.terminal import render
from lexbench.table import Table, heading

TABLE = Table(
    "T", ("system", *(f"R(rel=2)@{10**i}" for i in range(1, 8))), (("a" * 60, *("0.1234",) * 7), ("[b]", *("1.0",) * 7)), ("n",)
)


def shown(table, width):
    """Return the lines that a terminal of this width shows."""
    console = Console(width=width, no_color=True)
    with console.capture() as captured:
        console.print(render(table))
    return [line.rstrip() for line in captured.get().splitlines()]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_nothing_is_cut(width):
    """At any width, all headers and figures are complete, no line is too long, and names are not markup."""
    lines = shown(TABLE, width)
    words = " ".join(lines).split()

    assert max(map(len, lines)) <= width
    assert set(TABLE.header) <= set(words)
    assert words.count("0.1234") == 7
    assert sum(line.count("a") for line in lines if line.strip().startswith("a")) % 60 == 0
    assert "[b]" in words


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        ("nDCG@10", "nDCG@10"),
        ("RR(rel=2)@10", "RR@10\nrel=2"),
        ("AP(rel=2)", "AP\nrel=2"),
        ("RBP(p=0.8,rel=2)@100", "RBP@100\np=0.8,rel=2"),
    ],
)
def test_settings_of_a_measure_stand_below_its_name(measure, expected):
    """A heading has the whole notation of the measure, in columns as narrow as their figures."""
    assert heading(measure) == expected


def test_the_default_suite_fits_a_hundred_columns():
    """The scores of pydoc are one table; names of usual length are on one line and longer ones wrap."""
    measures = ("nDCG@10", "RR(rel=2)@10", "Success(rel=2)@10", "R(rel=2)@100", "AP(rel=2)@1000", "Judged@10")
    names = ("ensemble(bm25, lexmae_nano@impact)", "pipeline(bm25, lexmae_nano|top_k(256)@impact, weights=[1, 0.3])", "bm25")
    header = ("system", *map(heading, measures))
    lines = shown(Table("pydoc/test", header, tuple((name, *("0.1234",) * 6) for name in names)), 100)

    assert lines[1].split() == ["RR@10", "Success@10", "R@100", "AP@1000"]
    assert lines[2].split() == ["system", "nDCG@10", "rel=2", "rel=2", "rel=2", "rel=2", "Judged@10"]
    assert lines[4].split() == ["ensemble(bm25,", "lexmae_nano@impact)", *("0.1234",) * 6]
    assert [line.split()[0] for line in lines[5:]] == ["pipeline(bm25,", "@impact,", "bm25"]
    assert max(map(len, lines)) <= 100
    # A name may use all the width that the figures leave; an engine or a member of it is not cut in the middle.
    assert shown(Table("T", ("system", "a"), (("n" * 90, "0.1234"),)), 100)[-1] == "n" * 90 + "  0.1234"
    lines = shown(Table("T", ("system", *"abcdefg"), (("sparse_mlm(model=m)@impact", *("0.1234",) * 7),)), 78)
    assert [line.split()[0] for line in lines[3:]] == ["sparse_mlm(model=m)", "@impact"]
