"""Training sets: queries, relevant documents, corpora that stay on disk, and examples with negatives drawn anew each time."""

import pickle
import random
import shutil
from collections import Counter
from itertools import chain

import numpy as np
import pytest
import tiny
import tiny_recipes
from fruit import ids, write

from lexbench.analysis.seen_in_training import SimilarQueries
from lexbench.artifacts.graph import Graph
from lexbench.contracts import contract_of
from lexbench.datasets.location import find_source
from lexbench.errors import CannotStart, InvalidFile, MissingData, UnknownName
from lexbench.lexmae.data import collections, negatives
from lexbench.lexmae.data.tokens import TextReader
from lexbench.lexmae.data.training_sets import (
    DocumentLists,
    Examples,
    MinedSet,
    open_corpus,
    open_texts,
    open_training_set,
)
from lexbench.lexmae.recipe.settings import Encoding
from lexbench.models.loading import load_tokenizer
from lexbench.storage.store import Store
from lexbench.testing.executors import RecordedProgress

TESTED = ["Vitamin D raises the level of calcium in blood", "statins", "what is a decorator?"]


def opened(path, store):
    """Return the training set at a path."""
    return open_training_set(str(path), Graph(store))


def positives(found):
    """Return the ids of the relevant documents by query id."""
    return {query.query_id: set(ids(found.corpus, found.positives[at])) for at, query in enumerate(found.queries)}


def test_only_queries_with_a_relevant_document_are_trained_on(tmp_path, store):
    """Queries without a relevant document in the corpus are left out; the set can be pickled for workers that load data."""
    found = opened(write(tmp_path / "fruit"), store)

    assert positives(found) == {"qa": {"a3"}, "qf": {"a2", "a4"}, "qp": {"p1", "p2"}}
    assert [query.text for query in found.queries] == ["apple", "fig", "pear"]
    assert found.positives.lengths.tolist() == [1, 2, 2]
    assert found.contract.id == "fruit"
    assert positives(pickle.loads(pickle.dumps(found))) == positives(found)


def test_relevance_starts_at_the_grade_of_the_contract(store):
    """The contract of pydoc says 2, so documents of grade 1 are not positives."""
    found = open_training_set("pydoc/dev", Graph(store))
    grades = {(row.query_id, row.doc_id): row.grade for row in found.dataset.topics.judgements}

    taken = [grades[query, document] for query, documents in positives(found).items() for document in documents]
    assert min(taken) == 2
    there = set(found.corpus.doc_ids.astype(str).tolist())
    assert len(taken) == sum(grade >= 2 and document in there for (_, document), grade in grades.items())
    assert 1 in grades.values()


def test_the_test_split_must_be_named(tmp_path, store):
    """A folder is opened at `train`; without it, only at named qrels or at the only ones if they are not `test`."""
    path = write(tmp_path / "fruit")
    qrels = path / "qrels"
    write(path, [("qa", "a1", 1)], "test")
    assert positives(opened(path, store))["qa"] == {"a3"}
    assert positives(opened(qrels / "test.tsv", store)) == {"qa": {"a1"}}

    (qrels / "train.tsv").rename(qrels / "dev.tsv")
    with pytest.raises(InvalidFile, match=r"has no qrels/train.tsv to train on; .*dev.tsv, .*test.tsv"):
        opened(path, store)
    (qrels / "dev.tsv").rename(tmp_path / "dev.tsv")
    with pytest.raises(InvalidFile, match=r"has no qrels/train.tsv to train on; .*test.tsv"):
        opened(path, store)
    (qrels / "test.tsv").unlink()
    (tmp_path / "dev.tsv").rename(qrels / "dev.tsv")
    assert positives(opened(path, store))["qa"] == {"a3"}


def test_nothing_relevant(tmp_path, store):
    """A set without a relevant document in its corpus, and a folder without a corpus, are refused."""
    with pytest.raises(CannotStart, match=r"no query of .*fruit has a relevant document in its corpus"):
        opened(write(tmp_path / "fruit", [("qa", "a3", 0), ("qz", "gone", 1)]), store)
    with pytest.raises(MissingData, match=r"has no documents: there is no corpus\.jsonl in"):
        open_corpus(str(tmp_path), Graph(store))


def test_corpus_without_queries(tmp_path, store):
    """Pretraining only needs a corpus, also one folder up; with and without queries it is the same stored corpus."""
    whole = write(tmp_path / "fruit")
    alone = tmp_path / "shared" / "alone"
    alone.mkdir(parents=True)
    shutil.copy(whole / "corpus.jsonl", alone.parent)
    corpora = [open_corpus(str(path), Graph(store)) for path in (alone, whole, whole / "qrels" / "train.tsv")]

    assert {corpus.path for corpus in corpora} == {opened(whole, store).corpus.path}
    assert ids(corpora[0], range(6)) == ["p2", "p1", "a4", "a3", "a2", "a1"]
    assert next(corpora[0].documents(5)).text == "apple fig fig fig"


@pytest.mark.slow
def test_nfcorpus(real_home, monkeypatch, tmp_path):
    """NFCorpus has 2,590 training queries and 110,575 relevant documents; PLAIN-812 has the most, 1,363.

    Five queries with 97 relevant documents share four fifths of the words with a query of its test set, e.g. "EPIC Study".
    """
    monkeypatch.setenv("IR_DATASETS_HOME", str(real_home))
    found = open_training_set("beir/nfcorpus/train", Graph(Store(tmp_path)))

    assert (len(found.queries), len(found.positives.docs), len(found.corpus)) == (2590 - 5, 110_575 - 97, 3633)
    most = int(np.argmax(found.positives.lengths))
    assert (found.queries[most].query_id, found.positives.lengths[most]) == ("PLAIN-812", 1363)
    rows = {row.doc_id for row in found.dataset.topics.judgements if row.query_id == "PLAIN-812"}
    assert set(ids(found.corpus, found.positives[most])) == rows


NEAR = ["vitamin d raises the level of calcium in blood!", "Vitamin D lowers the level of calcium in blood", "Statins"]
FAR = ["Vitamin D lowers the level of calcium in urine", "calcium in blood", "statins and cancer", "what is a list?", "", "?"]


@pytest.mark.parametrize(("texts", "near"), [(NEAR, True), (FAR, False)])
def test_queries_of_nearly_the_same_words(texts, near):
    """Two queries are nearly the same if four fifths of their words are in both: 8 of 10 are, 7 of 11 are not.

    The opposite of a claim counts as nearly the same, because it has the same relevant documents.
    """
    similar = SimilarQueries([*TESTED, ""])
    assert [similar.has_similar(text) for text in texts] == [near] * len(texts)


def test_similar_queries_are_those_of_the_definition():
    """The index of rare words finds what comparing with every query finds, for queries of 1 to 14 words."""
    rng = random.Random(1)
    tested = [" ".join(rng.choices("abcdefghijklmnop", k=rng.randrange(1, 15))) for _ in range(300)]
    asked = [" ".join([*text.split()[rng.randrange(3) :], *rng.choices("abcxyz", k=rng.randrange(3))]) for text in tested]
    sets = [set(text.split()) for text in tested]
    similar, found = SimilarQueries(tested), []
    for text in asked:
        words = set(text.split())
        expected = any(len(words & other) >= 0.8 * len(words | other) for other in sets if words)
        found.append(expected)
        assert similar.has_similar(text) == expected, text
    assert 50 < sum(found) < 250


def test_the_store_keeps_which_queries_are_nearly_tested(tmp_path, store, monkeypatch):
    """The second of three openings compares no query; with other test queries they are compared again."""
    path, asked = write(tmp_path / "fruit"), []
    for texts in (["apple pie"], ["apple pie"], ["apple"]):
        index = SimilarQueries(texts)
        monkeypatch.setattr(collections, "tested_queries", lambda index=index: index)
        monkeypatch.setattr(index, "has_similar", lambda text, real=index.has_similar: asked.append(text) or real(text))
        queries = [query.text for query in opened(path, store).queries]
    once = asked[: len(asked) // 2]
    assert {"apple", "fig", "pear"} <= set(once)
    assert asked == once * 2
    assert queries == ["fig", "pear"]


def test_a_tested_query_is_left_out_of_training(tmp_path, store):
    """Queries that are nearly test queries are left out with a note; a set of them alone is refused."""
    tested = next(iter(find_source(contract_of("pydoc/test")).queries())).text
    texts = {"q1": tested.upper() + " ?", "q2": "a question that nobody asks of bread", "q3": "another about flour and salt"}
    judged = [(query_id, "d1", 1) for query_id in texts]
    folder = tiny.write(tmp_path / "asked", {"d1": "a text"}, texts, judged, "train")
    progress = RecordedProgress()
    training_set = open_training_set(str(folder), Graph(store, progress))
    assert [query.query_id for query in training_set.queries] == ["q2", "q3"]
    assert training_set.positives.lengths.tolist() == [1, 1]
    assert any("1 of 3 queries are left out: nearly the same as test queries" in note for note in progress.notes)
    with pytest.raises(CannotStart, match="nearly the same as a test query"):
        opened(tiny.write(folder, {"d1": "a text"}, texts, judged[:1], "train"), store)


def test_documents_that_a_test_judges_are_left_out(store, bert):
    """No positive, negative, or text to pretrain on is judged in a dataset of leave_out that searches the same corpus."""
    judged = {row.doc_id for row in find_source(contract_of("pydoc/test")).judgements()}
    progress = RecordedProgress()
    whole = open_training_set("pydoc/dev", Graph(store))
    found = open_training_set("pydoc/dev", Graph(store, progress), ["pydoc/test", "cranfield"])
    names = {query: set(docs) for query, docs in positives(found).items()}
    left_out = ids(found.corpus, found.left_out)

    assert set(left_out) == judged & set(found.corpus.doc_ids.astype(str))
    assert any(docs & judged for docs in positives(whole).values())
    assert names == {query: kept for query, docs in positives(whole).items() if (kept := docs - judged)}
    assert any(f"{len(left_out):,} documents are left out: judged in" in note for note in progress.notes)
    stage = tiny_recipes.stage(steps=1, queries=("pydoc/dev",), depth=20)
    asked = tiny_recipes.recipe(stage1=stage, leave_out=("pydoc/test",))
    mined = [
        set(ids(found.corpus, negatives.read(negatives.mine(one, 1, Graph(Store()))[0]).docs))
        for one in (
            tiny_recipes.recipe(output="whole", stage1=stage),
            asked,
        )
    ]
    assert mined[0] & judged
    assert mined[1]
    assert not mined[1] & judged

    reader = TextReader(load_tokenizer(bert), Encoding(titles="off", document_length=8))
    (texts,) = open_texts(["pydoc/dev"], ["pydoc/test"], reader, Graph(store))
    kept = [position for position in range(len(found.corpus)) if position not in set(found.left_out.tolist())]
    tokens = reader.corpus(found.corpus, Graph(store))
    assert len(texts) == len(texts.lengths) == len(kept)
    assert all((texts[at] == tokens[position]).all() for at, position in enumerate(kept))


def test_judgements_of_the_same_corpus_are_needed(tmp_path, monkeypatch):
    """leave_out needs the judgements of datasets with the trained corpus. Those of the untitled passages serve the titled."""
    tiny.enter(tmp_path, monkeypatch)
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("LEXBENCH_DATA", str(tmp_path))
    titled, names = contract_of("msmarco-passage-titled/train/judged"), ["msmarco-passage-titled/trec-dl-2019/judged"]
    collections.check_left_out(contract_of("cranfield"), names)
    with pytest.raises(
        MissingData, match=r"^leave_out: msmarco-passage-titled/trec-dl-2019/judged is not here.*leave_out=\[\]"
    ):
        collections.check_left_out(titled, names)
    with pytest.raises(UnknownName, match="dataset in leave_out"):
        collections.check_left_out(titled, ["msmarco-passage/dl"])
    tiny.write(tmp_path / "msmarco-passage", {"7": "a"}, {"1": "b"}, [("1", "7", 2), ("1", "8", 0)], "trec-dl-2019")
    assert collections.judged_documents(titled, names) == {"7", "8"}


MINED = {"qa": ["a4", "a2", "a1"], "qf": ["a1"], "qp": []}


def source(path, mined=MINED, left_out=frozenset()):
    """Return the fruit folder as a training set, with mined negatives."""
    one = open_training_set(str(write(path)), Graph(Store(path.parent / "store")))
    code = {doc_id.decode(): position for position, doc_id in enumerate(one.corpus.doc_ids)}
    lists = [[code[name] for name in mined[query.query_id]] for query in one.queries]
    offsets = np.concatenate(([0], np.cumsum([len(docs) for docs in lists])))
    return MinedSet(one, DocumentLists(offsets, np.array(list(chain(*lists)), np.int32)), left_out)


def drawn(examples, index, negatives=2, seed=0):
    """Return an example with ids instead of positions."""
    found = examples.draw(index, np.random.default_rng(seed), negatives)
    one = examples.sources[found.source].training_set
    return one.queries[found.query].query_id, ids(one.corpus, [found.positive])[0], ids(one.corpus, found.negatives)


@pytest.fixture
def examples(tmp_path):
    """Return the examples of the fruit folder."""
    return Examples([source(tmp_path / "fruit")], 3)


def test_an_example_for_each_relevant_document(examples):
    """Each relevant document of a query with negatives makes one example; qp has no negatives."""
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


def test_negatives_are_drawn_without_replacement(examples):
    """Two of three negatives are never the same, and all ordered pairs are about equally frequent."""
    rng = np.random.default_rng(0)
    found = Counter(tuple(examples.draw(0, rng, 2).negatives.tolist()) for _ in range(1200))

    assert len(found) == 6
    assert min(found.values()) > 160  # 200 expected, 3 standard deviations are 39
    assert all(len(set(pair)) == 2 for pair in found)


def test_too_few_negatives_are_repeated(examples):
    """A query with too few negatives repeats each about equally often."""
    assert sorted(Counter(drawn(examples, 0, 7)[2]).values()) == [2, 2, 3]
    first = drawn(examples, 0, 7)[2]
    assert first[:3] == first[3:6]
    assert drawn(examples, 1, 4)[2] == ["a1"] * 4


@pytest.mark.parametrize(("depth", "expected"), [(2, {"a4", "a2"}), (3, {"a4", "a2", "a1"})])
def test_depth_bounds_what_is_drawn(tmp_path, depth, expected):
    """Negatives come from the first *depth* documents of a query's list."""
    examples = Examples([source(tmp_path / "fruit")], depth)
    assert {name for seed in range(50) for name in drawn(examples, 0, 1, seed)[2]} == expected


@pytest.mark.parametrize("pairs", ["all", "one_per_query"])
def test_held_out_queries_are_never_trained_on(tmp_path, pairs):
    """Left-out queries make no example; if all are left out, training is refused."""
    examples = Examples([source(tmp_path / "fruit", left_out={"qf"})], 3, pairs)
    assert [drawn(examples, index)[0] for index in range(len(examples))] == ["qa"]
    with pytest.raises(CannotStart, match="every query of fruit is held out or has no negatives"):
        Examples([source(tmp_path / "fruit", left_out={"qf", "qa"})], 3)


def test_several_training_sets_follow_each_other(tmp_path):
    """Examples of several sets form one sequence and know their set, also after an empty set."""
    none = source(tmp_path / "none", dict.fromkeys(MINED, ()))
    first, second = source(tmp_path / "one"), source(tmp_path / "two", left_out={"qf"})
    examples = Examples([first, none, second], 3)

    assert [examples.draw(index, np.random.default_rng(0), 1).source for index in range(len(examples))] == [0, 0, 0, 2]
    assert drawn(examples, 3)[:2] == ("qa", "a3")
