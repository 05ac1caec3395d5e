"""Training sets: queries, relevant documents, and corpora that stay on disk."""

import json
import pickle
import shutil

import numpy as np
import pytest
from fruit import ids, write

from lexbench.analysis.seen_in_training import SimilarQueries
from lexbench.contracts import contract_of
from lexbench.datasets.location import find_source
from lexbench.errors import CannotStart, InvalidFile, MissingData
from lexbench.lexmae.data.training_sets import open_corpus, open_training_set
from lexbench.progress import Silent
from lexbench.storage.store import Store
from lexbench.testing.executors import RecordedProgress

TESTED = ["Vitamin D raises the level of calcium in blood", "statins", "what is a decorator?"]


@pytest.fixture
def kept(tmp_path):
    """Return an empty store."""
    return Store(tmp_path / "store")


def opened(path, kept):
    """Return the training set at a path."""
    return open_training_set(str(path), kept, Silent())


def positives(found):
    """Return the ids of the relevant documents by query id."""
    return {query.query_id: set(ids(found.corpus, found.positives[at])) for at, query in enumerate(found.queries)}


def test_only_queries_with_a_relevant_document_are_trained_on(tmp_path, kept):
    """Queries without a relevant document in the corpus are left out; the set can be pickled for workers that load data."""
    found = opened(write(tmp_path / "fruit"), kept)

    assert positives(found) == {"qa": {"a3"}, "qf": {"a2", "a4"}, "qp": {"p1", "p2"}}
    assert [query.text for query in found.queries] == ["apple", "fig", "pear"]
    assert found.positives.lengths.tolist() == [1, 2, 2]
    assert found.contract.id == "fruit"
    assert positives(pickle.loads(pickle.dumps(found))) == positives(found)


def test_a_contract_says_from_which_grade_a_document_is_relevant(kept):
    """For pydoc, whose contract says 2, documents of grade 1 are not positives."""
    found = open_training_set("pydoc/dev", kept, Silent())
    grades = {(row.query_id, row.doc_id): row.grade for row in found.dataset.topics.judgements}

    taken = [grades[query, document] for query, documents in positives(found).items() for document in documents]
    assert min(taken) == 2
    there = set(found.corpus.doc_ids.astype(str).tolist())
    assert len(taken) == sum(grade >= 2 and document in there for (_, document), grade in grades.items())
    assert 1 in grades.values()


def test_training_never_takes_the_test_split_unasked(tmp_path, kept):
    """A folder is opened at `train`; without it, only at named qrels or at the only ones if they are not `test`."""
    path = write(tmp_path / "fruit")
    write(path, [("qa", "a1", 1)], "test")
    assert positives(opened(path, kept))["qa"] == {"a3"}
    assert positives(opened(path / "qrels" / "test.tsv", kept)) == {"qa": {"a1"}}

    (path / "qrels" / "train.tsv").rename(path / "qrels" / "dev.tsv")
    with pytest.raises(InvalidFile, match=r"has no qrels/train.tsv to train on; .*dev.tsv, .*test.tsv"):
        opened(path, kept)
    (path / "qrels" / "dev.tsv").rename(tmp_path / "dev.tsv")
    with pytest.raises(InvalidFile, match=r"has no qrels/train.tsv to train on; .*test.tsv"):
        opened(path, kept)
    (tmp_path / "dev.tsv").rename(path / "qrels" / "test.tsv")
    (path / "qrels" / "test.tsv").rename(path / "qrels" / "dev.tsv")
    assert positives(opened(path, kept))["qa"] == {"a3"}


def test_nothing_relevant(tmp_path, kept):
    """A set without a relevant document in its corpus, and a folder without a corpus, are refused."""
    with pytest.raises(CannotStart, match=r"no query of .*fruit has a relevant document in its corpus"):
        opened(write(tmp_path / "fruit", [("qa", "a3", 0), ("qz", "gone", 1)]), kept)
    with pytest.raises(MissingData, match="has no corpus: neither it nor"):
        open_corpus(str(tmp_path), kept, Silent())


def test_corpus_without_queries(tmp_path, kept):
    """Pretraining only needs a corpus; with and without queries it is the same stored corpus."""
    whole = write(tmp_path / "fruit")
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(whole / "corpus.jsonl", alone)
    corpora = [open_corpus(str(path), kept, Silent()) for path in (alone, whole, whole / "qrels" / "train.tsv")]

    assert {corpus.path for corpus in corpora} == {opened(whole, kept).corpus.path}
    assert ids(corpora[0], range(6)) == ["p2", "p1", "a4", "a3", "a2", "a1"]
    assert corpora[0].text(5) == "apple fig fig fig"


def test_nfcorpus(real_home, monkeypatch, tmp_path):
    """NFCorpus has 2,590 training queries and 110,575 relevant documents; PLAIN-812 has the most, 1,363."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(real_home))
    found = open_training_set("beir/nfcorpus/train", Store(tmp_path), Silent())

    assert (len(found.queries), len(found.positives.docs), len(found.corpus)) == (2590, 110_575, 3633)
    most = int(np.argmax(found.positives.lengths))
    assert (found.queries[most].query_id, found.positives.lengths[most]) == ("PLAIN-812", 1363)
    rows = {row.doc_id for row in found.dataset.topics.judgements if row.query_id == "PLAIN-812"}
    assert set(ids(found.corpus, found.positives[most])) == rows


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("vitamin d raises the level of calcium in blood!", True),
        ("Vitamin D lowers the level of calcium in blood", True),  # 8 of 10 words: the opposite claim has the same documents
        ("Vitamin D lowers the level of calcium in urine", False),  # 7 of 11
        ("calcium in blood", False),
        ("Statins", True),
        ("statins and cancer", False),
        ("what is a generator?", False),
        ("", False),
        ("?", False),
    ],
)
def test_queries_of_nearly_the_same_words(text, near):
    """Two queries are nearly the same if four fifths of their words are in both."""
    assert SimilarQueries([*TESTED, ""]).has_similar(text) == near


@pytest.fixture
def with_tested_query(tmp_path):
    """Return a collection of three queries, one of them a pydoc question in capitals."""
    tested = next(iter(find_source(contract_of("pydoc/test")).queries())).text
    texts = {
        "q1": tested.upper() + " ?",
        "q2": "a question that nobody asks of bread",
        "q3": "another one about flour and salt",
    }
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"_id": "d1", "title": "", "text": "a text"}) + "\n")
    lines = [json.dumps({"_id": query_id, "text": text}) for query_id, text in texts.items()]
    (tmp_path / "queries.jsonl").write_text("\n".join(lines) + "\n")
    judged = "".join(f"{query_id}\td1\t1\n" for query_id in texts)
    (tmp_path / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    return tmp_path


def test_a_tested_query_is_left_out_of_training(with_tested_query, tmp_path):
    """Queries that are nearly test queries are left out with a note; a set of them alone is refused."""
    progress = RecordedProgress()
    training_set = open_training_set(str(with_tested_query), Store(tmp_path / "store"), progress)
    assert [query.query_id for query in training_set.queries] == ["q2", "q3"]
    assert training_set.positives.lengths.tolist() == [1, 1]
    assert any("1 of 3 queries are left out: nearly the same as test queries" in note for note in progress.notes)
    (with_tested_query / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    with pytest.raises(CannotStart, match="nearly the same as a test query"):
        open_training_set(str(with_tested_query), Store(tmp_path / "store"), Silent())
