"""The tables of a run."""

import pytest
import samples

from lexbench.report.run import tables
from lexbench.results import Vectors, Work


def result(system, dataset="d/test", mean=0.5, **facts):
    """Make a result with one query."""
    return samples.result(system, [mean], dataset, 100, **facts)


def sparse(system, dataset="d/test", **facts):
    """Make the result of a sparse system: 2.5 terms per document, 40 postings per query, an index of 1,000 bytes."""
    vectors = Vectors(terms={"mean": 2.5}, bytes_per_document=7.5, **facts)
    work = Work(query_terms={"mean": 4.0}, postings={"mean": 40.0}, flops=0.4)
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
    """One note counts the known issues of the datasets and says where to read them."""
    results = [result("bm25", name) for name in ("beir/arguana", "bread/test", "beir/webis-touche2020/v2")]
    notes = tables(results, None)[0].notes

    assert notes[-1] == "known data issues: beir/arguana 2, beir/webis-touche2020/v2 3; see: lexbench show dataset NAME"
    assert (
        tables(results[:1], None)[0].notes[-1]
        == "beir/arguana has 2 known data issues; see: lexbench show dataset beir/arguana"
    )
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
