"""The embedded collection `pydoc`."""

import gzip
import hashlib
from collections import Counter, defaultdict

import pytest
from tiny import contract, write_files

from lexbench.contracts import contract_of, suite_folders
from lexbench.datasets.dataset import open_dataset
from lexbench.datasets.digests import netstrings
from lexbench.datasets.sources.files import Files
from lexbench.errors import MissingData

DEV, TEST = contract_of("pydoc/dev"), contract_of("pydoc/test")
FOLDER = suite_folders()[0] / "pydoc"


@pytest.fixture(scope="module", params=[DEV, TEST], ids=["dev", "test"])
def dataset(request):
    """Open one split; raises if it differs from its contract."""
    return open_dataset(request.param)


@pytest.fixture(scope="module")
def documents(dataset):
    """Return the texts of the documents by id."""
    return {document.doc_id: document.text for document in dataset.source.documents()}


def test_the_splits_are_as_large_as_promised():
    """There are 50 questions to tune on and 115 to test with, and no question is in both."""
    dev, test = ({query.text for query in open_dataset(one).queries} for one in (DEV, TEST))

    assert (len(dev), len(test)) == (50, 115)
    assert dev.isdisjoint(test)


def test_the_documents_are_those_of_the_contract(dataset, documents):
    """The package has the 5,048 documents of the contract: a name, a space, and a docstring on one line."""
    expected = dataset.contract.expected
    pairs = sorted(((doc_id.encode(), text.encode()) for doc_id, text in documents.items()), reverse=True)

    assert len(documents) == expected.documents == 5048
    assert hashlib.sha256(b"".join(netstrings(*pair) for pair in pairs)).hexdigest() == expected.corpus_sha256
    assert documents["len"] == "len Return the number of items in a container."
    assert all(text.startswith(f"{doc_id} ") and text.split() == text.split(" ") for doc_id, text in documents.items())


def test_the_file_of_documents_has_no_time_and_the_license_of_python_beside_it():
    """The header of the file has no time and no name. The notice has what the license of Python asks for."""
    header = (FOLDER / "corpus.jsonl.gz").read_bytes()[:10]
    notice = (FOLDER / "NOTICE").read_text(encoding="utf-8")

    assert header[:4] == b"\x1f\x8b\x08\x00"
    assert header[4:8] == bytes(4)
    assert gzip.decompress((FOLDER / "corpus.jsonl.gz").read_bytes()).decode().count("\n") == 5048
    assert "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2" in notice
    assert "Copyright (c) 2001-2024 Python Software Foundation; All Rights Reserved" in notice


def test_every_question_has_an_answer(dataset, documents):
    """Each question has a document of grade 3; most have three or more of grade 2 or better, all in the corpus.

    A question holds no dotted name, and no full name of a document of grade 3 that is not an ordinary word.
    """
    grades = defaultdict(list)
    for row in dataset.topics.judgements:
        grades[row.query_id].append(row.grade)
    useful = Counter(min(sum(grade >= 2 for grade in found), 3) for found in grades.values())

    assert all(max(found) == 3 for found in grades.values())
    assert useful[3] >= 0.75 * len(grades)
    assert {row.doc_id for row in dataset.topics.judgements} <= documents.keys()
    texts = {query.query_id: query.text for query in dataset.queries}
    best = [(row.query_id, row.doc_id) for row in dataset.topics.judgements if row.grade == 3]

    assert not [doc_id for query_id, doc_id in best if "." in doc_id and doc_id in texts[query_id]]
    assert not [doc_id for query_id, doc_id in best if "_" in doc_id and doc_id.rpartition(".")[2] in texts[query_id].split()]


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


# ---- `added` in a contract -------------------------------------------------------------------------------------------------

BREAD = {
    "corpus/a.jsonl": '{"_id": "d1", "text": "rye"}\n{"_id": "d2", "text": "oats"}\n',
    "queries.tsv": "q1\tbread\n",
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
    "more.tsv": "query-id\tcorpus-id\tscore\nq1\td2\t2\n",
}


def test_added_judgements_come_from_the_file_beside_the_documents(tmp_path):
    """A contract's `added` names a file of further judgements. A missing one is an error that names it."""
    folder = write_files(tmp_path, BREAD)
    more = Files.locate(contract("bread/test", "files", added="more.tsv"), [folder])

    assert [tuple(row) for row in more.judgements()] == [("q1", "d1", 1), ("q1", "d2", 2)]
    with pytest.raises(MissingData, match=r"bread/test is not here: there is .*a\.jsonl, and no mere\.tsv beside it"):
        Files.locate(contract("bread/test", "files", added="mere.tsv"), [folder])


def test_added_judgements_are_refused_by_other_loaders():
    """`added` with a loader that does not read it is an error, and not ignored."""
    with pytest.raises(ValueError, match="added is for the loader files; this is hf"):
        contract("x", "hf", corpus="x", added="more.tsv")
