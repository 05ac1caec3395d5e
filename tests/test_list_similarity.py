"""Similarity of ranked lists: overlap and rank-biased overlap, compared with another implementation and the paper."""

import numpy as np
import pytest
from tiny import answer, ended

from lexbench.analysis.list_similarity import list_similarities, rbo
from lexbench.trec.runs import Run


def letters(text):
    """Return a list of documents, one per letter."""
    return np.array([ord(letter) for letter in text], np.int64)


# rbo 0.1.3 of PyPI, `RankingSimilarity(list(one), list(two)).rbo_ext(p)`
@pytest.mark.parametrize(
    ("one", "two", "p", "expected"),
    [
        ("abcde", "bacfg", 0.9, 0.619335),
        ("abcde", "abcde", 0.9, 1.0),
        ("abcdefgh", "fdab", 0.9, 0.6509706267857143),
        ("abc", "xyz", 0.8, 0.0),
        ("abcdefg", "gfed", 0.98, 0.6246603459413334),
        ("ab", "b", 0.5, 0.25),
    ],
)
def test_extrapolated_rbo_is_that_of_another_implementation(one, two, p, expected):
    """For lists of equal and different length, equal, reversed and disjoint, in both orders."""
    assert rbo(letters(one), letters(two), p) == pytest.approx(expected, abs=1e-12)
    assert rbo(letters(two), letters(one), p) == pytest.approx(expected, abs=1e-12)


def run(**lists):
    """Make a run from lists of documents, one letter each, best first."""
    entries = [(query, doc, -rank) for query, docs in lists.items() for rank, doc in enumerate(docs)]
    return Run.from_entries(*map(list, zip(*entries, strict=True)))


def test_overlap_is_a_mean_over_the_queries_of_either():
    """By hand: q1 shares two of three documents, q2 is equal, and q3 and q4 have only one list, which counts 0."""
    first = run(q1="abc", q2="de", q3="x")
    other = run(q2="de", q1="acz", q4="y")
    (found,) = list_similarities({"first": first, "other": other}, [1, 3])

    assert (found.queries, found.one_sided) == (4, 2)
    assert found.overlaps == {1: pytest.approx(2 / 4), 3: pytest.approx((2 / 3 + 1) / 4)}
    assert found.same == {1: 0.5, 3: 0.25}
    expected = rbo(letters("abc"), letters("acz")) + 1.0
    assert found.rbo == pytest.approx(expected / 4)


def test_the_command_takes_run_files_without_judgements(tmp_path, monkeypatch, capsys):
    """Two run files are compared by their first documents."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.run").write_text("q1 Q0 d1 1 2 a\nq1 Q0 d2 2 1 a\n")
    (tmp_path / "b.run").write_text("q1 Q0 d1 1 2 b\nq1 Q0 d3 2 1 b\n")

    (found,) = answer(capsys, "compare", "--lists", "a.run", "b.run", "-k", "2", "--json")
    assert (found["overlaps"], found["same"]) == ({"2": 0.5}, {"2": 0.0})
    assert ".86 of the weight of RBO" in ended(capsys, 0, "compare", "--lists", "a.run", "b.run").out
