"""One pass with two outputs: the terms of a masked-language model and its mean states, searched as one hybrid."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="models are in the extra neural")

import torch
from checkpoints import masked_lm, sparsified

import lexbench
from lexbench.datasets.location import find_folder
from lexbench.encoders import _torch_models
from lexbench.encoders.sparse_mlm import SparseMLM
from lexbench.errors import CommandError
from lexbench.models import added_terms
from lexbench.models.added_terms import AddedTerms, TextHead
from lexbench.notation import parse
from lexbench.retrievers.with_means import OnePassSearcher
from lexbench.runner import jobs
from lexbench.runner.plan import plan_dataset
from lexbench.runner.systems import resolve, system
from lexbench.types import Codes, Document

TEXTS = ["sparse retrieval of documents", "the query", ""]
SETTINGS = {"query_length": 16, "document_length": 16, "device": "cpu", "dense_ok": True, "threads": 1}


@pytest.fixture(params=[False, True], ids=["plain", "with a text head"])
def folder(tmp_path, request):
    """Return a model, without or with a text head."""
    folder = sparsified(masked_lm(tmp_path / "model"))
    if request.param:
        added_terms.write(AddedTerms(None, TextHead(torch.randn(4, 32), torch.zeros(4), torch.arange(5, 9))), folder)
    return folder


def typed(folder, name="sparse_mlm", **settings):
    """Return the expression of an encoder of the model in *folder*."""
    settings = {"model": str(folder), **SETTINGS, **settings}
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in settings.items())})"


def test_both_parts_are_those_of_two_encoders(folder):
    """The terms are those of the model alone, also cut to the largest; the means are those of `dense` with pooling "mean"."""
    settings = {**SETTINGS, "document_terms": 3}
    both, alone = SparseMLM(str(folder), means=True, **settings), SparseMLM(str(folder), **settings)
    dense = resolve(parse(typed(folder, "dense", pooling="mean", similarity="cosine").replace(", dense_ok=True", ""))).encoder
    documents = [Document("", text) for text in TEXTS]
    for name, found in (
        ("encode_document", both.encode_document(TEXTS)),
        ("encode_query", both.encode_query(TEXTS)),
        ("encode_document", both.encode_tokens(both.tokenise_documents(documents))),
    ):
        terms, means = both.part(found, "terms"), both.part(found, "means")
        np.testing.assert_array_equal(terms.toarray(), getattr(alone, name)(TEXTS).toarray())
        np.testing.assert_allclose(means, getattr(dense, name)(TEXTS), atol=1e-6)
    assert both.encode_query([]).shape == (0, both.encode_query(["x"]).shape[1])
    assert alone.identity() == both.identity()


def test_the_hybrid_is_the_ensemble_of_both(folder, bread, store, monkeypatch):
    """Its scores are those of the ensemble of the two systems; the corpus and each query pass through the model once."""
    member = f"{typed(folder)}@impact"
    dense = typed(folder, "dense", pooling="mean", similarity="cosine").replace(", dense_ok=True", "")
    systems = {
        "one": f"with_means({member}, weights=[1, 0.25], feedback=0)",
        "two": f'ensemble({member}, {dense}|int8@flat, scores="z", weights=[1, 0.25])',
    }
    texts = []
    real = _torch_models.MaskedLMModel._states
    monkeypatch.setattr(
        _torch_models.MaskedLMModel, "_states", lambda self, batch: (texts.append(len(batch.texts)), real(self, batch))[1]
    )
    typed_systems = [f"{name} = {expression}" for name, expression in systems.items()]
    one = list(jobs.run(plan_dataset(str(bread), typed_systems[:1], ("nDCG@10",), 10), store))
    passed = sum(texts)
    two = list(jobs.run(plan_dataset(str(bread), typed_systems[1:], ("nDCG@10",), 10), store))
    assert [outcome.error for outcome in (*one, *two)] == [None, None]
    values = [outcome.result.per_query["nDCG@10"] for outcome in (*one, *two)]
    assert values[0] == values[1]
    source = find_folder(bread).source
    judged = len(values[0])
    assert passed == sum(1 for _ in source.documents()) + judged


DOCUMENTS = {
    "d1": "sparse retrieval of documents",
    "d2": "the query",
    "d3": "dense retrieval",
    "d4": "lexical search of the documents",
    "d5": "neural term weight",
    "d6": "",
}
QUERIES = {"q1": "sparse documents", "q2": "neural search query", "q3": ""}


def z(scores):
    """Return *scores* with mean 0 and standard deviation 1."""
    return (scores - scores.mean()) / scores.std()


def test_means_search_for_the_documents_that_the_terms_find_first(folder, tmp_path):
    """The query of the means is the average of their means; all documents are scored here, by hand in float32."""
    model = SparseMLM(str(folder), means=True, **SETTINGS)
    documents, queries = model.encode_document(list(DOCUMENTS.values())), model.encode_query(list(QUERIES.values()))
    terms = (model.part(queries, "terms") @ model.part(documents, "terms").T).toarray()
    means = model.part(documents, "means")
    data = {"corpus": DOCUMENTS, "queries": QUERIES, "qrels": {query: {"d1": 1} for query in QUERIES}}
    member = f"{typed(folder)}@csr"
    systems = {f"first {n}": f"with_means({member}, feedback={n}, depth=6)" for n in (1, 4)}
    systems["rescored"] = f'with_means({member}, feedback=4, depth=6, missing="rescored")'
    results = lexbench.run(data, systems, measures=["RR@6"], store=tmp_path, depth=6)

    for result in results:
        found = lexbench.lists(results, result.system, result.dataset)
        feedback = 1 if result.system == "first 1" else 4
        for row, query in enumerate(QUERIES):
            first = sorted(range(len(DOCUMENTS)), key=lambda at: (-terms[row, at], -at))[:feedback]
            expected = z(terms[row]) + 0.5 * z(means @ means[first].mean(axis=0))
            scores = np.array([found[query][document] for document in DOCUMENTS])
            np.testing.assert_allclose(scores, expected, atol=0.03)  # means are int8 there


def test_a_query_whose_terms_find_nothing_has_its_own_mean(folder):
    """Feedback needs documents."""
    means = Codes(np.zeros((1, 32), np.int8), 32, None, np.ones(1, np.float32), np.zeros(1, np.float32))
    assert OnePassSearcher((), None, 10, None).fed(means, np.full((1, 3), -1)) is means


def test_it_reranks_given_documents(folder, bread, store):
    """It can be the second member of a pipeline."""
    expression = f"pipeline(bm25, with_means({typed(folder)}@impact), k=10, weights=[0, 1])"
    (outcome,) = jobs.run(plan_dataset(str(bread), [expression], ("nDCG@10",), 10), store)
    assert outcome.error is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("bm25", "takes one masked-language model on an engine"),
        ("{0}, {0}", "takes one masked-language model on an engine"),
        ('sparse_mlm(model="{1}", query_model="{1}")@impact', "need the same model"),
        ("{0}, feedback=-1", r"feedback=-1\): a number of documents"),
    ],
)
def test_other_members_are_refused(folder, given, message):
    """Its member is one model with states to average, for queries and documents."""
    member = f"{typed(folder)}@impact"
    with pytest.raises(CommandError, match=message):
        system(f"with_means({given.format(member, folder)})")


def test_settings_change_no_other_key(folder):
    """The key of a model without means is what it was before the setting existed."""
    plain, parts = system(f"{typed(folder)}@impact"), system(f"with_means({typed(folder)}@impact)").retriever.members
    assert "means" not in str(plain.recipe)
    assert "part" not in str(plain.recipe)
    assert [member.part for member in parts] == ["terms", "means"]
    assert parts[0].encoder == parts[1].encoder
