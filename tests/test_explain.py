"""Terms of queries and documents, and how much they add to scores."""

from functools import partial
from math import log

import fruit
import pytest
from tiny import answer, ended

from lexbench.analysis.explain import explain


@pytest.fixture
def explained(store, tmp_path):
    """Return a function that explains a query on the fruit dataset."""
    return partial(explain, dataset=str(fruit.write(tmp_path / "fruit")), store=store)


def test_the_products_of_the_weights_are_the_score(explained, tmp_path):
    """On csr, apple 1.5 x 3 and fig 0.25 x 0.5 add up to 4.625, the score of a3."""
    found = explained("qid:qa", f"{fruit.write_vectors(tmp_path)}@csr", k=2)

    assert found.query == "apple"
    assert [(one.doc_id, one.score, one.total) for one in found.documents] == [("a4", 6.0, 6.0), ("a3", 4.625, 4.625)]
    terms = [(term.term, term.query, term.document, term.contribution) for term in found.documents[1].terms]
    assert terms == [("apple", 1.5, 3.0, 4.5), ("fig", 0.25, 0.5, 0.125)]
    assert "apple" in {term.term for term in found.terms}


def test_weights_are_those_that_the_engine_has(explained, tmp_path):
    """On impact, weights are integers: quantised by 4, apple is 6 and 12, fig 1 and 2, and the score is 74."""
    found = explained("qid:qa", f"{fruit.write_vectors(tmp_path)}|quantize(4)@impact", documents=["a3"])

    (one,) = found.documents
    assert [(term.term, term.query, term.document) for term in one.terms] == [("apple", 6, 12), ("fig", 1, 2)]
    assert one.score == one.total == 74


def test_bm25_by_hand(explained):
    """A term adds idf x tf / (tf + k1) if all documents have the mean length; unknown words are listed.

    The id of a query stands for the query, with and without qid:.
    """
    assert explained("qa", "bm25") == explained("qid:qa", "bm25")
    found = explained("apple fig apple kiwi", "bm25", k=2)

    idf = {"appl": log(1 + (6 - 4 + 0.5) / (4 + 0.5)), "fig": log(1 + (6 - 3 + 0.5) / (3 + 0.5))}
    assert found.unknown == ("kiwi",)
    assert {term.term: term.query for term in found.terms} == pytest.approx({"appl": 2 * idf["appl"], "fig": idf["fig"]})
    best = found.documents[0]
    assert best.doc_id == "a2"
    parts = {term.term: (term.query, term.document) for term in best.terms}
    assert parts["appl"] == pytest.approx((2 * idf["appl"], 2 / 2.9))
    assert parts["fig"] == pytest.approx((idf["fig"], 2 / 2.9))
    assert best.score == pytest.approx(best.total, rel=1e-6)


def test_the_command(store, tmp_path, capsys):
    """The tables show the terms and the score; --json has everything."""
    folder = fruit.write(tmp_path / "fruit")
    told = ended(capsys, 0, "explain", "apple fig", "-r", "bm25", "-d", folder, "-k", "1", "--terms", "1").out
    assert "bm25: apple fig" in told
    assert "1. a2: score" in told
    assert "1 more term\n" in told
    (best,) = answer(capsys, "explain", "apple fig", "-r", "bm25", "-d", folder, "-k", "1", "--json")["documents"]
    assert best["sum"] == pytest.approx(best["score"], rel=1e-6)
    assert [term["term"] for term in best["terms"]] == ["fig", "appl"]
