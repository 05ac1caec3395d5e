"""LoRA adapters: merged as peft applies them, by every kind of model; what cannot be merged is refused by name."""

import json
import os
import shutil

import checkpoints
import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from lexbench.encoders.dense import Dense
from lexbench.encoders.sparse_clm import SparseCLM
from lexbench.encoders.sparse_mlm import SparseMLM
from lexbench.errors import CommandError, InvalidFile, LexbenchError, MissingData
from lexbench.models import architectures
from lexbench.models.checkpoint import digests
from lexbench.models.transformer_model import ModelSpec, loaded

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # of peft

TEXTS = ["sparse neural search", "the weight of a term is lexical and dense a b c w1 w2 w3", "query", "w5 w6 unheard of w7"]
LENGTHS = {"query_length": 48, "document_length": 48, "device": "cpu"}
CONFIG = {"peft_type": "LORA", "r": 2, "lora_alpha": 3, "bias": "none", "init_lora_weights": True, "use_rslora": False}
QUERY = "encoder.layer.1.attention.self.query"


def adapter(folder, base, matrices, **settings):
    """Write an adapter of *base* with *matrices* by module, pairs (B, A) of torch, and return its folder."""
    folder.mkdir()
    pairs = {f"{module}.lora_{name}": pair[at] for module, pair in matrices.items() for at, name in enumerate("BA")}
    tensors = {f"base_model.model.{name}.weight": matrix for name, matrix in pairs.items()}
    save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({**CONFIG, "base_model_name_or_path": str(base), **settings}))
    return folder


def pair(out, into, seed=0, rank=2):
    """Return random matrices B (out, rank) and A (rank, into)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(out, rank, generator=generator), torch.randn(rank, into, generator=generator)


@pytest.mark.parametrize(("by_root", "scale"), [(False, 3 / 2), (True, 3 / 2**0.5)])
@pytest.mark.parametrize("prefix", ["", "bert."])  # as AutoModel and as AutoModelForMaskedLM call it
def test_what_is_added_is_worked_out_by_hand(tmp_path, bert, prefix, by_root, scale):
    """An adapter gives the vectors of a model with alpha/r B A (or alpha/sqrt(r) B A) added to its weights."""
    second, first = pair(32, 32)
    lora = adapter(tmp_path / "lora", bert, {prefix + QUERY: (second, first)}, use_rslora=by_root)
    name = f"bert.{QUERY}.weight"
    copy = shutil.copytree(bert, tmp_path / "whole")
    whole = checkpoints.rewrite(copy, lambda state: state | {name: state[name] + scale * second @ first})
    for encoder, settings in ((Dense, {"pooling": "cls"}), (SparseMLM, {})):
        found, wanted, before = (encoder(str(one), **LENGTHS, **settings) for one in (lora, whole, bert))
        np.testing.assert_allclose(vectors(found), vectors(wanted), rtol=1e-4, atol=1e-5)
        assert np.abs(vectors(found) - vectors(before)).max() > 0.01


def vectors(encoder, texts=TEXTS):
    """Return the vectors of documents, dense or not, as an array."""
    found = encoder.encode_document(texts)
    return found if isinstance(found, np.ndarray) else found.toarray()


def saved_by_peft(folder, model, **settings):
    """Let peft save a random adapter of *model* to *folder*; return the adapted model, unmerged."""
    peft = pytest.importorskip("peft", reason="the reference is peft, which the extra test has")
    torch.manual_seed(3)
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=4, lora_alpha=6, **settings)).eval()
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_" in name or "modules_to_save" in name:
                parameter.normal_(0, 0.3)
    adapted.save_pretrained(folder)
    return adapted


def inputs(folder, *texts):
    """Return the tokens of one text or pair."""
    return transformers.AutoTokenizer.from_pretrained(folder)(*texts, truncation=True, max_length=48, return_tensors="pt")


@pytest.mark.parametrize("settings", [{}, {"use_rslora": True, "rank_pattern": {"layers.1.mlp.up_proj": 3}}])
@pytest.mark.parametrize("whole", [False, True])
def test_causal_models_give_what_peft_gives(tmp_path, whole, settings):
    """`dense` and `sparse_clm` give peft's results for adapters of the body or of the whole model, also with several ranks."""
    base = checkpoints.causal_lm(tmp_path / "base", "qwen3")
    auto = transformers.AutoModelForCausalLM if whole else transformers.AutoModel
    modules = ["q_proj", "v_proj", "up_proj", "down_proj"]
    adapted = saved_by_peft(tmp_path / "lora", auto.from_pretrained(base), target_modules=modules, **settings)
    body = adapted.base_model.model.model if whole else adapted
    with torch.no_grad():
        states = [body(inputs(base, text).input_ids).last_hidden_state[0] for text in TEXTS]
    found = Dense(str(tmp_path / "lora"), pooling="last", **LENGTHS)
    np.testing.assert_allclose(vectors(found), [one[-1].numpy() for one in states], rtol=1e-4, atol=1e-5)

    projection = transformers.AutoModelForCausalLM.from_pretrained(base).lm_head.weight
    weights = [torch.log1p(torch.relu((one @ projection.T).max(0).values)).detach().numpy() for one in states]
    np.testing.assert_allclose(vectors(SparseCLM(str(tmp_path / "lora"), **LENGTHS)), weights, rtol=1e-4, atol=1e-5)


def test_a_folder_of_sentence_transformers_with_an_adapter(tmp_path, bert):
    """A folder of sentence-transformers with an adapter gives the vectors of sentence-transformers."""
    peft = pytest.importorskip("peft", reason="the reference is peft, which the extra test has")
    theirs = checkpoints.sentence_transformer(tmp_path / "plain", bert, prompts={"query": "w1 "})
    theirs.add_adapter(peft.LoraConfig(r=2, target_modules=["query", "dense"], init_lora_weights=False))
    theirs.save(str(tmp_path / "saved"))
    stated = Dense.checkpoint_defaults({"model": str(tmp_path / "saved")})
    assert not (tmp_path / "saved" / "model.safetensors").exists()

    ours = Dense(str(tmp_path / "saved"), device="cpu", **stated)
    documents, queries = (encode(TEXTS, normalize_embeddings=True) for encode in (theirs.encode_document, theirs.encode_query))
    np.testing.assert_allclose(vectors(ours), documents, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.encode_query(TEXTS), queries, rtol=1e-4, atol=1e-5)


def test_keys_have_both_digests(tmp_path, bert):
    """Another model, other matrices or another scale change the identity; paths and dropout do not."""
    lora = adapter(tmp_path / "lora", bert, {QUERY: pair(32, 32)})
    identity = Dense(str(lora), pooling="cls", **LENGTHS).identity()
    plain = Dense(str(bert), pooling="cls", **LENGTHS).identity()
    other = checkpoints.masked_lm(tmp_path / "other", "bert", seed=5)
    variants = [
        adapter(tmp_path / "model", other, {QUERY: pair(32, 32)}),
        adapter(tmp_path / "matrices", bert, {QUERY: pair(32, 32, seed=1)}),
        adapter(tmp_path / "scale", bert, {QUERY: pair(32, 32)}, lora_alpha=4),
        adapter(tmp_path / "root", bert, {QUERY: pair(32, 32)}, use_rslora=True),
    ]
    identities = [json.dumps(Dense(str(one), pooling="cls", **LENGTHS).identity()) for one in variants]
    assert len({json.dumps(identity), json.dumps(plain), *identities}) == 6

    moved = adapter(tmp_path / "moved", "gone/nowhere", {QUERY: pair(32, 32)}, lora_dropout=0.1)
    (moved / "base").symlink_to(bert)
    assert Dense(str(moved), pooling="cls", **LENGTHS).identity() == identity
    files = {str(bert / "model.safetensors"), str(lora / "adapter_model.safetensors")}
    assert set(map(str, Dense.checkpoint_files(lora).all_weights)) == files


BASE = "base_model_name_or_path"
REFUSED = [
    ({"peft_type": "IA3"}, CommandError, "an adapter of type 'IA3'; lexbench merges LORA alone: merge it with peft"),
    ({"use_dora": True}, CommandError, "use_dora=True, which lexbench does not merge; merge it with peft"),
    ({"fan_in_fan_out": True}, CommandError, "fan_in_fan_out=True, which"),
    ({"alpha_pattern": {"query": 8}}, CommandError, "alpha_pattern={'query': 8}, which"),
    ({"bias": "all"}, CommandError, "bias='all', which"),
    ({"init_lora_weights": "pissa"}, CommandError, "init_lora_weights='pissa', which"),
    ({"a_setting_to_come": 1}, CommandError, "a_setting_to_come=1, which"),
    ({"lora_alpha": "much"}, InvalidFile, "a file of settings makes no sense"),
    ({BASE: None}, MissingData, "an adapter that names no model; put its model, or a link to it, there as base"),
    ({BASE: "/no/where"}, MissingData, "its model cannot be found .*; put it, or a link to it, there as base"),
]


@pytest.mark.parametrize(("settings", "error", "message"), REFUSED, ids=[next(iter(case[0])) for case in REFUSED])
def test_unsupported_adapters_are_refused_by_name(tmp_path, bert, settings, error, message):
    """Any other setting that changes weights is refused by name, and so is a missing model."""
    lora = adapter(tmp_path / "lora", bert, {QUERY: pair(32, 32)}, **settings)
    with pytest.raises(error, match=message):
        Dense(str(lora), pooling="cls", **LENGTHS).identity()


def test_files_that_do_not_fit_are_refused(tmp_path, bert):
    """Pickles, other weights, other shapes, half a pair, unknown modules and embeddings are refused in one line."""

    def saying(folder, **changes):
        state = load_file(folder / "adapter_model.safetensors")
        for name, tensor in changes.items():
            state.pop(name, None)
            state |= {} if tensor is None else {name: tensor}
        save_file(state, folder / "adapter_model.safetensors")
        with pytest.raises(LexbenchError) as raised:
            vectors(Dense(str(folder), pooling="cls", **LENGTHS))
        return str(raised.value)

    lora = adapter(tmp_path / "lora", bert, {QUERY: pair(32, 32)})
    name = f"base_model.model.{QUERY}.lora"
    said = saying(lora, **{f"{name}_A.weight": torch.ones(2, 31)})
    assert "matrices of (32, 2) and (2, 31) for (32, 32) of torch.float32 do not fit" in said
    none = adapter(tmp_path / "none", bert, {QUERY: (torch.ones(32, 0), torch.ones(0, 32))})
    assert "matrices of (32, 0) and (0, 32) for (32, 32)" in saying(none)
    whole = {"bert." + QUERY + ".weight": torch.ones(32, 32, dtype=torch.int8)}
    eight = checkpoints.rewrite(shutil.copytree(bert, tmp_path / "int8"), lambda state: state | whole)
    assert "for (32, 32) of torch.int8 do not fit" in saying(adapter(tmp_path / "of-int8", eight, {QUERY: pair(32, 32)}))
    assert "one of a pair of matrices is missing" in saying(lora, **{f"{name}_A.weight": None})
    odd = adapter(tmp_path / "odd", bert, {"encoder.layer.7.attention.self.query": pair(32, 32)})
    assert "the model has no encoder.layer.7.attention.self.query; take the base" in saying(odd)
    words = adapter(tmp_path / "words", bert, {QUERY: pair(32, 32)})
    embedding = "base_model.model.embeddings.word_embeddings.weight"
    assert "does not merge its tensor embeddings.word_embeddings.weight" in saying(words, **{embedding: torch.ones(200, 32)})

    pickled = adapter(tmp_path / "pickled", bert, {QUERY: pair(32, 32)})
    (pickled / "adapter_model.safetensors").rename(pickled / "adapter_model.bin")
    with pytest.raises(MissingData, match=r"no adapter_model.safetensors \(an adapter_model.bin is a pickle"):
        Dense.checkpoint_files(pickled)
    both = adapter(tmp_path / "both", bert, {QUERY: pair(32, 32)})
    shutil.copy(bert / "model.safetensors", both)
    with pytest.raises(CommandError, match=r"an adapter .* and the weights of a whole model; keep one of them"):
        Dense.checkpoint_files(both)
    twice = adapter(tmp_path / "twice", odd, {QUERY: pair(32, 32)})
    with pytest.raises(CommandError, match="is an adapter itself; merge it with peft"):
        Dense.checkpoint_files(twice)
    with pytest.raises(CommandError, match="does not merge into a reranker; merge it with peft"):
        architectures.classifier_files(words)
    assert digests(Dense.checkpoint_files(odd))["weights"] != digests(Dense.checkpoint_files(bert))["weights"]


@pytest.mark.parametrize("changed", ["lora/adapter_model.safetensors", "base/model.safetensors"])
def test_a_model_in_memory_is_loaded_again_if_its_files_or_those_of_its_base_have_changed(tmp_path, changed):
    """Other bytes in a file of the same size and, as it says, of the same time are another model."""
    (tmp_path / "base").mkdir()
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "base" / name).write_text("{}")
    adapter(tmp_path / "lora", tmp_path / "base", {QUERY: pair(4, 4)})
    spec = ModelSpec(str(tmp_path / "lora"), None, "float32", "cpu")
    first = loaded(new_model, spec)
    assert loaded(new_model, spec) is first
    path, times = tmp_path / changed, (tmp_path / changed).stat()
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert loaded(new_model, spec) is not first


def new_model(_spec):
    """Return something new, in place of a model."""
    return object()
