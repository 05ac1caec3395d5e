"""Settings of an encoder that the folder of its model states, e.g. lengths, pooling and prompts.

Each `..._defaults` function takes the checkpoint's folder and its config.json, and returns settings of one encoder by name.
They come from the table `lexbench` in config.json (written by our trainings), else from the files of the model's authors
(LexMAE, ColBERT), or of sentence-transformers and PyLate. Unsupported ways of encoding are refused. Loads no torch.
"""

from collections.abc import Mapping
from pathlib import Path
from string import punctuation
from typing import Any

from lexbench.errors import CommandError, InvalidFile
from lexbench.models.checkpoint import (
    ABOUT,
    TRANSFORMER,
    Module,
    folder_reader,
    longest_text,
    modules,
    optional_json,
    prompts,
    read_json,
    routes,
)
from lexbench.notation import write_value

EXACT_TERMS = "exact_terms"  # in the table `lexbench`: true if the folder has the file below (see the module `added_terms`)
EXACT_TERMS_FILE = "exact_terms.safetensors"
TEXT_HEAD_FILE = (
    "text_head.safetensors"  # see the module `added_terms`; the settings `text_terms` and `query_text_terms` use it
)
K1, B = 0.9, 0.4  # BM25 parameters of exact terms, the defaults of Anserini
POOLINGS = ("mean", "cls", "last")
_SPLADE_MODULES = ("Transformer", "SpladePooling")  # sentence-transformers before 5.4 has MLMTransformer
_ACTIVATIONS = {"relu": "log1p_relu", "log1p_relu": "log1p_log1p_relu"}  # theirs does not count the last logarithm, ours does
_LEXMAE_CLASSES = ("EDMLM", "SpladeEnocder")  # endings of the authors' class names; the misspelling is theirs
# Settings of config.json that say how logits become weights, in the models of Linkup (SPARSEUP): theirs, and ours if another.
VOCABULARY_RULES = {
    "logit_shift": "logit_shift",
    "position_top_k": "position_top_k",
    "vocab_fold": "vocab_fold",
    "query_prefix": "query_prompt",
    "document_prefix": "document_prompt",
}
_AUTOENCODER = "SparseAutoEncoder"
_FOLDED = {"case_space": "max", "none": "none", None: "none"}  # their values of vocab_fold, and ours
OF_ANY_MODEL = {  # settings of config.json that any model may have, and that change no vector
    *("_name_or_path", "architectures", "auto_map", "model_type", "transformers_version", "torch_dtype", "dtype", "lexbench"),
    *("tie_word_embeddings", "quantization_config", "pad_token_id", "bos_token_id", "eos_token_id", "id2label", "label2id"),
    *("output_attentions", "output_hidden_states", "return_dict", "use_cache", "problem_type", "chunk_size_feed_forward"),
    *("is_decoder", "is_encoder_decoder", "add_cross_attention", "cross_attention_hidden_size"),
}
_HEADS = {(): "none", ("Dense",): "linear", ("Dense", "LayerNorm"): "linear_layernorm"}
_COLBERT_NAMES = {  # their setting: ours
    "query_maxlen": "query_length",
    "doc_maxlen": "document_length",
    "query_token_id": "query_marker",
    "doc_token_id": "document_marker",
    "mask_punctuation": "skip_punctuation",
    "attend_to_mask_tokens": "attend_to_masks",
}
_PYLATE_NAMES = {
    "query_length": "query_length",
    "document_length": "document_length",
    "query_prefix": "query_marker",
    "document_prefix": "document_marker",
    "attend_to_expansion_tokens": "attend_to_masks",
}
_PYLATE_DEFAULTS = {"query_length": 32, "document_length": 180, "query_prefix": "[Q] ", "document_prefix": "[D] "}


def _lexbench_table(folder: Path, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the settings that our trainings write into config.json, None if there is no such table."""
    if "lexbench" not in config:
        return None
    if not isinstance(config["lexbench"], dict):
        raise InvalidFile(f"{folder}: `lexbench` in config.json is no table of settings")
    return dict(config["lexbench"])


# ---- what a folder is ------------------------------------------------------------------------------------------------------


def expression_of_folder(folder: Path) -> str:
    """Return the expression that runs the model in *folder* as what its files say it is; "" if they do not say."""
    kinds = [module.kind for module in modules(folder)]
    architectures = [str(name) for name in optional_json(folder / "config.json").get("architectures") or ()]
    model = write_value(str(folder))
    for kind, encoder in (("Router", "inference_free"), (_AUTOENCODER, "sparse_latent")):
        if kind in kinds:
            return f"{encoder}(model={model})@impact"
    if "SpladePooling" in kinds or (not kinds and any(name.endswith(("MaskedLM", *_LEXMAE_CLASSES)) for name in architectures)):
        return f"sparse_mlm(model={model})@impact"
    if kinds == ["Transformer", "Dense"] or (folder / "artifact.metadata").is_file():
        return f"late_interaction(model={model})"
    if "Pooling" in kinds:
        return f"dense(model={model})"
    if any("SequenceClassification" in name for name in architectures):
        return f"rerank(bm25, cross_encoder(model={model}))"
    return ""


def instead(folder: Path, encoder: str) -> str:
    """Return what to type for the model in *folder*, as the end of a message, if that is no encoder of this name."""
    expression = expression_of_folder(folder)
    return f"; its files say that it is {expression}" if expression and not expression.startswith(encoder) else ""


# ---- sparse_mlm ------------------------------------------------------------------------------------------------------------


@folder_reader
def sparse_mlm_defaults(folder: Path, config: Mapping[str, Any], *, documents_only: bool = False) -> dict[str, Any]:
    """Return the settings of `sparse_mlm` that a folder states; *documents_only* as in `sparse_encoder_modules`."""
    if (table := _lexbench_table(folder, config)) is not None:
        return table
    if states_vocabulary_rules(folder):
        return _vocabulary_rules(folder, config)
    if modules(folder):
        return _sparse_encoder_settings(folder, config, documents_only=documents_only)
    by_the_authors = any(str(name).endswith(_LEXMAE_CLASSES) for name in config.get("architectures") or ())
    if by_the_authors or "keep_special_tokens" in config:
        return {"positions": "all" if config.get("keep_special_tokens") else "text"}
    return {}


@folder_reader
def states_vocabulary_rules(folder: Path) -> bool:
    """Return whether config.json says how logits become weights. Then modules of the folder only run its authors' code."""
    return any(name in VOCABULARY_RULES for name in optional_json(folder / "config.json"))


def _vocabulary_rules(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in a config.json of Linkup's; their prompts are attended to and do not pool."""
    stated = {ours: config[theirs] for theirs, ours in VOCABULARY_RULES.items() if theirs in config}
    if (fold := stated.get("vocab_fold")) not in _FOLDED:
        known = ", ".join(repr(name) for name in _FOLDED if name)
        raise CommandError(f"{folder}: config.json says vocab_fold={fold!r}; lexbench knows {known}")
    given = {name: value for name, value in stated.items() if value is not None} | {"vocab_fold": _FOLDED[fold]}
    shift, most = given.get("logit_shift", 0.0), given.get("position_top_k", 0)
    prompts_given = [given.get(name, "") for name in ("query_prompt", "document_prompt")]
    if type(shift) not in (int, float) or type(most) is not int or not all(isinstance(one, str) for one in prompts_given):
        raise InvalidFile(f"{folder}: config.json has a logit_shift, position_top_k or prefix of a wrong type")
    return given | {"logit_shift": float(shift), "pool_prompts": False}


def sparse_encoder_modules(folder: Path, *, documents_only: bool = False) -> list[Module]:
    """Return the two modules of a SparseEncoder of sentence-transformers.

    With *documents_only* they may be a Router's modules for documents. Raises CommandError for another kind of model.
    """
    found = routes(folder) if documents_only else None
    listed = found.document if found else modules(folder)
    kinds = [module.kind for module in listed]
    if tuple("Transformer" if kind == "MLMTransformer" else kind for kind in kinds) != _SPLADE_MODULES:
        hint = ", which often has no model for queries (inference-free)" if "Router" in kinds else ""
        hint += ": type inference_free(model=…)" if "Router" in kinds and not documents_only else ""
        raise CommandError(
            f"{folder}: a model of {' and '.join(kinds) or 'no modules'}{hint}; "
            f"lexbench takes sentence-transformers models of {' and '.join(_SPLADE_MODULES)}{instead(folder, 'sparse')}"
        )
    return listed


def _sparse_encoder_settings(folder: Path, config: Mapping[str, Any], *, documents_only: bool) -> dict[str, Any]:
    listed = sparse_encoder_modules(folder, documents_only=documents_only)
    transformer, pooling = (folder / module.subfolder for module in listed)
    pooling_config = read_json(pooling / "config.json")
    if (strategy := pooling_config.get("pooling_strategy", "max")) != "max":
        raise CommandError(f"{folder}: it pools by {strategy!r}; lexbench encodes models that pool by 'max'")
    if (activation := pooling_config.get("activation_function", "relu")) not in _ACTIVATIONS:
        raise CommandError(f"{folder}: its activation is {activation!r}; lexbench does {', '.join(_ACTIVATIONS)}")
    if optional_json(transformer / TRANSFORMER).get("do_lower_case"):
        raise CommandError(f"{folder}: it lower-cases texts ({TRANSFORMER}); leave that to the tokenizer")
    rules = {"positions": "all", "activation": _ACTIVATIONS[activation]}
    return {**rules, **_prompt_settings(optional_json(folder / ABOUT)), **_lengths(transformer, config)}


# ---- sparse_latent ---------------------------------------------------------------------------------------------------------


@folder_reader
def sparse_latent_defaults(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `sparse_latent` that a folder of sentence-transformers states, {} for another folder."""
    kinds = [module.kind for module in modules(folder)]
    if _AUTOENCODER not in kinds:
        return {}
    transformer, *between, autoencoder = modules(folder)
    allowed = (["Pooling"], ["Pooling", "Normalize"])
    if transformer.kind != "Transformer" or [one.kind for one in between] not in allowed or autoencoder.kind != _AUTOENCODER:
        raise CommandError(
            f"{folder}: a model of {' and '.join(kinds)}; the encoder `sparse_latent` takes sentence-transformers models of "
            f"Transformer, Pooling and {_AUTOENCODER}, with or without Normalize between them"
        )
    about, head = optional_json(folder / ABOUT), read_json(folder / autoencoder.subfolder / "config.json")
    if (similarity := about.get("similarity_fn_name") or "dot") != "dot":
        raise CommandError(f"{folder}: its similarity is {similarity!r} ({ABOUT}); engines of sparse vectors do 'dot'")
    scalings = ["length"] * (len(between) - 1) + ["layer_norm"] * bool(head.get("normalize"))
    if len(scalings) > 1:
        raise CommandError(f"{folder}: it scales states by Normalize and by its {_AUTOENCODER}; lexbench does one of them")
    return {
        "pooling": pooling_mode(folder / between[0].subfolder),
        "scaling": scalings[0] if scalings else "none",
        "active": int(head["k"]),
        **_prompt_settings(about),
        **_lengths(folder / transformer.subfolder, config),
    }


# ---- dense -----------------------------------------------------------------------------------------------------------------


@folder_reader
def dense_defaults(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `dense` that a folder states."""
    if (table := _lexbench_table(folder, config)) is not None:
        return table
    listed = modules(folder)
    if not listed:
        return {}
    kinds = [module.kind for module in listed]
    head = tuple(kind for kind in kinds[2:] if kind != "Normalize")
    if kinds[:2] != ["Transformer", "Pooling"] or head not in _HEADS:
        raise CommandError(
            f"{folder}: a model of {' and '.join(kinds)}; the encoder `dense` takes sentence-transformers models of "
            f"Transformer and Pooling, with or without Dense, LayerNorm and Normalize behind them{instead(folder, 'dense')}"
        )
    for module in listed[2:]:
        if module.kind == "Dense":
            activation = str(read_json(folder / module.subfolder / "config.json").get("activation_function", "Tanh"))
            if (kind := activation.rpartition(".")[2]) != "Identity":
                raise CommandError(f"{folder}: a Dense layer with {kind}; lexbench takes Dense layers without activation")
    about = optional_json(folder / ABOUT)
    cosine = "Normalize" in kinds or (about.get("similarity_fn_name") or "cosine") == "cosine"
    transformer, pooling = (folder / module.subfolder for module in listed[:2])
    mode, given = pooling_mode(pooling), _prompt_settings(about)
    if read_json(pooling / "config.json").get("include_prompt") is False and mode == "mean" and any(given.values()):
        raise CommandError(f"{pooling}: it leaves prompts out of the mean (include_prompt); lexbench does not")
    lowercase = {"lowercase": True} if optional_json(transformer / TRANSFORMER).get("do_lower_case") else {}
    return {
        "pooling": mode,
        "head": _HEADS[head],
        "similarity": "cosine" if cosine else "dot",  # the default of sentence-transformers is cosine
        **given,
        **lowercase,
        **_lengths(transformer, config),
    }


def pooling_mode(folder: Path) -> str:
    """Return how the module Pooling in *folder* pools, one of POOLINGS. Raises CommandError for another way.

    Its settings have two forms: `pooling_mode`, or one boolean per way.
    """
    config = read_json(folder / "config.json")
    switches = [name for name, value in config.items() if value is True and name.startswith("pooling_mode_")]
    ways = [name.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token") for name in switches]
    pooling = config.get("pooling_mode", ways[0] if len(ways) == 1 else ways)
    pooling = "last" if pooling == "lasttoken" else pooling
    if pooling not in POOLINGS:
        raise CommandError(f"{folder}: it pools by {pooling!r}; lexbench does {', '.join(POOLINGS)}")
    return str(pooling)


def _prompt_settings(about: Mapping[str, Any]) -> dict[str, str]:
    """Return the prompts of queries and documents; a role without a prompt of its name gets the folder's default prompt."""
    by_name = about.get("prompts") or {}
    default = by_name.get(about.get("default_prompt_name"), "")
    names = {"query_prompt": ("query",), "document_prompt": ("document", "passage", "corpus")}
    settings = {ours: next((by_name[name] for name in theirs if name in by_name), default) for ours, theirs in names.items()}
    return {name: str(prompt) for name, prompt in settings.items() if prompt}


def _lengths(transformer: Path, config: Mapping[str, Any]) -> dict[str, int]:
    """Return how many tokens of a text sentence-transformers reads, as both lengths; {} if nothing states it.

    Before version 6 a separate file states it. Since then it is the tokenizer's limit (10**30 means none) or the model's
    number of positions, whichever is smaller.
    """
    length = optional_json(transformer / TRANSFORMER).get("max_seq_length")
    if type(length) is not int:
        tokenizer = optional_json(transformer / "tokenizer_config.json")
        positions, pad = config.get("max_position_embeddings"), config.get("pad_token_id") or 0
        longest = longest_text(positions if type(positions) is int else None, config.get("model_type"), pad)
        limits = tokenizer.get("model_max_length"), longest
        length = min((limit for limit in limits if type(limit) is int), default=None)
    return {"query_length": length, "document_length": length} if length else {}


# ---- late_interaction ------------------------------------------------------------------------------------------------------


@folder_reader
def late_interaction_defaults(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `late_interaction` that a folder states."""
    if (table := _lexbench_table(folder, config)) is not None:
        return table
    if listed := modules(folder):
        return _pylate_settings(folder, [module.kind for module in listed])
    colbert = optional_json(folder / "artifact.metadata")
    if (similarity := colbert.get("similarity", "cosine")) != "cosine":
        raise CommandError(f"{folder}: its similarity is {similarity!r} (artifact.metadata); lexbench does 'cosine'")
    masks = {"mask_queries_to": colbert["query_maxlen"]} if "query_maxlen" in colbert else {}
    return _renamed(colbert, _COLBERT_NAMES) | masks


def _pylate_settings(folder: Path, kinds: list[str]) -> dict[str, Any]:
    if kinds != ["Transformer", "Dense"]:
        raise CommandError(
            f"{folder}: a model of {' and '.join(kinds)}; the encoder `late_interaction` takes models of ColBERT, and PyLate "
            f"models of Transformer and Dense{instead(folder, 'late_interaction')}"
        )
    stated = {name: value for name, value in optional_json(folder / ABOUT).items() if value is not None}
    pylate: dict[str, Any] = _PYLATE_DEFAULTS | stated
    if any(prompts(folder).values()):
        raise CommandError(f"{folder}: it puts a prompt before texts ({ABOUT}); lexbench does not")
    skipped = pylate.get("skiplist_words", list(punctuation))
    if skipped and set(skipped) != set(punctuation):
        raise CommandError(f"{folder}: skiplist_words ({len(skipped)} words) is not ASCII punctuation, which lexbench skips")
    masks = pylate["query_length"] if pylate.get("do_query_expansion", True) else 0
    return _renamed(pylate, _PYLATE_NAMES) | {"mask_queries_to": masks, "skip_punctuation": bool(skipped)}


def _renamed(settings: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {ours: settings[theirs] for theirs, ours in names.items() if settings.get(theirs) is not None}
