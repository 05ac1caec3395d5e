"""Settings of an encoder that the folder of its model states, e.g. lengths, pooling and prompts.

Each `..._defaults` function takes the checkpoint's folder and its config.json, and returns settings of one encoder by name.
They come from the table `lexbench` in config.json (written by our trainings), else from the files of the model's authors
(LexMAE, ColBERT), or of sentence-transformers and PyLate. Unsupported ways of encoding are refused. Loads no torch.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from string import punctuation
from typing import Any

from lexbench.errors import CommandError, InvalidFile
from lexbench.models.body_types import BODIES
from lexbench.models.checkpoint import (
    ABOUT,
    IDF,
    Module,
    folder_reader,
    module_kinds,
    modules,
    optional_json,
    prompts,
    routes,
    transformer_folder,
)
from lexbench.models.stated_modules import (
    HEAD_MODULES,
    About,
    Keys,
    about,
    head,
    length_limit,
    mask,
    pooling,
    splade_pooling,
    transformer,
)
from lexbench.notation import write_value

EXACT_TERMS = "exact_terms"  # in the table `lexbench`: true if the folder has the file below (see the module `added_terms`)
EXACT_TERMS_FILE = "exact_terms.safetensors"
TEXT_HEAD_FILE = (
    "text_head.safetensors"  # see the module `added_terms`; the settings `text_terms` and `query_text_terms` use it
)
K1, B = 0.9, 0.4  # BM25 parameters of exact terms, the defaults of Anserini
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
_OF_LATENT_STATES = ("mean", "cls", "last")  # poolings of states; "max" of `sparse_latent` is one of features
_FOLDED = {"case_space": "max", "none": "none", None: "none"}  # their values of vocab_fold, and ours
OF_ANY_MODEL = {  # settings of config.json that any model may have, and that change no vector
    *("_name_or_path", "architectures", "auto_map", "model_type", "transformers_version", "torch_dtype", "dtype", "lexbench"),
    *("tie_word_embeddings", "quantization_config", "pad_token_id", "bos_token_id", "eos_token_id", "id2label", "label2id"),
    *("output_attentions", "output_hidden_states", "return_dict", "use_cache", "problem_type", "chunk_size_feed_forward"),
    *("is_decoder", "is_encoder_decoder", "add_cross_attention", "cross_attention_hidden_size"),
}
_STATIC = "StaticEmbedding"
_SINGLE, _SPARSE, _MULTI = "SentenceTransformer", "SparseEncoder", "MultiVectorEncoder"  # classes of sentence-transformers
_MODEL2VEC = "embedding_dtype"  # model2vec writes it into every config.json
_METADATA = "artifact.metadata"  # settings of a ColBERT in the authors' form
_ONLY = {"similarity": "cosine", "interaction": "colbert", "pool_factor": 1}  # of them, with another effect otherwise


def _lexbench_table(folder: Path, config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the settings that our trainings write into config.json, None if there is no such table."""
    if "lexbench" not in config:
        return None
    if not isinstance(config["lexbench"], dict):
        raise InvalidFile(f"{folder}: `lexbench` in config.json is no table of settings")
    return dict(config["lexbench"])


# ---- what a folder is ------------------------------------------------------------------------------------------------------


def expression_of_folder(folder: Path) -> str:  # noqa: PLR0911 - one for each kind of model
    """Return the expression that runs the model in *folder* as what its files say it is; "" if they do not say."""
    kinds = [module.kind for module in modules(folder)]
    config = optional_json(folder / "config.json")
    architectures = [str(name) for name in config.get("architectures") or ()]
    stated, model = optional_json(folder / ABOUT), write_value(str(folder))
    by_cosine = stated.get("similarity_fn_name") == "cosine"  # whole numbers would be too coarse for weights below 1
    on_impact = "" if by_cosine else "@impact"
    by_model2vec = not kinds and (config.get("model_type") == "model2vec" or _MODEL2VEC in config)
    if by_model2vec or (kinds[:1] == [_STATIC] and set(kinds[1:]) <= {"Normalize", "Dropout"}):
        return f"static_embedding(model={model})"
    is_router = "Router" in kinds and not {"SpladePooling", "SparseStaticEmbedding"}.isdisjoint(module_kinds(folder))
    if is_router or (not kinds and (folder / IDF).is_file()):
        return f"inference_free(model={model}){on_impact}"
    if _AUTOENCODER in kinds:
        return f"sparse_latent(model={model})@impact"
    if "SpladePooling" in kinds or (not kinds and any(name.endswith(("MaskedLM", *_LEXMAE_CLASSES)) for name in architectures)):
        return f"sparse_mlm(model={model}){on_impact}"
    by_its_authors = "HF_ColBERT" in architectures or (folder / _METADATA).is_file()
    if by_its_authors or stated.get("model_type") in (_MULTI, "ColBERT") or _of_pylate(kinds):
        return f"late_interaction(model={model})"
    if kinds and (stated.get("model_type") or _SINGLE) == _SINGLE:
        usual = kinds[:2] == ["Transformer", "Pooling"] and set(kinds[2:]) <= {*HEAD_MODULES, "Dropout"}
        return f"dense(model={model})" if usual and _has_known_body(folder) else by_the_library(folder)
    if any("SequenceClassification" in name for name in architectures):
        return f"rerank(bm25, cross_encoder(model={model}))"
    return ""


def _has_known_body(folder: Path) -> bool:
    """Return whether lexbench itself computes the model_type in *folder*. An adapter states none."""
    return optional_json(transformer_folder(folder) / "config.json").get("model_type") in (None, *BODIES)


def check_body(folder: Path, model_types: Collection[str]) -> None:
    """Raise CommandError if *folder* lists modules around a model of none of *model_types*, which sentence-transformers has."""
    place = transformer_folder(folder)
    model_type = optional_json(place / "config.json").get("model_type")
    if model_type is None or model_type in model_types or not modules(folder):
        return
    hint = stated_object(folder) or f"type {by_the_library(folder)}"
    raise CommandError(f"{place}: lexbench does not compute model_type {model_type!r}; {hint}")


def give_object(kind: str) -> str:
    """Return what to do with a folder of sentence-transformers that lexbench cannot read; *kind* is the class of its object."""
    return f"give the object: lexbench.run(data, [{kind}(FOLDER)])"


def stated_object(folder: Path) -> str:
    """Return what to do with a *folder* that states a class that `sentence_transformer` does not run; else ""."""
    kind = optional_json(folder / ABOUT).get("model_type")
    return give_object(kind) if kind in (_SPARSE, _MULTI) else ""


def by_the_library(folder: Path) -> str:
    """Return the expression that lets sentence-transformers compute the model in *folder*."""
    return f"sentence_transformer(model={write_value(str(folder))})"


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
    place, pooled = (folder / module.subfolder for module in listed)
    strategy, activation = splade_pooling(pooled)
    if activation not in _ACTIVATIONS:
        raise CommandError(f"{folder}: its activation is {activation!r}; lexbench does {', '.join(_ACTIVATIONS)}")
    stated, keys = about(folder, _SPARSE), transformer(place, config, "fill-mask", _SPARSE)
    found = routes(folder) if documents_only else None
    cut = length_limit(folder / found.query[0].subfolder, {}) if found and found.query else 0  # of queries, by their tokenizer
    if keys.lowercase:
        raise CommandError(f"{folder}: it lower-cases texts (do_lower_case); leave that to the tokenizer")
    if keys.expansion:
        raise CommandError(f"{folder}: it fills queries (query_expansion), which is for late interaction")
    _check_similarity(folder, stated, "dot", "cosine")
    settings = {"pooling": strategy, "document_terms": stated.terms, "query_terms": stated.terms}
    return {
        "positions": "all",
        "activation": _ACTIVATIONS[activation],
        **{name: value for name, value in settings.items() if value not in (0, "max")},
        **({"similarity": "cosine"} if stated.similarity == "cosine" else {}),
        **_prompts(stated),
        **_lengths(min(cut or keys.query_length, keys.query_length or cut), keys.document_length),
    }


# ---- sparse_latent ---------------------------------------------------------------------------------------------------------


@folder_reader
def sparse_latent_defaults(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `sparse_latent` that a folder of sentence-transformers states, {} for another folder."""
    kinds = [module.kind for module in modules(folder)]
    if _AUTOENCODER not in kinds:
        return {}
    place, *between, autoencoder = modules(folder)
    allowed = (["Pooling"], ["Pooling", "Normalize"])
    if place.kind != "Transformer" or [one.kind for one in between] not in allowed or autoencoder.kind != _AUTOENCODER:
        raise CommandError(
            f"{folder}: a model of {' and '.join(kinds)}; the encoder `sparse_latent` takes sentence-transformers models of "
            f"Transformer, Pooling and {_AUTOENCODER}, with or without Normalize between them"
        )
    stated, keys = about(folder, _SPARSE), transformer(folder / place.subfolder, config, kind=_SPARSE)
    pooled = pooling(folder / between[0].subfolder)
    if pooled.pooling not in _OF_LATENT_STATES:
        known = ", ".join(_OF_LATENT_STATES)
        raise CommandError(f"{folder}: it pools states by {pooled.pooling!r} before its {_AUTOENCODER}; lexbench does {known}")
    read = Keys(folder / autoencoder.subfolder / "config.json", kind=_SPARSE)
    _check_similarity(folder, stated, "dot")
    scalings = ["length"] * (len(between) - 1) + ["layer_norm"] * read.typed("normalize", False)
    active = read.count("k")
    read.end("input_dim", "hidden_dim", "k_aux", "dead_threshold")  # the two last are for training
    if len(scalings) > 1:
        raise CommandError(f"{folder}: it scales states by Normalize and by its {_AUTOENCODER}; lexbench does one of them")
    if not pooled.pools_prompt and _prompts(stated):
        raise CommandError(f"{folder}: it leaves prompts out of its pooling (include_prompt); {give_object(_SPARSE)}")
    return {
        "pooling": pooled.pooling,
        "scaling": scalings[0] if scalings else "none",
        "active": stated.terms or active,
        **_prompts(stated),
        **_lengths(keys.query_length, keys.document_length),
    }


def _check_similarity(folder: Path, stated: About, *done: str) -> None:
    """Raise CommandError if the similarity of *folder* is none of those *done*, or if it cuts vectors that cannot be cut."""
    if stated.similarity and stated.similarity not in done:
        known, hint = ", ".join(done), stated_object(folder)
        raise CommandError(
            f"{folder}: its similarity is {stated.similarity} ({ABOUT}); this encoder does {known}{'; ' * bool(hint)}{hint}"
        )


def _prompts(stated: About) -> dict[str, str]:
    """Return the prompts that are not empty."""
    named = {"query_prompt": stated.query_prompt, "document_prompt": stated.document_prompt}
    return {name: prompt for name, prompt in named.items() if prompt}


def _lengths(query: int, document: int) -> dict[str, int]:
    """Return the lengths that are stated."""
    return {name: length for name, length in (("query_length", query), ("document_length", document)) if length}


# ---- dense and static_embedding --------------------------------------------------------------------------------------------


@folder_reader
def dense_defaults(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `dense` that a folder states."""
    if (table := _lexbench_table(folder, config)) is not None:
        return table
    listed = modules(folder)
    if not listed:
        return {}
    kinds = [module.kind for module in listed]
    if kinds[:2] != ["Transformer", "Pooling"] or _AUTOENCODER in kinds:
        raise CommandError(
            f"{folder}: a model of {' and '.join(kinds)}; the encoder `dense` takes sentence-transformers models of "
            f"Transformer and Pooling, and layers behind them{instead(folder, 'dense')}"
        )
    place, pooled = (folder / module.subfolder for module in listed[:2])
    stated, keys, (ways, pools_prompt) = about(folder, _SINGLE), transformer(place, config), pooling(pooled)
    if keys.expansion:
        raise CommandError(f"{folder}: it fills queries (query_expansion), which is for late interaction")
    without_prompt = {} if pools_prompt or not _prompts(stated) else {"pool_prompts": False}
    return {
        "pooling": ways,
        **_compared(stated, head(folder, listed[2:])),
        **_prompts(stated),
        **without_prompt,
        **({"lowercase": True} if keys.lowercase else {}),
        **_lengths(keys.query_length, keys.document_length),
    }


def _compared(stated: About, steps: list[str]) -> dict[str, Any]:
    """Return the settings `head`, `similarity` and `dimensions` of a model with these *steps* behind its pooling.

    Vectors are cut behind the head. A last step that makes their length 1 is the same as cosine if they are whole.
    """
    similarity = stated.similarity or "cosine"  # the default of sentence-transformers
    if steps[-1:] == ["normalize"] and (similarity == "cosine" or (similarity == "dot" and not stated.dimensions)):
        steps, similarity = steps[:-1], "cosine"
    cut = {"dimensions": stated.dimensions} if stated.dimensions else {}
    return {"head": "_".join(steps) or "none", "similarity": similarity, **cut}


@folder_reader
def static_embedding_defaults(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `static_embedding` that a folder of sentence-transformers or model2vec states."""
    listed = modules(folder)
    if listed and listed[0].kind != _STATIC:
        raise CommandError(
            f"{folder}: a model of {' and '.join(module.kind for module in listed)}, and no {_STATIC}"
            f"{instead(folder, 'static_embedding')}"
        )
    stated, steps = about(folder, _SINGLE), head(folder, listed[1:])
    if others := [step for step in steps if step != "normalize"]:
        raise CommandError(f"{folder}: a module behind its {_STATIC} that changes vectors ({others[0]}); lexbench runs none")
    if steps and stated.similarity == "dot" and not stated.dimensions:  # of length 1, and so the same as cosine
        stated = stated._replace(similarity="cosine")
    if steps and stated.similarity not in ("", "cosine"):
        raise CommandError(f"{folder}: it makes vectors of length 1 and compares them by {stated.similarity}; take cosine")
    if not listed and not config.get("normalize", False) and not stated.similarity:
        return {"similarity": "dot"}  # the vectors of model2vec as they are
    return {
        "similarity": stated.similarity or "cosine",
        **({"dimensions": stated.dimensions} if stated.dimensions else {}),
        **_prompts(stated),
    }


# ---- late_interaction ------------------------------------------------------------------------------------------------------


@folder_reader
def late_interaction_defaults(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `late_interaction` that a folder states."""
    if (table := _lexbench_table(folder, config)) is not None:
        return table
    if listed := modules(folder):
        if optional_json(folder / ABOUT).get("model_type") == _MULTI:
            return _multi_vector_settings(folder, config, listed)
        return _pylate_settings(folder, config, listed)
    return _colbert_settings(folder / _METADATA) if (folder / _METADATA).is_file() else {}


def _colbert_settings(metadata: Path) -> dict[str, Any]:
    """Return the settings in the file of a ColBERT's authors; others of it are for training and indexes."""
    keys = Keys(metadata, kind="")
    for name, value in _ONLY.items():
        keys.only(name, value)
    length = keys.count("query_maxlen") or 32
    return {
        "query_length": length,
        "mask_queries_to": length,
        "document_length": keys.count("doc_maxlen") or 220,
        "query_marker": keys.typed("query_token_id", "[unused0]"),
        "document_marker": keys.typed("doc_token_id", "[unused1]"),
        "skip_punctuation": keys.typed("mask_punctuation", True),
        "attend_to_masks": keys.typed("attend_to_mask_tokens", False),
    }


def _multi_vector_settings(folder: Path, config: Mapping[str, Any], listed: list[Module]) -> dict[str, Any]:
    """Return the settings of a MultiVectorEncoder of sentence-transformers 6: its prompts are texts, and no markers."""
    if listed[0].kind != "Transformer":
        raise CommandError(f"{folder}: a model of {' and '.join(one.kind for one in listed)}, which has no Transformer first")
    stated, keys = about(folder, _MULTI), transformer(folder / listed[0].subfolder, config, kind=_MULTI)
    _check_similarity(folder, stated, "maxsim")
    steps, skipped, expansion = head(folder, listed[1:], "token_embeddings"), mask(folder, listed), dict(keys.expansion)
    words = " ".join(skipped.words)
    if keys.lowercase or (words and not skipped.in_documents) or words.split() != list(skipped.words):
        raise CommandError(
            f"{folder}: it lower-cases texts, or skips tokens with blanks or of queries alone; lexbench does none of it here"
        )
    unit = steps[-1:] == ["normalize"]
    fixed = expansion.get("strategy") == "fixed"
    optional = {
        "head": "_".join(steps[:-1] if unit else steps) or "none",
        "unit_length": unit,
        "skipped": words,
        "skip_in_queries": bool(words) and skipped.in_queries,
        "mask_token": expansion.get("token") or "",
    }
    ordinary = {"head": "linear", "unit_length": True, "skipped": "", "skip_in_queries": False, "mask_token": ""}
    return {
        "query_marker": "",
        "document_marker": "",
        "mask_queries_to": expansion["length"] if expansion else 0,
        "attend_to_masks": expansion.get("attend", False),
        "skip_punctuation": False,  # which skips [UNK], too, where the vocabulary lacks a character
        **{name: value for name, value in optional.items() if value != ordinary[name]},
        **_prompts(stated),
        **_lengths(expansion["length"] if fixed else keys.query_length, keys.document_length),
    }


def _of_pylate(kinds: list[str]) -> bool:
    """Return whether modules of these *kinds* are a model of PyLate: it has layers of token vectors, and no pooling."""
    return kinds[:1] == ["Transformer"] and set(kinds[1:]) == {"Dense"}


def _pylate_settings(folder: Path, config: Mapping[str, Any], listed: list[Module]) -> dict[str, Any]:
    kinds = [module.kind for module in listed]
    if not _of_pylate(kinds):
        raise CommandError(
            f"{folder}: a model of {' and '.join(kinds)}; the encoder `late_interaction` takes models of ColBERT, and PyLate "
            f"models of Transformer and Dense{instead(folder, 'late_interaction')}"
        )
    keys, steps = transformer(folder / listed[0].subfolder, config), head(folder, listed[1:], "token_embeddings")
    if keys.lowercase:
        raise CommandError(f"{folder}: it lower-cases texts (do_lower_case); leave that to the tokenizer")
    stated, says = about(folder, "ColBERT", _SINGLE), Keys(folder / ABOUT, optional=True, kind="ColBERT")
    if any(prompts(folder).values()):
        raise CommandError(f"{folder}: it puts a prompt before texts ({ABOUT}); lexbench does not")
    if stated.dimensions or stated.terms:
        raise CommandError(f"{folder}: PyLate cuts no vectors; remove truncate_dim and max_active_dims from {ABOUT}")
    _check_similarity(folder, stated, "maxsim", "cosine", "dot")  # old versions name the latter, and compare by MaxSim
    skipped = says.typed("skiplist_words", list(punctuation))
    if skipped and set(skipped) != set(punctuation):
        raise CommandError(f"{folder}: skiplist_words ({len(skipped)} words) is not ASCII punctuation, which lexbench skips")
    length = says.count("query_length") or 32
    layers = {} if steps == ["linear"] else {"head": "_".join(steps)}
    return {
        "query_length": length,
        "mask_queries_to": length if says.typed("do_query_expansion", True) else 0,
        "document_length": says.count("document_length") or 180,
        "query_marker": says.typed("query_prefix", "[Q] "),
        "document_marker": says.typed("document_prefix", "[D] "),
        "skip_punctuation": bool(skipped),
        "attend_to_masks": says.typed("attend_to_expansion_tokens", False),
        **layers,
    }
