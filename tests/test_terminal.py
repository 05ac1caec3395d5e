"""Tables in terminals."""

import pytest
from rich.console import Console

from lexbench.report.cells import Table
from lexbench.report.terminal import render

TABLE = Table(
    "T", ("system", *(f"R(rel=2)@{10**i}" for i in range(1, 8))), (("a" * 60, *("0.1234",) * 7), ("[b]", *("1.0",) * 7)), ("n",)
)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_nothing_is_cut(width):
    """At any width every header and every figure is whole, no line is longer than the terminal, and names are not markup."""
    console = Console(width=width, no_color=True)
    with console.capture() as captured:
        console.print(render(TABLE))
    lines = captured.get().splitlines()
    words = captured.get().split()

    assert max(map(len, lines)) <= width
    assert set(TABLE.header) <= set(words)
    assert words.count("0.1234") == 7
    assert sum(line.count("a") for line in lines if line.strip().startswith("a")) % 60 == 0
    assert "[b]" in words
