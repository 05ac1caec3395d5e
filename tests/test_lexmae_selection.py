"""Selecting a model by queries that no table reports and no model is trained on."""

import msgspec
import numpy as np
import pytest

pytest.importorskip("torch", reason="models are in the extra neural")

from fruit import ids, write
from tiny_recipes import recipe

from lexbench.artifacts.graph import Graph
from lexbench.errors import CannotStart, LexbenchError
from lexbench.lexmae.data.training_sets import open_training_set
from lexbench.lexmae.recipe.settings import Selection
from lexbench.lexmae.training import selection


def gathered(store, training_sets=(), seed=42, **settings):
    """Return the candidates for these settings of [selection]."""
    settings = msgspec.convert(settings, Selection)
    return selection.gather(recipe(seed=seed, selection=settings), training_sets, Graph(store))


def listed(one):
    """Return the ids of the candidates in order, by query id."""
    return {query.query_id: ids(one.corpus, row[row >= 0]) for query, row in zip(one.queries, one.docs, strict=True)}


def test_candidates_are_what_bm25_finds(tmp_path, store):
    """Candidates are BM25's documents in order, to the depth, without relevant ones that it misses."""
    dev = str(write(tmp_path / "fruit"))
    (one,) = gathered(store, datasets=[dev]).sets
    assert listed(one) == {"qa": ["a4", "a3", "a2", "a1"], "qf": ["a1", "a2", "a3"], "qp": ["p1", "p2"]}

    (one,) = gathered(store, datasets=[dev], depth=1).sets
    assert listed(one) == {"qa": ["a4"], "qf": ["a1"], "qp": ["p1"]}


def test_measure_by_hand(tmp_path, store):
    """MRR of three queries follows the scores, not BM25's order; of equal scores the larger id comes first, as in trec_eval.

    Scores that are not finite, of a model that has come apart, are an error.
    """
    found = gathered(store, datasets=[str(write(tmp_path / "fruit"))])
    scores = np.array([3, 2, 1, 0, 3, 1, 2, 9, 8], np.float32)  # qa: a4 a3 a2 a1; qf: a1 a2 a3; qp: p1 p2

    assert found.measure([scores]) == {"RR@10": pytest.approx((1 / 2 + 1 / 3 + 1) / 3), "fruit": pytest.approx(11 / 18)}
    scores[1] = 4
    assert found.measure([scores])["RR@10"] == pytest.approx((1 + 1 / 3 + 1) / 3)
    assert found.measure([np.zeros(9, np.float32)])["RR@10"] == pytest.approx((1 / 2 + 1 / 2 + 1) / 3)
    with pytest.raises(LexbenchError, match="not a finite float32 number"):
        found.measure([np.full(9, np.nan, np.float32)])


def test_the_mean_is_over_sets(tmp_path, store):
    """The mean over sets comes first; each set counts the same."""
    whole, part = write(tmp_path / "whole"), write(tmp_path / "part", [("qa", "a3", 1)])
    found = gathered(store, datasets=[str(whole), str(part)], measure="Success@1")
    values = found.measure([np.arange(9, 0, -1, dtype=np.float32), np.arange(4, dtype=np.float32)])

    assert list(values.items()) == [
        ("Success@1", pytest.approx(1 / 6)),
        ("whole", pytest.approx(1 / 3)),  # BM25's own order: qp
        ("part", 0.0),
    ]


def test_queries_that_find_nothing(tmp_path, store):
    """A query without BM25 results has no pairs and counts as missed."""
    path = write(tmp_path / "fruit", [("qa", "a3", 1), ("qz", "a4", 1)])
    text = (path / "queries.jsonl").read_text()
    (path / "queries.jsonl").write_text(text.replace('"qz", "text": "apple"', '"qz", "text": "kiwi"'))
    found = gathered(store, datasets=[str(path)])

    assert listed(found.sets[0])["qz"] == []
    assert found.measure([np.array([1, 9, 1, 1], np.float32)])["RR@10"] == 0.5


def asking(path, number):
    """Write the folder with *number* queries, each with one relevant document; return its path."""
    queries = {f"q{i}": "apple pear" for i in range(number)}
    return write(path, [(query, "a3", 1) for query in queries], queries=queries)


def test_held_out_queries(tmp_path, store):
    """A tenth of the training queries is held out, the same for one seed, and becomes the candidates' queries."""
    train = open_training_set(str(asking(tmp_path / "many", 2590)), Graph(store))
    held = selection.held_out_ids(train, 0.1, 42)
    assert 213 < len(held) < 305  # 259 expected, 3 standard deviations are 46
    assert held == selection.held_out_ids(train, 0.1, 42)
    assert held < selection.held_out_ids(train, 0.2, 42)
    assert len(held & selection.held_out_ids(train, 0.1, 43)) < len(held) / 2

    dev = str(asking(tmp_path / "dev", 300))
    settings = {"held_out": 0.1, "datasets": [dev], "queries": 20, "depth": 10}
    found, again = (gathered(store, [train], **settings) for _ in range(2))
    assert [one.name for one in found.sets] == ["dev", "many"]
    assert [len(one.queries) for one in found.sets] == [20, 20]
    assert {query.query_id for query in found.sets[1].queries} < held
    assert [one.queries for one in again.sets] == [one.queries for one in found.sets]
    assert gathered(store, [train], seed=43, **settings).sets[0].queries != found.sets[0].queries


@pytest.mark.parametrize(("share", "taken"), [(0.001, 0), (0.9999, 3)])
def test_a_share_of_no_or_all_queries_is_refused(tmp_path, store, share, taken):
    """A share that holds out no query, or all, is refused."""
    train = open_training_set(str(write(tmp_path / "fruit")), Graph(store))
    with pytest.raises(CannotStart, match=rf"held_out={share} takes {taken} of the 3 queries of fruit; give another share"):
        selection.held_out_ids(train, share, 42)
