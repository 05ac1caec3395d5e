"""Query weights times the inverse document frequency of the collection that is searched."""

from math import log

import fruit
import numpy as np
import pytest
from scipy import sparse
from workbench import opened, searched

from lexbench.analysis.explain import explain
from lexbench.encoders.sparse_mlm import SparseMLM
from lexbench.errors import CommandError
from lexbench.runner.systems import describe, system
from lexbench.transforms.collection_idf import CollectionIdf
from lexbench.transforms.top_k import TopK
from lexbench.types import CollectionStatistics


def idf(frequency, documents=6):
    """Return the inverse document frequency of Lucene's BM25."""
    return log(1 + (documents - frequency + 0.5) / (frequency + 0.5))


@pytest.fixture
def bench(store, tmp_path):
    """Open the dataset about fruit in an empty store."""
    return opened(fruit.write(tmp_path / "fruit"), store)


@pytest.fixture
def vectors(tmp_path):
    """Return the expression of an encoder of known vectors."""
    return fruit.write_vectors(tmp_path)


def found_by(expression, bench):
    """Return the score of each document that the system finds, by query and document."""
    ids = [doc_id.decode() for doc_id in bench.corpus.doc_ids]
    pairs = zip(bench.dataset.queries, searched(bench, system(expression).retriever, 6), strict=True)
    return {query.query_id: {ids[doc]: score for doc, score in found.items() if score} for query, found in pairs}


def test_a_weight_is_multiplied_by_the_idf_of_its_term():
    """Terms that no document has are dropped, and an empty query stays empty."""
    statistics = CollectionStatistics(6, np.array([4, 0, 6, 1]))
    given = sparse.csr_array(np.array([[1.0, 2.0, 0.0, 0.5], [0, 0, 0, 0]], np.float32))

    found = CollectionIdf().with_collection(statistics).query(given)

    assert found.toarray().tolist() == [pytest.approx([idf(4), 0, 0, 0.5 * idf(1)]), [0, 0, 0, 0]]
    assert found.nnz == 2
    assert given.nnz == 3  # is not changed


def test_the_power_softens_it():
    """With power 0.5 the weight is multiplied by the square root."""
    bound = CollectionIdf(0.5).with_collection(CollectionStatistics(6, np.array([4])))

    assert bound.query(sparse.csr_array(np.ones((1, 1), np.float32))).data.tolist() == pytest.approx([idf(4) ** 0.5])


def test_the_statistics_are_in_no_key():
    """What is known of one collection does not make the transform another one."""
    bound = CollectionIdf(2).with_collection(CollectionStatistics(6, np.array([4])))

    assert bound == CollectionIdf(2.0)
    assert describe(bound) == describe(CollectionIdf(2.0)) != describe(CollectionIdf())


def test_it_needs_a_collection():
    """A query alone has no document frequencies."""
    with pytest.raises(CommandError, match="name a dataset by -d"):
        CollectionIdf().query(sparse.csr_array(np.ones((1, 1), np.float32)))


@pytest.mark.parametrize("engine", ["csr", "impact", "sharded(csr, shards=2)"])
def test_every_exact_engine_gives_the_same_scores(engine, bench, vectors):
    """Each score is the sum over terms of query weight, idf and document weight; whole numbers are rounded once."""
    found = found_by(f"{vectors}|collection_idf|quantize(1000)@{engine}", bench)
    frequencies = {"apple": 4, "fig": 3, "pear": 2, "plum": 2}
    for query, weights in fruit.QUERY_VECTORS.items():
        expected = {}
        for document, terms in fruit.DOCUMENT_VECTORS.items():
            score = sum(
                round(1000 * weight * idf(frequencies[term])) * 1000 * terms[term]
                for term, weight in weights.items()
                if term in terms
            )
            expected |= {document: score} if score else {}
        assert found[query] == pytest.approx(expected, rel=1e-6)


def test_frequencies_are_those_of_the_index(bench, vectors):
    """With one term per document fig is in one list only: that of a1."""
    found = found_by(f"{vectors}|top_k(1, ties='cut')|collection_idf@csr", bench)

    assert found["qf"] == pytest.approx({"a1": 3 * idf(1)})


def test_rescoring_gives_the_scores_of_searching(bench, vectors):
    """Scores of given documents come from the stored vectors, without the index, by the same statistics."""
    expression = f"{vectors}|collection_idf@csr"
    found = found_by(expression, bench)
    retriever = system(expression).retriever
    rescorer = bench.scorer(retriever)
    queries = bench.dataset.queries
    documents = np.broadcast_to(np.arange(6, dtype=np.int32), (len(queries), 6))

    scores = rescorer.score(rescorer.encode_queries(queries), documents)

    for query, row in zip(queries, scores.tolist(), strict=True):
        expected = [found[query.query_id].get(doc_id.decode(), 0) for doc_id in bench.corpus.doc_ids]
        assert row == pytest.approx(expected, rel=1e-6)


def test_an_ensemble_encodes_a_query_once_and_weights_it_for_each_member(bench, vectors):
    """Members with the same encoder share its vectors; only one of them uses the idf."""
    found = found_by(f'ensemble({vectors}|collection_idf@csr, {vectors}@csr, scores="raw")', bench)

    assert found["qf"]["a1"] == pytest.approx(3 * idf(3) + 3)


def test_explain_shows_the_weights_that_the_engine_gets(store, tmp_path, vectors):
    """The products of the shown weights are the score."""
    folder = str(fruit.write(tmp_path / "fruit"))
    found = explain("qid:qa", f"{vectors}|collection_idf@csr", folder, k=2, store=store)

    assert [document.total for document in found.documents] == pytest.approx([document.score for document in found.documents])
    assert found.documents[0].terms[0].query == pytest.approx(1.5 * idf(4))


@pytest.fixture
def model(tmp_path):
    """Return a function that writes a small model with exact terms, whose config.json states the given settings."""
    pytest.importorskip("torch", reason="models are in the extra neural")
    import checkpoints
    import torch

    from lexbench.models.added_terms import AddedTerms, ExactTerms, write

    def written(**stated):
        words = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "apple", "fig", "pear", "plum")
        folder = checkpoints.masked_lm(tmp_path / "model", vocabulary=words)
        write(AddedTerms(ExactTerms(torch.zeros(len(words)), torch.ones(len(words)), 4.0)), folder)
        lengths = {"query_length": 32, "document_length": 32}
        checkpoints.reconfigure(folder, lexbench={"positions": "text", **lengths, **stated})
        return folder

    return written


def test_a_folder_can_ask_for_it(model):
    """The transform comes before what the user types, and not twice; query_idf=0 switches it off."""
    folder = model(query_idf=0.5)

    def transforms(expression):
        return list(system(expression).retriever.transforms)

    asked = f'sparse_mlm(model="{folder}")'
    assert transforms(f"{asked}|top_k(2)@csr") == [CollectionIdf(0.5), TopK(2)]
    assert transforms(f"{asked}|top_k(2)|collection_idf@csr") == [TopK(2), CollectionIdf()]
    assert transforms(f'sparse_mlm(model="{folder}", query_idf=0)@csr') == []


def test_a_negative_power_of_a_folder_is_refused(model):
    """The setting is checked like that of the transform."""
    with pytest.raises(CommandError, match="query_idf=-1"):
        system(f'sparse_mlm(model="{model(query_idf=-1.0)}")@csr')


def test_whole_counts_are_not_saturated(model):
    """Exact terms alone: fig counts three times in a query; documents, and queries by default, count like BM25."""
    folder = model(query_counts="whole")
    settings = {"positions": "text", "query_length": 32, "document_length": 32, "dense_ok": True}
    whole = SparseMLM(model=str(folder), query_counts="whole", **settings)
    saturated = SparseMLM(model=str(folder), **settings)
    texts = ["fig fig fig apple", "plum", ""]

    assert whole.encode_query(texts).toarray()[:, 5:].tolist() == [[1, 3, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    assert 1 < saturated.encode_query(texts).toarray()[0, 6] < 1.9
    np.testing.assert_array_equal(whole.encode_document(texts).toarray(), saturated.encode_document(texts).toarray())


def test_query_settings_leave_the_index_alone(model):
    """Counting queries otherwise needs no other document vectors."""
    folder = str(model())
    choices = (("saturated", 0), ("whole", 1))
    one, other = (
        SparseMLM(folder, query_counts=counts, query_idf=idf, query_length=32, document_length=32) for counts, idf in choices
    )

    assert describe(one, index=True) == describe(other, index=True)
    assert describe(one) != describe(other)
