"""Which queries a model may learn from: none that is nearly one of those that a table reports."""

import json

import pytest

pytest.importorskip("torch", reason="models are in the extra neural")

from lexbench.contracts import contract_of
from lexbench.datasets.contamination import SimilarQueries
from lexbench.datasets.location import find_source
from lexbench.errors import CannotStart
from lexbench.lexmae.data.training_sets import open_training_set
from lexbench.progress import Silent
from lexbench.storage.store import Store

TESTED = ["Vitamin D raises the level of calcium in blood", "statins", "what is a decorator?"]


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
    """A query is nearly a tested one where at least four fifths of the words of both together are in both."""
    assert SimilarQueries([*TESTED, ""]).has_similar(text) == near


@pytest.fixture
def folder(tmp_path):
    """Return a collection of three queries, one of which is pydoc's own with other letters."""
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


class Notes(Silent):
    """Progress that keeps what is noted."""

    def __init__(self):
        self.notes = []

    def note(self, text):
        """Keep a note."""
        self.notes.append(text)


def test_a_tested_query_is_left_out_of_training(folder, tmp_path):
    """Of a training set the queries that are nearly tested ones are left out, with their documents, and it is said."""
    progress = Notes()
    training_set = open_training_set(str(folder), Store(tmp_path / "store"), progress)
    assert [query.query_id for query in training_set.queries] == ["q2", "q3"]
    assert training_set.positives.lengths.tolist() == [1, 1]
    assert any("1 of 3 queries are left out: nearly the same as test queries" in note for note in progress.notes)


def test_a_set_of_tested_queries_is_refused(folder, tmp_path):
    """Where every query is nearly a tested one there is nothing to train on."""
    (folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    with pytest.raises(CannotStart, match="nearly the same as a test query"):
        open_training_set(str(folder), Store(tmp_path / "store"), Silent())
