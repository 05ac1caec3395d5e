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


def expected(folder, texts, *, bidirectional=False, last=False, scaled=False, first=0):
    """Return vectors (texts, vocabulary) by transformers, one text at a time, of positions from *first* on."""
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
        rows.append(torch.log1p(torch.relu(logits[-1] if last else logits[first:].max(0).values)))
    return torch.stack(rows).numpy()


def close(found, expected):
    """Return whether the sparse matrix *found* has the rows *expected*, except for rounding."""
    return np.allclose(found.toarray(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pooling", ["max", "last"])
@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
def test_vectors_are_those_of_transformers(folder, attention, pooling):
    """Vectors are those of transformers, with either attention and either pooling."""
    made = encoder(folder, attention=attention, pooling=pooling, batch_tokens=32)
    wanted = expected(folder, TEXTS, bidirectional=attention == "bidirectional", last=pooling == "last")

    assert close(made.encode_document(TEXTS), wanted)
    assert close(made.encode_query(TEXTS), wanted)


def test_each_setting_has_its_effect(tmp_path):
    """Logits can be scaled, prompts added, positions left out, and terms limited."""
    folder = checkpoints.causal_lm(tmp_path / "llama")
    scaled = encoder(folder, attention="bidirectional", logits="scaled").encode_document(TEXTS)
    assert close(scaled, expected(folder, TEXTS, bidirectional=True, scaled=True))
    prompted = encoder(folder, query_prompt="query w1 ", document_prompt="document ")
    assert close(prompted.encode_query(TEXTS), expected(folder, [f"query w1 {text}" for text in TEXTS]))
    assert close(prompted.encode_document(TEXTS), expected(folder, [f"document {text}" for text in TEXTS]))
    alone = encoder(folder, positions="text").encode_document(TEXTS)
    assert close(alone, expected(folder, TEXTS, first=1))  # the first is <s>

    few = encoder(folder, document_terms=5)
    assert np.diff(few.encode_document(TEXTS).indptr).tolist() == [5] * len(TEXTS)
    assert np.diff(few.encode_query(TEXTS).indptr).max() > 5
    assert few.own_tokens() == 1  # <s>
    assert few.token(0) == "<s>"
    last = scaled.shape[1] - 1
    assert few.token(last) == f"[{last}]"  # an entry without a word


def test_long_texts_are_cut_at_their_end(tmp_path):
    """A long text has the vector of its beginning, and counts as cut."""
    made = encoder(checkpoints.causal_lm(tmp_path / "llama"), document_length=8)
    tokens = made.tokenise_documents([Document("d", " ".join(f"w{i}" for i in range(20))), Document("e", "w1")])

    assert tokens.truncated == 1
    assert close(made.encode_tokens(tokens)[[0]], made.encode_document([" ".join(f"w{i}" for i in range(7))]).toarray())


def test_unsupported_settings_and_models_are_refused(tmp_path):
    """Titles, long texts, other kinds of models, halves of adapters, and misfits are refused."""
    folder = checkpoints.causal_lm(tmp_path / "llama")
    misfit = checkpoints.reconfigure(checkpoints.causal_lm(tmp_path / "misfit"), intermediate_size=48)
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 1, "lora_alpha": 1}')
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "adapter_model.safetensors").touch()
    supported = "model_type 'bert' is not supported; there is: llama, mistral, qwen2, qwen3"
    for model, settings, error, message in (
        (folder, {"titles": "pair"}, CommandError, "such models have no separator"),
        (folder, {"document_length": 65}, CommandError, "takes at most 64 tokens; type document_length=64"),
        (checkpoints.masked_lm(tmp_path / "bert"), {}, CommandError, supported),
        (tmp_path / "adapter", {}, MissingData, r"no adapter_model\.safetensors"),
        (tmp_path / "half", {}, MissingData, r"no adapter_config\.json, which adapter_model\.safetensors needs; copy it from"),
        (misfit, {}, InvalidFile, "its weights do not fit"),
    ):
        with pytest.raises(error, match=message):
            encoder(model, **settings).encode_document(TEXTS)
