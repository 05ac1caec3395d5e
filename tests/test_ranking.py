"""Runs: one canonical order, strictly decreasing scores on export, self-matches, cuts; qrels and their digest."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lexbench.errors import LexbenchError
from lexbench.trec.ids import encode, factorize, lookup
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run, strictly_decreasing, without_self_matches
from lexbench.types import Hits, Judgement

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2.0**100), max_value=2.0**100)
IDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)


def listed(run):
    """Return {query: [(document, score), …]} in the run's order."""
    ids = [one.decode() for one in run.table[run.docs].tolist()]
    pairs = list(zip(ids, run.scores.tolist(), strict=True))
    return {query: pairs[run.offsets[i] : run.offsets[i + 1]] for i, query in enumerate(run.query_ids)}


def test_order_is_score_then_id_both_descending():
    """Equal scores are ordered by document id in descending byte order, so "9" comes before "10", and "é" before "z".

    Queries keep the order of their first entry, and may be interleaved.
    """
    run = Run.from_entries(["q", "b", *["q"] * 5, "b"], ["10", "x", "9", "z", "é", "a", "b", "y"], [1, 1, 1, 1, 1, 2, 0.5, 2])
    again = Run.from_entries(["q"] * 6, ["z", "10", "é", "b", "9", "a"], [1, 1, 1, 0.5, 1, 2])

    assert [doc for doc, _ in listed(run)["q"]] == ["a", "é", "z", "9", "10", "b"]
    assert listed(again)["q"] == listed(run)["q"]  # whatever the order of the entries
    assert listed(run)["b"] == [("y", 2.0), ("x", 1.0)]
    assert run.query_ids == ("q", "b")


@pytest.mark.parametrize("precision", ["double", "float32"])
def test_minus_zero_ties_with_zero(precision):
    """-0.0 equals 0.0, so the document id decides, and 0.0 is stored."""
    run = Run.from_entries(["q", "q"], ["a", "b"], [0.0, -0.0], precision)

    assert [doc for doc, _ in listed(run)["q"]] == ["b", "a"]
    assert not np.signbit(run.scores).any()


def test_hits_become_a_run_without_the_places_that_hold_no_document():
    """-1 is no document, and a query for which nothing was found has an empty list."""
    hits = Hits(
        np.array([[2, 0, -1], [-1, -1, -1], [1, -1, -1]], np.int32), np.array([[1, 3, 0], [0, 0, 0], [7, 0, 0]], np.float32)
    )
    run = Run.from_hits(["q1", "q2", "q3"], hits, np.array([b"c", b"b", b"a"]))

    assert listed(run) == {"q1": [("c", 3.0), ("a", 1.0)], "q2": [], "q3": [("b", 7.0)]}
    assert run.ranks.tolist() == [1, 2, 1]


@pytest.mark.parametrize(
    ("docs", "scores", "said"),
    [
        ((1, 2), (2, 2), "hits of 2 queries"),
        ((2, 2), (2, 3), "hits of 2 queries"),
        ((4,), (4,), "hits of 2 queries"),
        ((2, 1), (2, 1), "position 1 in a corpus of 1"),
    ],
)
def test_impossible_hits_are_refused(docs, scores, said):
    """Hits are two arrays of one shape with a row a query, and of positions that the corpus has."""
    with pytest.raises(ValueError, match=said):
        Run.from_hits(["a", "b"], Hits(np.ones(docs, np.int32), np.zeros(scores, np.float32)), np.array([b"x"]))


@pytest.mark.parametrize("score", [float("nan"), float("inf"), -float("inf"), 1e39])
def test_a_score_that_is_no_finite_float32_is_an_error_that_names_its_place(score):
    """NaN would sort anywhere, and infinity cannot be exported strictly decreasing."""
    with pytest.raises(LexbenchError, match="document 'd2' of query 'q2' has a score that is not a finite float32 number"):
        Run.from_entries(["q1", "q2", "q2"], ["d1", "d1", "d2"], [1.0, 1.0, score])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), st.sampled_from([0.0, 1.0, 2.5, -1.0]) | FLOATS), max_size=60))
def test_strictly_decreasing_is_what_nextafter_would_do(entries):
    """The vectorised code equals a loop over nextafter, for any run; the lowest float32 number has none below it."""
    unique = {(query, doc): score for query, doc, score in entries}
    run = Run.from_entries([f"q{q}" for q, _ in unique], [f"d{d}" for _, d in unique], list(unique.values()))
    expected = []
    for start, stop in zip(run.offsets[:-1], run.offsets[1:], strict=True):
        last = np.float32(np.inf)
        for score in run.scores[start:stop]:
            last = min(score, np.nextafter(last, np.float32(-np.inf), dtype=np.float32))
            expected.append(last)

    assert np.array_equal(np.array(expected, np.float32), strictly_decreasing(run.offsets, run.scores))
    with pytest.raises(LexbenchError, match="lowest float32"):
        strictly_decreasing(np.array([0, 2]), np.array([np.finfo(np.float32).min] * 2))
    for start, stop in zip(run.offsets[:-1], run.offsets[1:], strict=True):
        assert sorted(zip(-run.scores[start:stop], run.docs[start:stop], strict=True)) == list(
            zip(-run.scores[start:stop], run.docs[start:stop], strict=True)
        )


def test_self_matches_are_dropped_and_counted_before_the_cut():
    """Searched one deeper, a list still has *depth* documents after its query's own document is gone."""
    run = Run.from_entries(["1", "1", "1", "2", "2"], ["1", "x", "y", "x", "1"], [3, 2, 1, 2, 1])
    filtered = without_self_matches(run, 2)

    assert listed(filtered.run) == {"1": [("x", 2.0), ("y", 1.0)], "2": [("x", 2.0), ("1", 1.0)]}
    assert filtered.dropped == 1


def test_cut_keeps_the_first_of_each_list():
    """A list that is shorter stays as it is, and ranks still start at 1."""
    run = Run.from_entries(["a", "a", "a", "b"], ["x", "y", "z", "x"], [1, 2, 3, 4]).cut(2)

    assert listed(run) == {"a": [("z", 3.0), ("y", 2.0)], "b": [("x", 4.0)]}
    assert run.ranks.tolist() == [1, 2, 1]


@given(st.lists(IDS, max_size=50))
def test_factorize_gives_the_ids_back_in_descending_order(ids):
    """Codes are places in a table that is unique and descends in byte order, for ids of any length and script."""
    table, codes = factorize(encode(ids))

    assert [one.encode() for one in ids] == table[codes].tolist()
    assert sorted({one.encode() for one in ids}, reverse=True) == table.tolist()


@given(st.lists(IDS, max_size=50, unique=True), st.lists(IDS, max_size=50))
def test_lookup_finds_what_is_there_and_nothing_else(table, ids):
    """An id that is longer than any in the table is not there, even if it begins like one that is."""
    descending = np.array(sorted((one.encode() for one in table), reverse=True), dtype=np.bytes_)
    wanted = encode([*ids, *table, *(one + "x" for one in table)])
    expected = [descending.tolist().index(one) if one in descending.tolist() else -1 for one in wanted.tolist()]

    assert expected == lookup(descending, wanted).tolist()


def test_judgements_are_sorted_and_repeats_count_once():
    """Queries and documents ascend, and a repeated judgement counts once."""
    qrels = Qrels.from_judgements(
        [Judgement("b", "y", 2), Judgement("b", "x", -1), Judgement("a", "z", 0), Judgement("b", "y", 2)]
    )

    assert list(qrels.judgements()) == [("a", "z", 0), ("b", "x", -1), ("b", "y", 2)]
    assert len(qrels) == 3
