"""Learned weights of a text's own tokens: uniCOIL."""

import checkpoints
import numpy as np
import pytest
import tiny
import torch
import transformers
from checkpoints import uni_coil

from lexbench.encoders.term_weights import TermWeights
from lexbench.errors import CommandError, InvalidFile, LexbenchError, MissingData
from lexbench.runner.systems import describe
from lexbench.types import Document

TEXTS = [
    "the query of the sparse document",
    "",
    "neural neural neural search",
    "a document about dense retrieval, and xyz",
    "w1 w2 w3 w4 w5 " * 20,  # longer than any limit
]


class Reference:
    """The weights of one text by transformers, following pyserini's UniCoilDocumentEncoder."""

    def __init__(self, folder):
        state = checkpoints.load_file(f"{folder}/model.safetensors")
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.bert = checkpoints.bert_body(folder, state)
        self.weight, self.bias = state["tok_proj.weight"], state["tok_proj.bias"]

    def vector(self, ids):
        """Return the vector (vocabulary,) of token ids."""
        with torch.no_grad():
            states = self.bert(torch.tensor([ids])).last_hidden_state[0]
            weights = torch.relu(states @ self.weight[0] + self.bias).tolist()
        found = np.zeros(len(self.tokenizer), np.float32)
        for token, weight in zip(ids, weights, strict=True):
            if token != self.tokenizer.cls_token_id:
                found[token] = max(found[token], weight)
        return found

    def text(self, text, length):
        """Return the vector of a text, cut to *length* tokens."""
        return self.vector(self.tokenizer(text, truncation=True, max_length=length)["input_ids"])

    def expanded(self, text, expansion, left, length):
        """Return the vector of *left* tokens of a text and of the new ones among *length* tokens of its expansion."""
        cut = {"add_special_tokens": False, "truncation": True}
        ids = self.tokenizer.encode(text, max_length=left, **cut)
        injected = set()
        for token in self.tokenizer.encode(expansion, max_length=length, **cut):
            if token not in ids:
                injected.add(token)
        first, last = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        return self.vector([first, *ids, last, *injected, last])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Write one checkpoint for all tests."""
    return uni_coil(tmp_path_factory.mktemp("models") / "uni_coil")


def encoder(model, **settings):
    """Return the encoder, with lengths for a model of 64 positions."""
    lengths = {"document_length": 64, "query_length": 12, "expansion_length": 10}
    return TermWeights(model, **{**lengths, "device": "cpu", **settings})


def test_weights_are_those_of_transformers(model):
    """Each text has the largest weight of each of its tokens, with [SEP] and without [CLS]."""
    reference, made = Reference(model), encoder(model)
    documents, queries = made.encode_document(TEXTS), made.encode_query(TEXTS)

    np.testing.assert_allclose(documents.toarray(), [reference.text(text, 64) for text in TEXTS], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(queries.toarray(), [reference.text(text, 12) for text in TEXTS], rtol=1e-4, atol=1e-5)
    assert (documents.dtype, documents.shape, documents.has_sorted_indices) == (np.float32, (5, 200), True)
    assert (documents.data > 0).all()
    assert {made.token(term) for term in documents.indices} & {"[SEP]", "[CLS]"} == {"[SEP]"}


@pytest.fixture
def expanded(tmp_path):
    """Write expansions of TEXTS by number; one adds nothing, one only what its text has, one is longer than its limit."""
    added = ["what is a neural query", "", "neural search", "lexical lexical weight", "the of and in is " * 5]
    path = tmp_path / "expansions.jsonl"
    path.write_text(tiny.lines({"id": str(i), "predicted_queries": [text]} for i, text in enumerate(added)))
    return added, str(path)


def test_expanded_documents(model, expanded):
    """A document is [CLS] text [SEP] new tokens of its expansion [SEP], both cut and counted; one without is named."""
    added, path = expanded
    made = encoder(model, expansions=path)
    tokens = made.tokenise_documents([Document(str(i), text) for i, text in enumerate(TEXTS)])
    reference = Reference(model)
    wanted = [reference.expanded(*pair, left=64 - 10 - 3, length=10) for pair in zip(TEXTS, added, strict=True)]

    np.testing.assert_allclose(made.encode_tokens(tokens).toarray(), wanted, rtol=1e-4, atol=1e-5)
    assert tokens.truncated == 1
    assert tokens.ids[: tokens.starts[1]].tolist().count(checkpoints.VOCABULARY.index("query")) == 1
    assert made.tokenise_documents([]).ids.tolist() == []
    with pytest.raises(LexbenchError, match="has no expansion of document 'x', 'y', 'z' and 1 more; give each document a"):
        made.tokenise_documents([Document(name, "") for name in "0xyz1w"])


def test_own_tokens_of_an_expanded_document(model, expanded):
    """A text that is as long as the own tokens leave is not cut; one token more is."""
    made = encoder(model, expansions=expanded[1])
    left = made.document_length - made.own_tokens()
    cut = [made.tokenise_documents([Document("0", "neural " * count)]).truncated for count in (left, left + 1)]

    assert cut == [0, 1]


def test_the_key(model, expanded, tmp_path):
    """The content of the expansions is in the key of the encodings; their path and the query length are not."""
    made = encoder(model, expansions=expanded[1])
    (tmp_path / "moved.jsonl").write_bytes((tmp_path / "expansions.jsonl").read_bytes())
    moved = encoder(model, expansions=str(tmp_path / "moved.jsonl"), query_length=20)

    assert describe(moved, index=True) == describe(made, index=True)
    assert describe(moved) != describe(made)
    assert describe(encoder(model), index=True) != describe(made, index=True)


@pytest.mark.parametrize(
    ("settings", "error", "line"),
    [
        ({"expansions": "nowhere"}, MissingData, "expansions='nowhere'"),
        ({"expansions": "here", "titles": "pair"}, CommandError, "is for titles=off"),
        ({"expansion_length": 0}, CommandError, "give 1 to 60 tokens, so that document_length=64"),
        ({"expansion_length": 61}, CommandError, "give 1 to 60 tokens"),
        ({"document_length": 65}, CommandError, "document_length=64"),
    ],
)
def test_settings_that_cannot_be(model, settings, error, line):
    """Impossible settings are refused by name."""
    with pytest.raises(error, match=line):
        encoder(model, **settings).encode_document(["x"])


def test_other_models(tmp_path):
    """A model with no projection, or onto several numbers, is refused."""
    with pytest.raises(InvalidFile, match=r"tok_proj.weight \(1, 32\) and tok_proj.bias \(1,\), and here is neither"):
        encoder(str(checkpoints.masked_lm(tmp_path / "plain"))).encode_query(["x"])
    with pytest.raises(InvalidFile, match=r"here is tok_proj.weight \(4, 32\), tok_proj.bias \(4,\)|here is tok_proj.bias"):
        encoder(uni_coil(tmp_path / "coil", outputs=4)).encode_query(["x"])
