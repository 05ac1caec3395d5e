"""GTE's BERT (model_type "new"), against its published equations, and as the document model of OpenSearch's doc-v3-gte.

No library has this architecture without its authors' code, so the reference is written here, step by step.
"""

import json
import math

import checkpoints
import numpy as np
import pytest
import torch
from sparse_models import gte
from torch.nn import functional

from lexbench import registry
from lexbench.errors import CommandError
from lexbench.models.architectures import load_masked_lm, masked_lm_files
from lexbench.models.int8 import int8_works
from lexbench.models.native import new
from lexbench.notation import Call
from lexbench.types import Document

TEXTS = ["sparse neural retrieval", "", "x", "Ünïcode 検索 lexical [SEP] 2026", "w1 w2 w3 " * 60, "the weight of a term"]


def turned(states, config):
    """Return *states* (length, heads, width of a head) turned by their positions."""
    length, _, width = states.shape
    factor = (config["rope_scaling"] or {"factor": 1.0})["factor"]
    rates = [1 / (config["rope_theta"] * factor) ** (2 * i / width) / factor ** (2 / width) for i in range(width // 2)]
    found = torch.empty_like(states)
    for position in range(length):
        for i, rate in enumerate(rates):
            cosine, sine = math.cos(position * rate), math.sin(position * rate)
            first, second = states[position, :, i], states[position, :, i + width // 2]
            found[position, :, i] = first * cosine - second * sine
            found[position, :, i + width // 2] = second * cosine + first * sine
    return found


def reference(folder, ids, seen=None):
    """Return the logits (length, vocabulary) of one text whose positions see the first *seen* ones; None: all."""
    config = json.loads((folder / "config.json").read_text())
    state = checkpoints.load_file(folder / "model.safetensors")
    state = {name: tensor.double() for name, tensor in state.items()}

    def linear(states, name):
        return functional.linear(states, state[f"{name}.weight"], state.get(f"{name}.bias"))

    def norm(states, name):
        return functional.layer_norm(states, states.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"], 1e-12)

    states = state["new.embeddings.word_embeddings.weight"][ids]
    if config["type_vocab_size"]:
        states = states + state["new.embeddings.token_type_embeddings.weight"][0]
    states = norm(states, "new.embeddings.LayerNorm")
    for layer in range(config["num_hidden_layers"]):
        under = f"new.encoder.layer.{layer}"
        query, key, value = linear(states, f"{under}.attention.qkv_proj").view(len(ids), 3, 2, -1).unbind(1)
        query, key = turned(query, config), turned(key, config)
        scores = torch.einsum("ihd,jhd->hij", query, key) / math.sqrt(query.shape[-1])
        gathered = torch.einsum("hij,jhd->ihd", scores[..., :seen].softmax(-1), value[:seen]).flatten(1)
        states = norm(states + linear(gathered, f"{under}.attention.o_proj"), f"{under}.attn_ln")
        up, gate = linear(states, f"{under}.mlp.up_gate_proj").chunk(2, -1)
        states = norm(states + linear(functional.gelu(gate) * up, f"{under}.mlp.down_proj"), f"{under}.mlp_ln")
    head = norm(functional.gelu(linear(states, "lm_head.dense")), "lm_head.norm")
    return functional.linear(head, state["new.embeddings.word_embeddings.weight"], state["lm_head.decoder.bias"])


def encoder(folder, name="sparse_mlm", **settings):
    """Return an encoder of a folder."""
    given = {"model": str(folder), "query_length": 64, "document_length": 64, "device": "cpu", "dense_ok": True, **settings}
    return registry.create("encoders", Call(name, kwargs=tuple(given.items())))


@pytest.mark.parametrize(
    "changes", [{}, {"rope_scaling": None, "type_vocab_size": 2, "rope_theta": 10000.0}], ids=["ntk", "plain"]
)
def test_vectors_follow_the_equations(tmp_path, changes):
    """Vectors are log(1 + the largest logit) by the equations, in a batch of padded, long, empty and Unicode texts."""
    folder = gte(tmp_path / "gte", **changes)
    made = encoder(folder)
    tokens = made.tokenise_documents([Document("", text) for text in TEXTS])
    texts = [torch.tensor(tokens.ids[a:b]).long() for a, b in zip(tokens.starts[:-1], tokens.starts[1:], strict=True)]
    expected = [np.log1p(reference(folder, ids).amax(0).clamp(min=0).numpy()) for ids in texts]

    assert isinstance(load_masked_lm(masked_lm_files(folder), dtype=torch.float32).body, new.New)
    assert np.allclose(made.encode_document(TEXTS).toarray(), expected, rtol=0, atol=1e-5)
    assert any(note.endswith("lexbench runs none of it, and follows config.json") for note in made.notes())
    assert made.identity()


def test_states_of_padding_are_computed_on_request(tmp_path):
    """Unseen positions, e.g. [MASK] in the queries of ColBERT, see the real tokens alone, by the equations."""
    folder = gte(tmp_path / "gte")
    model = load_masked_lm(masked_lm_files(folder), dtype=torch.float32)
    ids = torch.randint(2, 100, (2, 9), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        states = model.body(ids, torch.arange(9) < torch.tensor([[5], [9]]), padding=True).last_hidden_state
        logits = functional.linear(model.transform(states), model.weight, model.bias)
    for found, row, seen in zip(logits, ids, (5, 9), strict=True):
        assert np.allclose(found, reference(folder, row, seen), rtol=0, atol=1e-5)


def test_fewer_bits_come_close(tmp_path):
    """Vectors in bfloat16 and int8 are near those in float32."""
    folder = gte(tmp_path / "gte")
    exact = encoder(folder).encode_document(TEXTS).toarray()
    for dtype in ("bfloat16", *(["int8"] if int8_works() else [])):
        rough = encoder(folder, dtype=dtype).encode_document(TEXTS).toarray()
        assert ((exact * rough).sum(1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(rough, axis=1)).min() > 0.99


def test_queries_are_looked_up_as_in_doc_v3_gte(tmp_path):
    """With idf.json the folder is a model without inference for queries, and documents go through two logarithms."""
    folder = gte(tmp_path / "gte")
    (folder / "idf.json").write_text(json.dumps({"sparse": 2.5, "neural": 1.5}))
    made = encoder(folder, "inference_free", activation="log1p_log1p_relu")

    assert sorted(made.encode_query(["sparse neural sparse"]).data.tolist()) == [1.5, 2.5]
    once = encoder(folder).encode_document(TEXTS).toarray()
    assert np.allclose(made.encode_document(TEXTS).toarray(), np.log1p(once), rtol=0, atol=1e-6)


UNUSUAL = {
    "pack_qkv": False,
    "logn_attention_scale": True,
    "layer_norm_type": "rms_norm",
    "position_embedding_type": "absolute",
}
UNUSUAL |= {"rope_scaling": {"type": "yarn", "factor": 2.0}, "hidden_act": "relu", "num_attention_heads": 3, "rope_theta": None}


@pytest.mark.parametrize("setting", UNUSUAL)
def test_what_cannot_be_computed_is_refused_by_name(tmp_path, setting):
    """An unusual setting is an error of one line that names it, because transformers has no such model."""
    folder = gte(tmp_path / "gte", **{setting: UNUSUAL[setting]})

    with pytest.raises(CommandError, match=rf"config.json: lexbench does not compute a model with {setting} = "):
        encoder(folder).encode_document(["x"])
