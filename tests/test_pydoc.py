"""The embedded collection."""

from collections import Counter, defaultdict

import pytest

from lexbench.contracts import contract_of, suite_folders
from lexbench.datasets import docstrings
from lexbench.datasets.dataset import open_dataset
from lexbench.datasets.sources.pydoc import Pydoc

DEV, TEST = contract_of("pydoc/dev"), contract_of("pydoc/test")
FOLDER = suite_folders()[0] / "pydoc"
LISTED = dict(line.split() for line in (FOLDER / "corpus.tsv").read_text(encoding="utf-8").splitlines())


@pytest.fixture(scope="module", params=[DEV, TEST], ids=["dev", "test"])
def dataset(request):
    """Open one split; raises if it differs from its contract."""
    return open_dataset(request.param)


def test_the_splits_are_as_large_as_promised():
    """There are 50 questions to tune on and 115 to test with, and no question is in both."""
    dev, test = ({query.text for query in open_dataset(contract).queries} for contract in (DEV, TEST))

    assert (len(dev), len(test)) == (50, 115)
    assert dev.isdisjoint(test)


def test_every_question_has_an_answer(dataset):
    """Each question has a document of grade 3; most have three or more of grade 2 or better, all in the corpus.

    A question holds no dotted name, and no full name of a document of grade 3 that is not an ordinary word.
    """
    grades = defaultdict(list)
    for row in dataset.topics.judgements:
        grades[row.query_id].append(row.grade)
    useful = Counter(min(sum(grade >= 2 for grade in found), 3) for found in grades.values())

    assert all(max(found) == 3 for found in grades.values())
    assert useful[3] >= 0.75 * len(grades)
    assert {row.doc_id for row in dataset.topics.judgements} <= LISTED.keys()
    texts = {query.query_id: query.text for query in dataset.queries}
    best = [(row.query_id, row.doc_id) for row in dataset.topics.judgements if row.grade == 3]

    assert not [doc_id for query_id, doc_id in best if "." in doc_id and doc_id in texts[query_id]]
    assert not [doc_id for query_id, doc_id in best if "_" in doc_id and doc_id.rpartition(".")[2] in texts[query_id].split()]


def test_documents_are_those_of_the_list(monkeypatch):
    """Documents with the listed text come by id. A note counts missing and different ones and names the version of Python."""
    here = {"len": "len Return it.", "abs": "abs Return |x|.", "os.path.join": "os.path.join Join.", "new": "new"}
    listed = {name: docstrings.digest(text) for name, text in here.items() if name != "new"}
    monkeypatch.setattr(docstrings, "collect", lambda: iter(here.items()))
    whole, other = Pydoc(TEST), Pydoc(TEST)
    whole.__dict__["_listed"] = listed
    other.__dict__["_listed"] = listed | {"os.path.join": "0" * 16, "os.path.jion": "0" * 16}

    assert [one.doc_id for one in whole.documents()] == ["abs", "len", "os.path.join"]
    assert whole.notes() == []
    assert [one.doc_id for one in other.documents()] == ["abs", "len"]
    assert other.notes()[0].startswith("1 of 4 documents are missing and 1 have another text in Python ")


def test_the_deeper_judgements_add_what_was_missing_and_change_none():
    """pydoc/test/depth10 has all judgements of pydoc/test and 804 more, of other documents, none of them relevant."""
    first, deeper = (
        {(row.query_id, row.doc_id): row.grade for row in open_dataset(contract_of(name)).qrels.judgements()}
        for name in ("pydoc/test", "pydoc/test/depth10")
    )
    added = {pair: grade for pair, grade in deeper.items() if pair not in first}

    assert {pair: deeper[pair] for pair in first} == first
    assert Counter(added.values()) == {0: 783, 1: 21}
    assert contract_of("pydoc/test/depth10").corpus == contract_of("pydoc/test").corpus
