"""The one table of `--brief`: four measures, QPS and index size in at most twenty lines."""

import samples
from rich.console import Console

from lexbench.report.run import brief_tables
from lexbench.report.terminal import render
from lexbench.results import Exposure, Vectors

MEANS = {"nDCG@10": 0.26, "RR(rel=2)@10": 0.39, "R(rel=2)@100": 0.61, "Success(rel=2)@100": 0.95, "Judged@10": 0.97}


def result(system, qps=6796.0, means=MEANS, dropped=0):
    """Return a timed result with an index of 0.77 MB."""
    return samples.result(
        system, means=means, per_query={}, sizes={"index": 770_000}, timings=[samples.timing(qps)],
        exposure=Exposure(status="zero-shot"), vectors=Vectors(terms={"mean": 30.0}, bytes_per_document=90.0, dropped=dropped),
    )  # fmt: skip


def test_a_brief_table_has_the_main_figures():
    """nDCG, MRR, both recalls at one cutoff, queries per second and megabytes, each with its name."""
    (table,) = brief_tables([result("bm25")])

    assert table.header == (
        "system", "nDCG@10", "RR@10\nrel=2\nMRR", "R@100\nrel=2\nofficial recall", "Success@100\nrel=2\nDPR recall",
        "QPS", "index\nMB",
    )  # fmt: skip
    assert table.rows == (("bm25", "0.2600", "0.3900", "0.6100", "0.9500", "6,796", "0.8"),)
    assert table.notes[0] == "QPS: queries per second, one at a time, with encoding; k=1000"


def test_it_is_at_most_twenty_lines():
    """Of fifteen systems, nine are shown and six counted; a top_k without effect has no row."""
    many = [result(f"s{number}") for number in range(14)] + [result("m|top_k(256)"), result("m|top_k(8)", dropped=9)]
    (table,) = brief_tables(many)
    console = Console(width=100)
    with console.capture() as text:
        console.print(render(table))

    assert len(table.rows) == 9
    assert "6 more systems are in --json" in table.notes
    assert any("1 more are left out: their top_k changed nothing" in note for note in table.notes)
    assert len(text.get().splitlines()) <= 20
