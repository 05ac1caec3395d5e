"""Sparse encoders with a table of query weights, compared with sentence-transformers and by hand."""

import json
import math
import shutil

import checkpoints
import idf_table
import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from lexbench import registry
from lexbench.datasets.location import find_folder
from lexbench.encoders.inference_free import load_tokenizer, tokenizer_file
from lexbench.errors import InvalidFile, MissingData
from lexbench.models import added_terms
from lexbench.models.added_terms import AddedTerms, TextHead
from lexbench.models.token_batches import plain_copy
from lexbench.notation import Call
from lexbench.runner import jobs
from lexbench.runner.plan import plan_dataset

TEXTS = ["the query of the model", "", "sparse retrieval sparse"]
LENGTHS = {"query_length": 16, "document_length": 16, "device": "cpu"}


def encoder(model, name="inference_free", **settings):
    """Return the encoder of a folder."""
    return registry.create("encoders", Call(name, kwargs=tuple({"model": str(model), **LENGTHS, **settings}.items())))


@pytest.fixture(scope="module")
def router(bert):
    """Write a Router of sentence-transformers: a table for queries, that BERT for documents."""
    reason = "sentence-transformers is not installed"
    sentence_transformers = pytest.importorskip("sentence_transformers", reason=reason)
    modules = pytest.importorskip("sentence_transformers.base.modules", reason=f"{reason} from 6 on")
    sparse = sentence_transformers.sparse_encoder.modules
    transformer = modules.Transformer(str(bert), transformer_task="fill-mask")
    table = torch.linspace(0, 2, len(checkpoints.VOCABULARY))
    queries = sparse.SparseStaticEmbedding(tokenizer=transformer.tokenizer, weight=table, frozen=True)
    both = modules.Router.for_query_document(query_modules=[queries], document_modules=[transformer, sparse.SpladePooling()])
    model = sentence_transformers.SparseEncoder(modules=[both], device="cpu")
    folder = bert.parent / "router"
    model.save(str(folder))
    return folder, model


def test_a_router_is_encoded_as_sentence_transformers_does(router):
    """Vectors of queries and documents are those of sentence-transformers."""
    folder, model = router
    ours = encoder(folder)
    np.testing.assert_array_equal(ours.encode_query(TEXTS).toarray(), model.encode_query(TEXTS).to_dense().numpy())
    theirs = model.encode_document([TEXTS[0], TEXTS[2]]).to_dense().numpy()
    np.testing.assert_allclose(ours.encode_document([TEXTS[0], TEXTS[2]]).toarray(), theirs, atol=1e-5)
    assert ours.notes()[-1] == "queries are looked up in a table of 199 weighted tokens; no model runs for them"


def test_a_table_of_weights_in_the_folder_of_a_model(bert, tmp_path):
    """A folder may have idf.json (OpenSearch); a given file wins, and its digest is in the key."""
    with pytest.raises(MissingData, match=r"it has no weights for queries .*give query_weights="):
        encoder(bert)
    with pytest.raises(MissingData, match=r"none\.json: there is no such file of weights for queries"):
        encoder(bert, query_weights="none.json").identity()
    table = tmp_path / "table.json"
    table.write_text(json.dumps({"query": 2.0, "sparse": 0.5, "nowhere": 9.0}))
    given = encoder(bert, query_weights=str(table))
    vectors = given.encode_query(TEXTS)
    rows = [vectors[[at]] for at in range(len(TEXTS))]
    words = [dict(zip(map(given.token, row.indices.tolist()), row.data.tolist(), strict=True)) for row in rows]
    assert words == [{"query": 2.0}, {}, {"sparse": 0.5}]
    copy = shutil.copytree(bert, tmp_path / "model")
    (copy / "idf.json").write_text(json.dumps({"query": 3.0}))
    beside = encoder(copy)
    assert beside.encode_query(["query"]).sum() == 3.0
    assert beside.identity()["query_weights"] != given.identity()["query_weights"]
    assert beside.index_identity() == given.index_identity()


def test_a_given_table_answers_in_a_run_also_beside_a_text_head(bert, bread, tmp_path, store):
    """`run` gives a result for a folder without a table of its own, and queries are as wide as documents with text terms."""
    copy = shutil.copytree(bert, tmp_path / "model")
    width, words = 32, torch.arange(5, 9)
    added_terms.write(AddedTerms(None, TextHead(torch.randn(4, width), torch.zeros(4), words)), copy)
    checkpoints.reconfigure(copy, lexbench={"text_terms": 2, "query_text_terms": 2})
    vocabulary = json.loads((copy / "config.json").read_text())["vocab_size"]
    tokens = load_tokenizer(tokenizer_file(copy)).get_vocab()
    (tmp_path / "table.json").write_text(json.dumps(dict.fromkeys(tokens, 1.0)))
    settings = f'model="{copy}", query_weights="{tmp_path / "table.json"}", dense_ok=True, device="cpu"'
    settings += ", query_length=16, document_length=16"
    (outcome,) = jobs.run(plan_dataset(str(bread), [f"inference_free({settings})@impact"], ("nDCG@10",), 10), store)

    assert outcome.error is None
    assert any("no terms of the text head" in note.text for note in outcome.result.notes)
    given = encoder(copy, query_weights=str(tmp_path / "table.json"), dense_ok=True)
    assert given.encode_query(TEXTS).shape[1] == given.encode_document(TEXTS).shape[1] == vocabulary + 4


def test_tokens_add_terms(bert, tmp_path):
    """A token adds terms with its weight times their factors, and weights of a term are added up; a setting leaves them out."""
    copy = shutil.copytree(bert, tmp_path / "model")
    (copy / "idf.json").write_text(json.dumps({"query": 3.0, "sparse": 0.5, "w0": 8.0}))
    before = encoder(copy)
    own, key = before.encode_query(TEXTS), before.identity()
    (copy / "query_expansions.json").write_text(json.dumps({"query": {"w0": 0.5, "sparse": 0.1}, "sparse": {"w0": 2.0}}))
    added, without = encoder(copy), encoder(copy, query_expansion=False)
    vectors = added.encode_query(["query sparse query", "sparse", ""])
    rows = [vectors[[at]] for at in range(3)]
    words = [dict(zip(map(added.token, row.indices.tolist()), row.data.tolist(), strict=True)) for row in rows]

    assert words == [
        pytest.approx({"query": 3.0, "sparse": 0.5 + 3.0 * 0.1, "w0": 3.0 * 0.5 + 0.5 * 2.0}),
        pytest.approx({"sparse": 0.5, "w0": 1.0}),
        {},
    ]
    assert (without.encode_query(TEXTS) != own).nnz == 0
    assert without.identity() == key != added.identity()
    assert added.index_identity() == before.index_identity()
    assert "2 tokens add other terms" in added.notes()[-1]
    assert "add other terms" not in without.notes()[-1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"query": 1.0}', 'it is no table {"token": {"term": factor}}'),
        ('{"query": {"nowhere": 1.0}}', "the token 'nowhere' is not in the vocabulary"),
        ('{"query": {"sparse": -1.0}}', "a factor of a term is negative or no number"),
        ("[" * 9999, 'it is no table {"token": {"term": factor}}'),
    ],
)
def test_wrong_terms_to_add_are_refused(bert, tmp_path, content, message):
    """A file that is no table of terms for this vocabulary is refused in one line."""
    copy = shutil.copytree(bert, tmp_path / "model")
    (copy / "idf.json").write_text(json.dumps({"query": 3.0}))
    (copy / "query_expansions.json").write_text(content)
    with pytest.raises(InvalidFile) as error:
        encoder(copy).encode_query(["query"])
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1, 2]", 'it is no table {"token": weight}'),
        ('{"query": "much"}', 'it is no table {"token": weight}'),
        ('{"nowhere": 1.0}', "none of its 1 tokens is in the vocabulary"),
        ('{"query": -1.0}', "a weight of a token is negative or no number"),
    ],
)
def test_a_wrong_table_is_refused(bert, tmp_path, content, message):
    """A file that is no table of weights for this vocabulary is refused in one line."""
    (tmp_path / "table.json").write_text(content)
    with pytest.raises(InvalidFile) as error:
        encoder(bert, query_weights=str(tmp_path / "table.json")).encode_query(["query"])
    assert message in str(error.value)


def test_a_table_of_another_tokenizer_is_refused(bert, tmp_path):
    """A table of fewer tokens than the tokenizer has would lack the weights of the last ones."""
    table = tmp_path / "table.safetensors"
    tokens = len(checkpoints.VOCABULARY)
    save_file({"weight": np.ones(tokens - 1, np.float32)}, table)
    with pytest.raises(InvalidFile, match=rf"table.safetensors: weights of {tokens - 1} tokens, and .* has {tokens}; give the"):
        encoder(bert, query_weights=str(table)).encode_query(["query"])
    weights = np.ones(tokens, np.float32)
    save_file({"weight": weights, "bias": weights}, table)  # which sentence-transformers refuses, too
    with pytest.raises(InvalidFile, match=rf"are one tensor `weight` \(vocabulary,\), and here is .*bias \({tokens},\)"):
        encoder(bert, query_weights=str(table)).encode_query(["query"])
    save_file({"weight": weights}, table)
    assert encoder(bert, query_weights=str(table)).encode_query(["query"]).data.tolist() == [1.0]


def test_the_tool_weighs_tokens_by_their_documents(bert, tmp_path, bread):
    """tools/idf_table.py gives a token in n of N documents the weight log(1 + (N - n + .5) / (n + .5))."""
    tokenizer = plain_copy(load_tokenizer(tokenizer_file(bert)))
    weights = idf_table.table(str(bread), tokenizer)
    documents = [
        set(tokenizer.encode(one.text, add_special_tokens=False).tokens) for one in find_folder(bread).source.documents()
    ]
    having = sum("of" in tokens for tokens in documents)
    assert 0 < having < len(documents)
    assert weights["of"] == pytest.approx(math.log(1 + (len(documents) - having + 0.5) / (having + 0.5)))
