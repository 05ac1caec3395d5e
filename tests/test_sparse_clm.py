"""Sparse vectors of causal language models, compared with transformers text by text."""

import checkpoints
import numpy as np
import pytest
import torch
import transformers

from lexbench import registry
from lexbench.errors import CommandError, InvalidFile, MissingData
from lexbench.notation import Call
from lexbench.types import Document

ARCHITECTURES = ("llama", "mistral", "qwen2", "qwen3")
TEXTS = ["sparse neural search", "the weight of a term is lexical and dense a b c w1 w2 w3", "query", "w5 w6 unheard of w7"]


@pytest.fixture(scope="module", params=ARCHITECTURES)
def folder(request, tmp_path_factory):
    """Write a tiny model of each kind; that of Qwen2 is tied."""
    path = tmp_path_factory.mktemp("models") / request.param
    return checkpoints.causal_lm(path, request.param, tie_word_embeddings=request.param == "qwen2")


def encoder(folder, **settings):
    """Return the encoder of a folder."""
    lengths = {"document_length": 64, "query_length": 64, "device": "cpu"}
    return registry.create("encoders", Call("sparse_clm", kwargs=tuple({"model": str(folder), **lengths, **settings}.items())))


def expected(folder, texts, *, bidirectional, last, scaled=False):
    """Return vectors (texts, vocabulary) by transformers, one text at a time."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rows = []
    for text in texts:
        ids = tokenizer(text, return_tensors="pt").input_ids
        length = ids.shape[1]
        mask = torch.zeros(1, 1, length, length) if bidirectional else None  # what is added to the attention's logits
        with torch.no_grad():
            logits = model(ids, attention_mask=mask).logits[0]
        logits = logits * (model.config.hidden_size**-0.25 if scaled else 1)
        rows.append(torch.log1p(torch.relu(logits[-1] if last else logits.max(0).values)))
    return torch.stack(rows).numpy()


@pytest.mark.parametrize("pooling", ["max", "last"])
@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
def test_vectors_are_those_of_transformers(folder, attention, pooling):
    """Vectors are those of transformers, with either attention and either pooling."""
    made = encoder(folder, attention=attention, pooling=pooling, batch_tokens=32)
    wanted = expected(folder, TEXTS, bidirectional=attention == "bidirectional", last=pooling == "last")

    np.testing.assert_allclose(made.encode_document(TEXTS).toarray(), wanted, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(made.encode_query(TEXTS).toarray(), wanted, rtol=1e-4, atol=1e-5)


def test_each_setting_has_its_effect(tmp_path):
    """Logits can be scaled, prompts added, positions left out, and terms limited."""
    folder = checkpoints.causal_lm(tmp_path / "llama")
    scaled = expected(folder, TEXTS, bidirectional=True, last=False, scaled=True)
    made = encoder(folder, attention="bidirectional", logits="scaled")
    np.testing.assert_allclose(made.encode_document(TEXTS).toarray(), scaled, rtol=1e-4, atol=1e-5)

    prompted = encoder(folder, query_prompt="query w1 ", document_prompt="document ")
    for vectors, prompt in ((prompted.encode_query(TEXTS), "query w1 "), (prompted.encode_document(TEXTS), "document ")):
        wanted = expected(folder, [prompt + text for text in TEXTS], bidirectional=False, last=False)
        np.testing.assert_allclose(vectors.toarray(), wanted, rtol=1e-4, atol=1e-5)

    few = encoder(folder, document_terms=5)
    assert np.diff(few.encode_document(TEXTS).indptr).tolist() == [5] * len(TEXTS)
    assert np.diff(few.encode_query(TEXTS).indptr).max() > 5
    assert few.own_tokens() == 1  # <s>
    assert few.token(0) == "<s>"
    assert few.token(few.vocabulary - 1) == f"[{few.vocabulary - 1}]"  # no word's

    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = transformers.AutoTokenizer.from_pretrained(folder)(TEXTS[0], return_tensors="pt").input_ids
    with torch.no_grad():
        behind = torch.log1p(torch.relu(model(ids).logits[0, 1:].max(0).values)).numpy()  # <s> sees itself alone
    alone = encoder(folder, positions="text").encode_document(TEXTS[:1]).toarray()[0]
    np.testing.assert_allclose(alone, behind, rtol=1e-4, atol=1e-5)


def test_long_texts_are_cut_at_their_end(tmp_path):
    """A long text has the vector of its beginning, and counts as cut."""
    made = encoder(checkpoints.causal_lm(tmp_path / "llama"), document_length=8)
    tokens = made.tokenise_documents([Document("d", " ".join(f"w{i}" for i in range(20))), Document("e", "w1")])

    assert tokens.truncated == 1
    wanted = made.encode_document([" ".join(f"w{i}" for i in range(7))]).toarray()
    np.testing.assert_allclose(made.encode_tokens(tokens).toarray()[:1], wanted, rtol=1e-5)


def test_unsupported_settings_and_models_are_refused(tmp_path):
    """Titles, long texts, other kinds of models, an adapter without weights, and misfits are refused."""
    folder = checkpoints.causal_lm(tmp_path / "llama")
    for settings, line in (
        ({"titles": "pair"}, "such models have no separator"),
        ({"document_length": 65}, r"takes at most 64 tokens; type document_length=64"),
    ):
        with pytest.raises(CommandError, match=line):
            encoder(folder, **settings).encode_document(TEXTS)
    with pytest.raises(CommandError, match="model_type 'bert' is not supported; there is: llama, mistral, qwen2, qwen3"):
        encoder(checkpoints.masked_lm(tmp_path / "bert", "bert"))
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 1, "lora_alpha": 1}')
    with pytest.raises(MissingData, match=r"no adapter_model\.safetensors"):
        encoder(tmp_path / "adapter")
    checkpoints.reconfigure(folder, intermediate_size=48)
    with pytest.raises(InvalidFile, match="its weights do not fit that"):
        encoder(folder).encode_document(TEXTS)
