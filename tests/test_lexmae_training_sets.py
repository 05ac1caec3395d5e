"""What a model is trained on: queries, what is relevant to them, and corpora that stay on disk."""

import pickle
import shutil

import numpy as np
import pytest
from fruit import ids, write

from lexbench.errors import CannotStart, InvalidFile, MissingData, UnknownName
from lexbench.lexmae.data.training_sets import open_corpus, open_training_set, search
from lexbench.progress import Silent
from lexbench.runner.systems import system
from lexbench.storage.store import Store


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
    """Documents of grade 0 or that the corpus lacks are not relevant; queries that have no other are left out."""
    found = opened(write(tmp_path / "fruit"), kept)

    assert positives(found) == {"qa": {"a3"}, "qf": {"a2", "a4"}, "qp": {"p1", "p2"}}
    assert [query.text for query in found.queries] == ["apple", "fig", "pear"]
    assert found.positives.lengths.tolist() == [1, 2, 2]
    assert found.contract.id == "fruit"


def test_a_contract_says_from_which_grade_a_document_is_relevant(kept):
    """Of pydoc, whose contract says 2, documents of grade 1 are no positives."""
    found = open_training_set("pydoc/dev", kept, Silent())
    grades = {(row.query_id, row.doc_id): row.grade for row in found.dataset.topics.judgements}

    taken = [grades[query, document] for query, documents in positives(found).items() for document in documents]
    assert min(taken) == 2
    there = set(found.corpus.doc_ids.astype(str).tolist())
    assert len(taken) == sum(grade >= 2 and document in there for (_, document), grade in grades.items())
    assert 1 in grades.values()


def test_training_never_takes_the_test_split_unasked(tmp_path, kept):
    """Of a folder `train` is taken; of one without it, only qrels that are named, or the only ones if they are not `test`."""
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
    """A set without a single relevant document in its corpus is refused."""
    with pytest.raises(CannotStart, match=r"no query of .*fruit has a relevant document in its corpus"):
        opened(write(tmp_path / "fruit", [("qa", "a3", 0), ("qz", "gone", 1)]), kept)


def test_no_such_dataset(kept):
    """A name that is neither an id nor a path is answered with near ones."""
    with pytest.raises(UnknownName, match="beir/nfcorpus/train"):
        open_training_set("beir/nfcorpus/trian", kept, Silent())
    with pytest.raises(UnknownName, match="beir/nfcorpus/train"):
        open_corpus("beir/nfcorpus/trian", kept, Silent())


def test_corpus_without_queries(tmp_path, kept):
    """A folder that has a corpus alone will do for pretraining, and gives the same stored corpus as one that has all."""
    whole = write(tmp_path / "fruit")
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(whole / "corpus.jsonl", alone)
    corpora = [open_corpus(str(path), kept, Silent()) for path in (alone, whole, whole / "qrels" / "train.tsv")]

    assert {corpus.path for corpus in corpora} == {opened(whole, kept).corpus.path}
    assert ids(corpora[0], range(6)) == ["p2", "p1", "a4", "a3", "a2", "a1"]
    assert corpora[0].text(5) == "apple fig fig fig"


def test_folder_without_corpus(tmp_path, kept):
    """A folder without a corpus is refused."""
    with pytest.raises(MissingData, match="has no corpus: neither it nor"):
        open_corpus(str(tmp_path), kept, Silent())


def test_training_set_travels_to_another_process(tmp_path, kept):
    """A training set can be pickled, as workers that load data need, and is the same there."""
    found = opened(write(tmp_path / "fruit"), kept)
    assert positives(pickle.loads(pickle.dumps(found))) == positives(found)


def test_search_finds_what_the_system_finds(tmp_path, kept):
    """Searching some of the queries gives their documents in the system's order, as corpus positions, to the depth."""
    found = opened(write(tmp_path / "fruit"), kept)
    run = search(found, found.queries[1:2], system("bm25"), 2, kept, Silent())

    assert run.query_ids == ("qf",)
    assert ids(found.corpus, run.docs) == ["a1", "a2"]


def test_nfcorpus(real_home, monkeypatch, tmp_path):
    """NFCorpus has 2,590 training queries and 110,575 relevant documents; query PLAIN-812 has the most, 1,363."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(real_home))
    found = open_training_set("beir/nfcorpus/train", Store(tmp_path), Silent())

    assert (len(found.queries), len(found.positives.docs), len(found.corpus)) == (2590, 110_575, 3633)
    most = int(np.argmax(found.positives.lengths))
    assert (found.queries[most].query_id, found.positives.lengths[most]) == ("PLAIN-812", 1363)
    rows = {row.doc_id for row in found.dataset.topics.judgements if row.query_id == "PLAIN-812"}
    assert set(ids(found.corpus, found.positives[most])) == rows
