"""Sparse vectors of latent features, against sentence-transformers' SparseAutoEncoder and SlideOn's published formula."""

import json
import re

import checkpoints
import numpy as np
import pytest
import torch
import transformers
from sparse_models import FEATURES, slideon

from lexbench import registry
from lexbench.errors import CommandError, InvalidFile
from lexbench.models.int8 import int8_works
from lexbench.notation import Call
from lexbench.runner.systems import named_systems
from lexbench.types import Document

ACTIVE = 5
TEXTS = ["sparse neural retrieval", "", "x", "Ünïcode 検索 lexical [SEP] 2026", "w1 w2 w3 " * 30, "the weight of a term"]
SETTINGS = {"query_length": 32, "document_length": 48, "device": "cpu"}


def encoder(folder, **settings):
    """Return the encoder of a folder."""
    return registry.create(
        "encoders", Call("sparse_latent", kwargs=tuple({"model": str(folder), **SETTINGS, **settings}.items()))
    )


def states_of(folder, text, length):
    """Return the tokens of a text and the last states (length, width) by transformers."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    config = json.loads((folder / "config.json").read_text())
    sizes = {key: value for key, value in config.items() if key not in {"model_type", "auto_map"}}
    body = transformers.ModernBertModel(transformers.ModernBertConfig(**sizes)).eval()
    state = checkpoints.load_file(folder / "model.safetensors")
    body.load_state_dict({name.removeprefix("backbone."): one for name, one in state.items() if "backbone." in name})
    tokens = tokenizer(text, truncation=True, max_length=length, return_tensors="pt")
    with torch.no_grad():
        states = body(input_ids=tokens["input_ids"]).last_hidden_state[0].numpy()
    return tokenizer.convert_ids_to_tokens(tokens["input_ids"][0].tolist()), states, state


def of_tokens(folder, text, length):
    """Return the tokens of a text, and their features (length, features), by the formula on SlideOn's card."""
    tokens, states, state = states_of(folder, text, length)
    states = states / np.linalg.norm(states, axis=1, keepdims=True)
    found = states @ state["sae.encoder.weight"].numpy().T + state["sae.encoder.bias"].numpy()
    found[found < np.sort(found, axis=1)[:, [-ACTIVE]]] = 0
    return tokens, np.maximum(found, 0)


def largest(vector, most):
    """Return *vector* with its *most* largest values."""
    kept = np.argsort(-vector, kind="stable")[:most]
    return np.where(np.isin(np.arange(len(vector)), kept), vector, 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a checkpoint."""
    return slideon(tmp_path_factory.mktemp("models") / "slideon")


def test_vectors_follow_slideons_formula(folder):
    """States of length 1 times W plus b, the largest per token above 0, the maximum over tokens, the largest of a text."""
    made = encoder(folder, active=ACTIVE, document_features=12, query_features=4)
    documents = [largest(of_tokens(folder, text, 48)[1].max(0), 12) for text in TEXTS]
    queries = [largest(of_tokens(folder, text, 32)[1].max(0), 4) for text in TEXTS]
    found = made.encode_document(TEXTS)

    assert np.allclose(found.toarray(), documents, rtol=0, atol=1e-5)
    assert np.allclose(made.encode_query(TEXTS).toarray(), queries, rtol=0, atol=1e-5)
    assert found.dtype == np.float32
    assert found.has_sorted_indices
    assert made.token(17) == "feature 17"


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_fewer_bits_come_close(folder, dtype):
    """Vectors in bfloat16 and int8 are near those in float32."""
    if dtype == "int8" and not int8_works():
        pytest.skip("this torch has no int8 products for this processor")
    both = (encoder(folder, active=ACTIVE, dtype=one) for one in ("float32", dtype))
    exact, rough = (made.encode_document(TEXTS).toarray() for made in both)

    assert ((exact * rough).sum(1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(rough, axis=1)).min() > 0.9


def test_the_words_that_fire_a_feature_are_shown(folder):
    """The tokens that give documents a feature are those of the formula, the largest weight first."""
    made = encoder(folder, active=ACTIVE)
    vector = made.encode_document(TEXTS[:1])
    feature = int(vector.indices[np.argmax(vector.data)])
    fired = made.firing([feature, 0], TEXTS)[feature]
    expected = [
        (token, at, float(weights[feature]))
        for at, text in enumerate(TEXTS)
        for token, weights in zip(*of_tokens(folder, text, 48), strict=True)
        if weights[feature] > 0
    ]
    expected.sort(key=lambda one: -one[2])

    assert [one.weight for one in fired] == pytest.approx([weight for *_, weight in expected[:5]], abs=1e-5)
    assert (fired[0].word, fired[0].document) == expected[0][:2]


@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
def test_a_model_type_of_foreign_code_is_read(folder, tmp_path, nested):
    """An unknown model_type is read by the model inside its config.json, or by the names of tensors; no code runs."""
    other = slideon(tmp_path / "other", model_type="slideon", nested=nested)
    made, same = encoder(other, active=ACTIVE, unknown_ok=nested), encoder(folder, active=ACTIVE)

    assert (made.encode_document(TEXTS) != same.encode_document(TEXTS)).nnz == 0
    assert "lexbench runs none of it, and follows config.json" in made.notes()[-1]
    assert made.identity()


REFUSED = {
    "no encoder": ({"drop": ("sae.encoder.weight",)}, "has one tensor (features, 32) behind its body, and here is"),
    "two encoders": ({"extra": {"other.weight": torch.ones(96, 32)}}, "has one tensor (features, 32) behind its body, and"),
    "an unknown tensor": ({"extra": {"sae.gate": torch.ones(3)}}, "lexbench does not know what sae.gate does"),
    "two biases": ({"extra": {"sae.threshold": torch.ones(96)}}, "belongs to the features is not clear"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_what_lexbench_does_not_know_is_refused_by_name(tmp_path, fault):
    """A model without one clear encoder, and a tensor of unknown meaning, are errors of one line."""
    changes, message = REFUSED[fault]
    with pytest.raises(InvalidFile, match=re.escape(message)):
        encoder(slideon(tmp_path / "model", **changes)).encode_document(["x"])


def csr(path, *, normalize=False, module=False, pooling="mean", **about):
    """Write a SparseEncoder with a SparseAutoEncoder; return its folder and itself."""
    modules = pytest.importorskip("sentence_transformers.sparse_encoder.modules")
    models = pytest.importorskip("sentence_transformers.models")
    from sentence_transformers import SparseEncoder

    body = checkpoints.masked_lm(path / "body")
    torch.manual_seed(3)
    autoencoder = modules.SparseAutoEncoder(32, hidden_dim=FEATURES, k=ACTIVE, k_aux=8, normalize=normalize)
    for parameter in autoencoder.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    between = [models.Normalize()] if module else []
    parts = [models.Transformer(str(body), max_seq_length=48), models.Pooling(32, pooling_mode=pooling), *between, autoencoder]
    model = SparseEncoder(modules=parts, device="cpu", **about)
    model.save(str(path / "model"), create_model_card=False)
    return path / "model", model


@pytest.mark.parametrize(
    "settings",
    [{}, {"normalize": True}, {"module": True, "pooling": "cls"}, {"max_active_dims": 3}],
    ids=["plain", "layer_norm", "length", "fewer features"],
)
def test_csr_has_the_vectors_of_sentence_transformers(tmp_path, settings):
    """A SparseAutoEncoder behind a pooling gives the vectors of sentence-transformers, with prompts and by its own settings."""
    folder, theirs = csr(tmp_path, **settings, prompts={"query": "the query ", "document": ""})
    made = registry.create("encoders", Call("sparse_latent", kwargs=(("model", str(folder)), ("device", "cpu"))))

    assert np.allclose(made.encode_document(TEXTS).toarray(), theirs.encode_document(TEXTS).to_dense().numpy(), atol=1e-5)
    assert np.allclose(made.encode_query(TEXTS).toarray(), theirs.encode_query(TEXTS).to_dense().numpy(), atol=1e-5)
    assert (made.active, made.document_length) == (settings.get("max_active_dims", ACTIVE), 48)
    assert made.query_prompt == "the query "
    assert made.firing([0], TEXTS) == {0: []}
    dense = Call("dense", kwargs=(("model", str(folder)), ("device", "cpu")))
    with pytest.raises(CommandError, match=r"its files say that it is sparse_latent\(model=.*\)@impact"):
        registry.create("encoders", dense)


def test_two_scalings_are_refused(tmp_path):
    """Normalize in front of an autoencoder that scales by itself is an error of one line, and so are unknown settings of it."""
    folder, _ = csr(tmp_path, normalize=True, module=True)
    with pytest.raises(CommandError, match="it scales states by Normalize and by its SparseAutoEncoder"):
        encoder(folder)
    config = next(folder.glob("*_SparseAutoEncoder"))
    for change, message in (({"slope": 3}, r"the setting slope \(3\)"), ({"normalize": "false"}, "normalize is 'false'")):
        checkpoints.reconfigure(config, **change)
        with pytest.raises(CommandError, match=message):
            encoder(folder)


def test_what_the_library_can_do_is_refused_with_its_object(tmp_path):
    """A pooling without prompts, where there are prompts, and cosine. A folder of another kind is refused in the same way."""
    folder, _ = csr(tmp_path)
    pooling, about = next(folder.glob("*_Pooling")), "config_sentence_transformers.json"
    checkpoints.reconfigure(folder, about, prompts={})
    checkpoints.reconfigure(pooling, include_prompt=False)
    assert encoder(folder).document_prompt == ""
    given = r"give the object: lexbench.run\(data, \[SparseEncoder\(FOLDER\)\]\)"
    for changed, message in (
        ({"prompts": {"query": "w1 "}}, "leaves prompts out of its"),
        ({"similarity_fn_name": "cosine"}, "cos"),
    ):
        checkpoints.reconfigure(folder, about, **changed)
        with pytest.raises(CommandError, match=f"{message}.*; {given}"):
            encoder(folder)
    listed = json.loads((folder / "modules.json").read_text())
    (folder / "modules.json").write_text(
        json.dumps([listed[0] | {"type": "sentence_transformers.models.SparseStaticEmbedding"}])
    )
    with pytest.raises(CommandError, match=f"lexbench does not compute its modules; {given}"):
        named_systems(str(folder))


def test_a_maximum_of_states_is_refused(tmp_path):
    """The pooling "max" of sentence-transformers is one of states, and that of lexbench one of features."""
    folder, _ = csr(tmp_path, pooling="max")
    with pytest.raises(CommandError, match="by 'max' before its SparseAutoEncoder; lexbench does mean, cls, last"):
        encoder(folder)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"active": 0}, "sparse_latent(active=0): give a number of features from 1"),
        ({"query_features": -1}, "sparse_latent(query_features=-1): give a number above 0, or 0 for all"),
        ({"pooling": "cls", "positions": "text"}, 'positions and pool_prompts are for pooling="max"'),
    ],
)
def test_impossible_settings_are_refused(folder, settings, message):
    """Settings that keep nothing, or that a pooling cannot obey, are errors of one line."""
    with pytest.raises(CommandError, match=re.escape(message)):
        encoder(folder, **settings)


def test_titles_are_read_in_front(folder):
    """A document's title is in its text."""
    made = encoder(folder, active=ACTIVE)
    document = Document("1", "sparse retrieval the search model", 17)
    assert (made.encode_tokens(made.tokenise_documents([document])) != made.encode_document([document.text])).nnz == 0
