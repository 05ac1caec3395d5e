"""Text that others generated for documents, and term frequencies that others learned, in BM25."""

import gzip

import fruit
import pytest
import tiny
from samples import texts_of
from workbench import indexed, needs_lucene, results

from lexbench.analysis.stored_results import stored_results
from lexbench.datasets.expansion import Expansions
from lexbench.errors import InvalidFile, LexbenchError
from lexbench.retrievers import _bm25_settings
from lexbench.retrievers.bm25 import BM25
from lexbench.retrievers.bm25_lucene import BM25Lucene
from lexbench.runner.systems import describe

both = pytest.mark.parametrize("kind", [BM25, pytest.param(BM25Lucene, marks=needs_lucene)])

TEXTS = {"a": "apple banana", "b": "apple apple cherry", "c": "plum", "d": ""}
ADDED = {"a": "what fruit is red? red apples", "c": "is a plum a fruit", "d": "fruit"}
WEIGHTS = {"a": {"apples": 3, "apple": 2, "the": 40}, "b": {"plum": 1, "new york": 2, "pear": 0}, "c": {}, "d": {"Plum's": 7}}
REPEATED = {"a": "apple " * 5, "b": "plum new york new york", "c": "the", "d": "plum " * 7}


@pytest.fixture
def hits(tmp_path):
    """Return a function that indexes texts by id and returns (id, score) of the hits of a query."""

    def search(kind, query, texts=TEXTS, **settings):
        opened, corpus = indexed(tmp_path, kind(**settings), texts, f"{kind.__name__}-{len(list(tmp_path.iterdir()))}")
        found = opened.search(opened.encode([query]), 10)
        ids = fruit.ids(corpus, found.docs[0][found.docs[0] >= 0])
        return list(zip(ids, found.scores[0].tolist(), strict=False))

    return search


@pytest.fixture
def expansions(tmp_path):
    """Write ADDED."""
    return written(tmp_path / "expansions.jsonl", ({"id": name, "expansion": text} for name, text in ADDED.items()))


@pytest.fixture
def weights(tmp_path):
    """Write WEIGHTS as Anserini's JsonVectorCollection."""
    records = ({"id": name, "contents": "", "vector": vector} for name, vector in WEIGHTS.items())
    return written(tmp_path / "weights.jsonl", records)


def written(path, records):
    """Write JSON lines; return the path as text."""
    path.write_text(tiny.lines(records))
    return str(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.jsonl", '{"id": "1", "predicted_queries": ["what is é", "why"]}\n{"id": "20", "predicted_queries": []}\n'),
        ("x.json", '{"id": 20, "expansion": ""}\n\n{"id": 1, "expansion": "what is é why"}'),
        ("x.jsonl", '{"_id": "1", "text": "what is é why", "metadata": {}}\n{"_id": "20", "text": ""}\n'),
        ("x.jsonl", '{"docid": "1", "contents": "what is é why"}\n{"docid": "20", "contents": ""}\n'),
        ("x.tsv", "20\t\n1\twhat is é why\n"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_forms(tmp_path, name, content, packed):
    """Every documented form is read, plain and compressed, with lines in any order."""
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())

    assert Expansions(path).find(["20", "2", "1", "1234"]) == ["", None, "what is é why", None]


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("x.jsonl", '{"id": "1", "text": "x"}\n{"id": "2", "text": 3}\n', ":2: Expected `str"),
        ("x.jsonl", '{"id": "1", "text": "x"}\n{"id": "2"', ":2: Input data was truncated"),
        ("x.jsonl", '{"id": "1", "text": "x", "contents": "y"}\n', ":1: not an id .* and one of predicted_queries, expansion"),
        ("x.jsonl", '{"text": "x"}\n', ":1: not an id"),
        ("x.tsv", "1\tx\n\n2 y\n", ":3: a line is a document id, a tab and text"),
        ("x.tsv", "1\tx\n2\ty\n1\tz\n", "document '1' has two lines"),
        ("x.tsv", "\n", "there is no expansion in it"),
        ("x.tsv.gz", "1\tx\n", "x.tsv.gz: Not a gzipped file"),
    ],
)
def test_a_faulty_file_of_expansions_is_refused(tmp_path, name, content, line):
    """The error for a line that is no expansion, or could be two, has the number of the line."""
    (tmp_path / name).write_text(content)
    with pytest.raises(InvalidFile, match=line):
        Expansions(tmp_path / name)


@both
def test_scores_are_those_of_expanded_texts(kind, hits, expansions):
    """Expanding by a file is expanding by hand."""
    by_hand = {name: f"{text} {ADDED.get(name, '')}" for name, text in TEXTS.items()}
    for query in ("fruit", "apple red", "plum fruit banana"):
        assert hits(kind, query, expansions=expansions) == hits(kind, query, by_hand)


@both
def test_term_weights_are_frequencies(kind, hits, weights):
    """A word counts as often as the file says, cut and stemmed as in a text; the document's own text counts nothing."""
    settings = {"k1": 10.0, "b": 0.9}
    for query in ("apple", "plum", "york new", "the", "banana", "apple plum"):
        assert hits(kind, query, term_weights=weights, **settings) == hits(kind, query, REPEATED, **settings)
    assert dict(hits(kind, "plum", term_weights=weights)).keys() == {"b", "d"}


def test_blocks(hits, expansions, monkeypatch):
    """Documents that are looked up a few at a time get the same expansions as all at once."""
    at_once = hits(BM25, "fruit plum", expansions=expansions)
    monkeypatch.setattr(_bm25_settings, "_BLOCK", 3)
    monkeypatch.setattr(_bm25_settings, "_IDS", 3)

    assert hits(BM25, "fruit plum", expansions=expansions) == at_once


NO_FREQUENCY = r":2: the weight {} of 'apple' is no term .* round\(100 \* weight\)"
OTHER_CORPUS = "is of another corpus: it has ids like 'D1', and the documents have ids like 'd'"


@pytest.mark.parametrize(
    ("setting", "records", "said"),
    [
        *(
            (
                "term_weights",
                [{"id": "a", "vector": {"x": 2}}, {"id": "b", "vector": {"apple": weight}}],
                NO_FREQUENCY.format(told),
            )
            for weight, told in ((0.43, "0.43"), (-1, "-1"), (1e9, r"1e\+09"))
        ),
        ("term_weights", [{"id": "b", "vector": {"x": 2}}], "has no term weights of document 'd', 'c', 'a'"),
        ("term_weights", [{"id": "D1", "vector": {"x": 2}}], OTHER_CORPUS),
        ("expansions", [{"id": "D1", "text": "x"}], OTHER_CORPUS),
        ("term_weights", [], "there are no term weights in it"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path, hits, setting, records, said):
    """Weights must be whole numbers, for every document of this corpus; the error names the fault."""
    with pytest.raises(LexbenchError, match=said):
        hits(BM25, "x", **{setting: written(tmp_path / "w.jsonl", records)})


def test_the_key(tmp_path, expansions):
    """The content of a file and its setting are in the key of the index; its path is not."""
    moved = written(tmp_path / "moved", [])
    (tmp_path / "moved").write_bytes((tmp_path / "expansions.jsonl").read_bytes())
    before = describe(BM25(expansions=expansions), index=True)

    assert describe(BM25(expansions=moved), index=True) == before
    assert describe(BM25(term_weights=moved), index=True) != before
    assert describe(BM25(), index=True) != before
    (tmp_path / "moved").write_text('{"id": "a", "text": "other"}\n')
    assert describe(BM25(expansions=moved), index=True) != before


def test_a_result_states_what_a_file_lacks(store, tmp_path):
    """A result states how many documents have no expansion and how many ids are unknown, also when it is read again."""
    path = written(tmp_path / "x.jsonl", [{"id": "p1", "text": "fig"}, {"id": "x1", "text": "x"}, {"id": "x2", "text": "x"}])
    folder, system = fruit.write(tmp_path / "fruit"), f'bm25(expansions="{path}")'
    of_qrels = "1 of 5 judged queries have no relevant document: on them every system scores 0"
    of_grades = "the grades are 0, 1, 2, and RR@10 counts a document as relevant from grade 1; to count from 2, type e.g. -m"
    of_grades += " 'RR(rel=2)@10'"
    said = ["scored on train: there are no judgements called test", of_qrels, of_grades, fruit.SAME_QUERIES]
    said += ["x.jsonl has no expansion of 5 of the 6 documents", "x.jsonl has 2 ids that no document has"]
    first, again = (results(folder, store, [system], ["RR@10"], 10) for _ in range(2))
    stored = [*stored_results(store)]

    assert [texts_of(result.notes) for result in (*first, *again, *stored)] == [said] * 3
