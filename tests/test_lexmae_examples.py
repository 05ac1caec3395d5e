"""Examples of fine-tuning: pairs of a query and a relevant document, with negatives drawn anew each time."""

from collections import Counter
from itertools import chain

import numpy as np
import pytest
from fruit import ids, write

from lexbench.errors import CannotStart
from lexbench.lexmae.data.training_sets import Examples, Lists, Source, open_training_set
from lexbench.progress import Silent
from lexbench.storage.store import Store

MINED = {"qa": ["a4", "a2", "a1"], "qf": ["a1"], "qp": []}


def source(path, mined=MINED, left_out=frozenset()):
    """Return the fruit folder as a training set, with mined negatives."""
    one = open_training_set(str(write(path)), Store(path.parent / "store"), Silent())
    code = {doc_id.decode(): position for position, doc_id in enumerate(one.corpus.doc_ids)}
    lists = [[code[name] for name in mined[query.query_id]] for query in one.queries]
    offsets = np.concatenate(([0], np.cumsum([len(docs) for docs in lists])))
    return Source(one, Lists(offsets, np.array(list(chain(*lists)), np.int32)), left_out)


def drawn(examples, index, negatives=2, seed=0):
    """Return an example with ids instead of positions."""
    found = examples.draw(index, np.random.default_rng(seed), negatives)
    one = examples.sources[found.source].training_set
    return one.queries[found.query].query_id, ids(one.corpus, [found.positive])[0], ids(one.corpus, found.negatives)


def test_an_example_for_each_relevant_document(tmp_path):
    """Each relevant document of a query with negatives makes one example; qp has no negatives."""
    examples = Examples([source(tmp_path / "fruit")], 3)

    assert Counter(drawn(examples, index)[:2] for index in range(len(examples))) == Counter(
        [("qa", "a3"), ("qf", "a2"), ("qf", "a4")]
    )


def test_an_example_for_each_query(tmp_path):
    """With one example per query the relevant document is drawn, each about equally often."""
    examples = Examples([source(tmp_path / "fruit")], 3, "one_per_query")
    assert len(examples) == 2
    rng = np.random.default_rng(0)
    found = Counter(examples.draw(1, rng, 1).positive for _ in range(1000))
    corpus = examples.sources[0].training_set.corpus

    assert set(ids(corpus, found)) == {"a2", "a4"}
    assert min(found.values()) > 450  # 3 standard deviations of a fair draw are 47


def test_negatives_are_drawn_without_replacement(tmp_path):
    """Two of three negatives are never the same, and all ordered pairs are about equally frequent."""
    examples = Examples([source(tmp_path / "fruit")], 3)
    rng = np.random.default_rng(0)
    found = Counter(tuple(examples.draw(0, rng, 2).negatives.tolist()) for _ in range(1200))

    assert len(found) == 6
    assert min(found.values()) > 160  # 200 expected, 3 standard deviations are 39
    assert all(len(set(pair)) == 2 for pair in found)


def test_too_few_negatives_are_repeated(tmp_path):
    """A query with too few negatives repeats each about equally often."""
    examples = Examples([source(tmp_path / "fruit")], 3)

    assert sorted(Counter(drawn(examples, 0, 7)[2]).values()) == [2, 2, 3]
    first = drawn(examples, 0, 7)[2]
    assert first[:3] == first[3:6]
    assert drawn(examples, 1, 4)[2] == ["a1"] * 4


def test_depth_bounds_what_is_drawn(tmp_path):
    """Negatives come from the first *depth* documents of a query's list."""
    shallow, deep = (Examples([source(tmp_path / "fruit")], depth) for depth in (2, 3))

    assert {name for seed in range(50) for name in drawn(shallow, 0, 1, seed)[2]} == {"a4", "a2"}
    assert {name for seed in range(50) for name in drawn(deep, 0, 1, seed)[2]} == {"a4", "a2", "a1"}


def test_held_out_queries_are_never_trained_on(tmp_path):
    """Left-out queries make no example with either kind of pairs; if all are left out, training is refused."""
    for pairs, count in (("all", 1), ("one_per_query", 1)):
        examples = Examples([source(tmp_path / "fruit", left_out={"qf"})], 3, pairs)
        assert len(examples) == count
        assert drawn(examples, 0)[0] == "qa"

    with pytest.raises(CannotStart, match="every query of fruit is held out or has no negatives"):
        Examples([source(tmp_path / "fruit", left_out={"qf", "qa"})], 3)


def test_several_training_sets_follow_each_other(tmp_path):
    """Examples of several sets form one sequence and know their set, also after an empty set."""
    none = source(tmp_path / "none", dict.fromkeys(MINED, ()))
    first, second = source(tmp_path / "one"), source(tmp_path / "two", left_out={"qf"})
    examples = Examples([first, none, second], 3)

    assert [examples.draw(index, np.random.default_rng(0), 1).source for index in range(len(examples))] == [0, 0, 0, 2]
    assert drawn(examples, 3)[:2] == ("qa", "a3")


def test_negatives_are_drawn_from_every_part_of_a_list(tmp_path):
    """With a boundary at rank 1, one of two negatives is the best one and the other below it; short lists have fewer parts."""
    examples = Examples([source(tmp_path / "fruit")], 3, strata=[1])
    seconds = set()
    for seed in range(20):
        first, second = drawn(examples, 0, 2, seed)[2]
        assert first == "a4"
        seconds.add(second)
    assert seconds == {"a2", "a1"}
    short = Examples([source(tmp_path / "short", {"qa": ["a1"], "qf": [], "qp": []})], 3, strata=[2, 8])
    assert drawn(short, 0, 3)[2] == ["a1"] * 3
