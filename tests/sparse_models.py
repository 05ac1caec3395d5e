"""Writes tiny checkpoints laid out like those of the sparse models of 2026: SPARSEUP, SlideOn and OpenSearch's doc-v3-gte."""

import json

import checkpoints
import numpy as np
import torch

FEATURES = 96  # latent ones of `slideon`
VOCABULARY = (*checkpoints.VOCABULARY[:-2], "[q]", "[d]")  # the tokenizer writes prompts in lower case
SPARSEUP_RULES = {
    "logit_shift": 1.5,
    "position_top_k": 4,
    "vocab_fold": "case_space",
    "query_prefix": "[Q] ",
    "document_prefix": "[D] ",
}
AUTO_MAP = {"auto_map": {"AutoModel": "modeling_splade.SparseModel"}}
FOLD = np.arange(len(VOCABULARY))
FOLD[100:150] = np.arange(50, 100)  # fifty terms are folded onto others
# The keys of Alibaba-NLP's config.json files.
GTE_CONFIG = {
    "architectures": ["NewForMaskedLM"], "auto_map": {"AutoModelForMaskedLM": "Alibaba-NLP/new-impl--modeling.NewForMaskedLM"},
    "attention_probs_dropout_prob": 0.0, "classifier_dropout": None, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
    "hidden_size": 32, "initializer_range": 0.02, "intermediate_size": 48, "layer_norm_eps": 1e-12,
    "layer_norm_type": "layer_norm", "logn_attention_clip1": False, "logn_attention_scale": False,
    "max_position_embeddings": 256, "model_type": "new",
    "num_attention_heads": 2, "num_hidden_layers": 2, "pack_qkv": True, "pad_token_id": 0, "position_embedding_type": "rope",
    "rope_scaling": {"factor": 2.0, "type": "ntk"}, "rope_theta": 500_000, "torch_dtype": "float16", "type_vocab_size": 0,
    "transformers_version": "4.41.2", "unpad_inputs": False, "use_memory_efficient_attention": False,
    "vocab_size": len(checkpoints.VOCABULARY),
}  # fmt: skip


def sparseup(path, prefix="", table="vocab_fold_index", *, scale=1.0, **changes):
    """Write a checkpoint like SPARSEUP's: a ModernBERT, the table of folded terms among its tensors, and code; return it.

    *scale* multiplies the logits, but for their bias.
    """
    folder = checkpoints.masked_lm(path, "modernbert", vocabulary=VOCABULARY, local_attention=16, max_position_embeddings=512)
    checkpoints.reconfigure(folder, **SPARSEUP_RULES | AUTO_MAP | changes)
    modules = [{"idx": 0, "name": "0", "path": "", "type": "custom_st.SparseModule"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "modeling_splade.py").write_text("raise SystemExit('this code ran')")

    def change(state):  # both matrices are saved, as in theirs, under a prefix of the class around the model
        state["head.norm.weight"] *= scale
        state["decoder.weight"] = state["model.embeddings.tok_embeddings.weight"].clone()
        extra = {table: torch.tensor(FOLD)} if table else {}
        return {f"{prefix}{name}": tensor for name, tensor in state.items()} | extra

    return checkpoints.rewrite(folder, change)


def slideon(path, *, model_type="modernbert", nested=False, extra=None, drop=()):
    """Write a checkpoint like SlideOn's: a ModernBERT and the encoder of its autoencoder in one file; return its path.

    Its card states the formula and sizes. The names of its tensors and settings are not public, so these are made up.
    """
    folder = checkpoints.masked_lm(path, "modernbert", local_attention=16, max_position_embeddings=512)
    generator = torch.Generator().manual_seed(9)

    def change(state):
        kept = {f"backbone.{name.removeprefix('model.')}": one for name, one in state.items() if name.startswith("model.")}
        kept["sae.encoder.weight"] = torch.randn(FEATURES, 32, generator=generator)
        kept["sae.encoder.bias"] = torch.randn(FEATURES, generator=generator) / 3
        return {name: one for name, one in (kept | (extra or {})).items() if name not in drop}

    checkpoints.rewrite(folder, change)
    config = json.loads((folder / "config.json").read_text())
    if nested:
        config = {"model_type": model_type, "backbone_config": config}
    auto_map = {"auto_map": {"AutoModel": "modeling.Latent"}}
    (folder / "config.json").write_text(json.dumps(config | {"model_type": model_type} | auto_map))
    return folder


def shapes(config):
    """Return the shape of each tensor."""
    width, inner, terms = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    found = {"new.embeddings.word_embeddings.weight": (terms, width), "lm_head.decoder.bias": (terms,)}
    if config["type_vocab_size"]:
        found["new.embeddings.token_type_embeddings.weight"] = (config["type_vocab_size"], width)
    names = {"attention.qkv_proj": 3 * width, "attention.o_proj": width, "attn_ln": 0, "mlp_ln": 0}
    for layer in range(config["num_hidden_layers"]):
        under = f"new.encoder.layer.{layer}"
        for name, outputs in names.items():
            found[f"{under}.{name}.weight"] = (outputs, width) if outputs else (width,)
            found[f"{under}.{name}.bias"] = (outputs or width,)
        found[f"{under}.mlp.up_gate_proj.weight"] = (2 * inner, width)
        found[f"{under}.mlp.down_proj.weight"], found[f"{under}.mlp.down_proj.bias"] = (width, inner), (width,)
    for name in ("new.embeddings.LayerNorm", "lm_head.norm"):
        found[f"{name}.weight"] = found[f"{name}.bias"] = (width,)
    return found | {"lm_head.dense.weight": (width, width), "lm_head.dense.bias": (width,)}


def gte(path, **changes):
    """Write a checkpoint with random weights; return its path."""
    path.mkdir()
    config = GTE_CONFIG | changes
    generator = torch.Generator().manual_seed(4)
    (path / "config.json").write_text(json.dumps(config))
    state = {name: torch.randn(shape, generator=generator) * 0.25 for name, shape in shapes(config).items()}
    checkpoints.write_weights(path, state, safetensors=True)
    checkpoints.write_tokenizer(path)
    return path
