"""Tables in terminals, the tables of a run, and the one table of `--brief`."""

import pytest
import samples
from rich.console import Console

from lexbench.display.answer import render
from lexbench.display.table import Table, heading, p_text
from lexbench.report.run import brief_tables, tables
from lexbench.report.timings import timing_tables
from lexbench.results import Exposure, Latency, SearchWork, VectorSizes


def result(system, dataset="d/test", mean=0.5, **facts):
    """Make a result with one query."""
    return samples.result(system, [mean], dataset, 100, **facts)


def sparse(system, dataset="d/test", **facts):
    """Make the result of a sparse system: 2.5 terms per document, 40 postings per query, an index of 1,000 bytes."""
    vectors = VectorSizes(terms={"mean": 2.5}, bytes_per_document=7.5, **facts)
    work = SearchWork(query_terms={"mean": 4.0}, postings={"mean": 40.0}, flops=0.4)
    return result(system, dataset, vectors=vectors, work=work, sizes={"index": 1000})


@pytest.mark.parametrize(
    ("systems", "datasets", "header"),
    [(3, 2, ("system", "d0", "d1")), (2, 2, ("dataset", "s0", "s1")), (2, 3, ("dataset", "s0", "s1"))],
)
def test_rows_are_systems_or_datasets(systems, datasets, header):
    """Rows are systems or datasets, whichever are more."""
    results = [result(f"s{i}", f"d{j}", mean=i / 10 + j / 100) for j in range(datasets) for i in range(systems)]
    table = tables(results, None)[0]
    by_system = table.header[0] == "system"

    assert table.header == header
    for one in results:
        row, column = (one.system, one.dataset) if by_system else (one.dataset, one.system)
        cells = dict(zip(table.header, next(cells for cells in table.rows if cells[0] == row), strict=True))
        assert cells[column] == f"{one.means['nDCG@10']:.4f}"


def test_known_data_issues_have_a_note():
    """One note counts the known issues of the datasets, with the command that shows them."""
    results = [result("bm25", name) for name in ("beir/arguana", "bread/test", "beir/webis-touche2020/v2")]
    notes = tables(results, None)[0].notes

    assert notes[-1] == "known data issues: beir/arguana 2, beir/webis-touche2020/v2 3; see: lexbench show dataset NAME"
    alone = tables(results[:1], None)[0].notes[-1]
    assert alone == "beir/arguana has 2 known data issues; see: lexbench show dataset beir/arguana"
    assert not any("data issue" in note for note in tables([result("bm25", "bread/test")], None)[0].notes)


def test_sparse_systems_have_a_table_for_each_dataset():
    """Sizes of sparse vectors have their own table, without other systems."""
    found = tables([result("bm25"), sparse("a"), sparse("b", "e/test")], None)[1:]

    assert [table.title for table in found] == ["sparse vectors, d/test", "sparse vectors, e/test"]
    assert found[0].rows == (("a", "2.5", "8", "10", "4.0", "40", "0.4"),)
    assert len(tables([result("bm25")], None)) == 1


def test_equal_notes_are_shown_once():
    """Notes name all systems that they are about."""
    notes = tables([sparse("a", truncated=30), sparse("b", truncated=30, clipped=2, empty=1)], None)[-1].notes

    assert notes[1:] == (
        "a, b: 30 of 100 texts were cut to the encoder's maximum length",
        "b: 1 of 100 documents have no terms",
        "b: 2 weights were clipped",
    )


MEANS = {"nDCG@10": 0.26, "RR(rel=2)@10": 0.39, "R(rel=2)@100": 0.61, "Success(rel=2)@100": 0.95, "Judged@10": 0.97}


def timed(system, qps=6796.0, means=MEANS, dropped=0):
    """Return a timed result with an index of 0.77 MB."""
    return samples.result(
        system, means=means, per_query={}, sizes={"index": 770_000}, timings=[samples.timing(qps)],
        exposure=Exposure(status="zero-shot"),
        vectors=VectorSizes(terms={"mean": 30.0}, bytes_per_document=90.0, dropped=dropped),
    )  # fmt: skip


def test_a_brief_table_has_the_main_figures():
    """nDCG, MRR, both recalls at one cutoff, queries per second and megabytes, each with its name."""
    (table,) = brief_tables([timed("bm25")])

    assert table.header == (
        "system", "nDCG@10", "RR@10\nrel=2\nMRR", "R@100\nrel=2\nofficial recall", "Success@100\nrel=2\nDPR recall",
        "QPS", "index\nMB",
    )  # fmt: skip
    assert table.rows == (("bm25", "0.2600", "0.3900", "0.6100", "0.9500", "6,796", "0.8"),)
    assert table.notes[0] == "QPS: queries per second, one at a time, with encoding; k=1000"


def test_it_is_at_most_twenty_lines():
    """Of fifteen systems, nine are shown and six counted; a top_k without effect has no row."""
    many = [timed(f"s{number}") for number in range(14)] + [timed("m|top_k(256)"), timed("m|top_k(8)", dropped=9)]
    (table,) = brief_tables(many)

    assert len(table.rows) == 9
    assert "6 more systems are in --json" in table.notes
    assert any("1 more are left out: their top_k changed nothing" in note for note in table.notes)
    assert len(shown(table, 100)) <= 20


TABLE = Table(
    "T", ("system", *(f"R(rel=2)@{10**i}" for i in range(1, 8))), (("a" * 60, *("0.1234",) * 7), ("[b]", *("1.0",) * 7)), ("n",)
)


def shown(table, width):
    """Return the lines that a terminal of this width shows."""
    console = Console(width=width, no_color=True)
    with console.capture() as captured:
        for part in render(table, width):
            console.print(part)
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


def test_a_table_without_columns_has_its_notes():
    """A table may have only a title and notes, e.g. the settings that differ between many systems."""
    assert shown(Table("T", (), (), ("n",)), 80) == ["T", "· n"]


def test_the_default_suite_fits_a_hundred_columns():
    """The scores of pydoc are one table; settings of measures are below their names; long names of systems wrap."""
    measures = ("nDCG@10", "RR(rel=2)@10", "Success(rel=2)@10", "R(rel=2)@100", "AP(rel=2)@1000", "Judged@10")
    names = ("ensemble(bm25, lexmae_nano@impact)", "pipeline(bm25, lexmae_nano|top_k(256)@impact, weights=[1, 0.3])", "bm25")
    header = ("system", *map(heading, measures))
    lines = shown(Table("pydoc/test", header, tuple((name, *("0.1234",) * 6) for name in names)), 100)

    assert heading("RBP(p=0.8,rel=2)@100") == "RBP@100\np=0.8,rel=2"
    assert lines[1].split() == ["RR@10", "Success@10", "R@100", "AP@1000"]
    assert lines[2].split() == ["system", "nDCG@10", "rel=2", "rel=2", "rel=2", "rel=2", "Judged@10"]
    assert lines[4].split() == ["ensemble(bm25,", "lexmae_nano@impact)", *("0.1234",) * 6]
    assert [line.split()[0] for line in lines[5:]] == ["pipeline(bm25,", "@impact,", "bm25"]
    assert max(map(len, lines)) <= 100
    # A name may use all the width that the figures leave; an engine or a member of it is not cut in the middle.
    assert shown(Table("T", ("system", "a"), (("n" * 90, "0.1234"),)), 100)[-1] == "n" * 90 + "  0.1234"
    lines = shown(Table("T", ("system", *"abcdefg"), (("sparse_mlm(model=m)@impact", *("0.1234",) * 7),)), 78)
    assert [line.split()[0] for line in lines[3:]] == ["sparse_mlm(model=m)", "@impact"]


def test_noisy_timings_have_four_lines_of_notes():
    """However many systems, processes and reasons there are, a table of latencies has at most four lines of notes."""
    latency = Latency(p50=0.01, mean=0.01)
    facts = {
        "flags": ["noisy"], "first_pass": {"e2e": Latency(p50=0.02, mean=0.02)},
        "stages": dict.fromkeys(("encode_query", "search", "e2e"), latency),
    }  # fmt: skip
    noisy = [
        samples.timing(
            100 + at,
            notes=[f"the load was {at}.{number} on 2 cores" for number in range(6)],
            qps_range={"e2e": (90, 110 + at)},
            **facts,
        )
        for at in range(4)
    ]
    (latencies,) = timing_tables([result(f"system{at}", timings=[one]) for at, one in enumerate(noisy)])

    assert len(latencies.notes) == 4
    assert "system3: 90 to 113 e2e QPS over 1; the first pass takes up to 2 times a later one (system0)" in latencies.notes[1]
    assert latencies.notes[2] == (
        "system0: the load was 0.0 on 2 cores and 5 more reasons, system1: the load was 1.0 on 2 cores and 5 more reasons "
        "and 2 more; noisy: not ranked; all reasons: --json"
    )


def test_the_smallest_p_is_a_bound():
    """10,000 resamples cannot show less than 1/10,001, so that is ≤ .0001; corrected for three tests it is ≤ .0003."""
    assert [p_text(p) for p in (1 / 10_001, 0.0001, 0.00011, 0.5)] == ["≤ 0.0001", "≤ 0.0001", "0.0001", "0.5000"]
    assert p_text(3 / 10_001, 1 / 10_001) == "≤ 0.0003"
    assert p_text(0.0003, 0.0002) == "0.0003"
