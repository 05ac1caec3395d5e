"""What a folder says about making one vector of a text: our table in config.json, or the modules of sentence-transformers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lexbench.checkpoints.settings import modules, optional_json, read_json, sequence_length
from lexbench.errors import CommandError, InvalidFile

POOLINGS = ("mean", "cls")
_HEADS = {(): "none", ("Dense",): "linear", ("Dense", "LayerNorm"): "linear_layernorm"}


def defaults(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `dense` that a folder carries, {} where it carries none; *config* is its config.json.

    CommandError where sentence-transformers would make vectors in a way that lexbench does not.
    """
    if "lexbench" in config:
        if not isinstance(config["lexbench"], dict):
            raise InvalidFile(f"{folder}: `lexbench` in config.json is no table of settings")
        return dict(config["lexbench"])
    if not (listed := modules(folder)):
        return {}
    kinds = [kind for kind, _ in listed]
    behind = tuple(kind for kind in kinds[2:] if kind != "Normalize")
    if kinds[:2] != ["Transformer", "Pooling"] or behind not in _HEADS:
        raise CommandError(
            f"{folder}: a model of {' and '.join(kinds)}; of sentence-transformers' models lexbench's `dense` takes those of "
            "Transformer and Pooling, with or without Dense, LayerNorm and Normalize behind them"
        )
    for kind, place in listed[2:]:
        if kind == "Dense":
            _refuse_activation(folder / place)
    about = optional_json(folder / "config_sentence_transformers.json")
    cosine = "Normalize" in kinds or (about.get("similarity_fn_name") or "cosine") == "cosine"
    return {
        "pooling": pooling(folder / listed[1][1]),
        "head": _HEADS[behind],
        "similarity": "cosine" if cosine else "dot",  # where nothing is said sentence-transformers has cosine
        **_prompts(about),
        **_transformer(folder / listed[0][1], config),
    }


def pooling(folder: Path) -> str:
    """Return how a model pools, in the old form of its settings or the new one; CommandError if lexbench does not."""
    told = read_json(folder / "config.json")
    on = (name for name, value in told.items() if value is True and name.startswith("pooling_mode_"))
    old = [name.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token") for name in on]
    found = told.get("pooling_mode", old[0] if len(old) == 1 else old)
    if found not in POOLINGS:
        raise CommandError(f"{folder}: it pools by {found!r}; lexbench does {', '.join(POOLINGS)}")
    return str(found)


def _refuse_activation(folder: Path) -> None:
    found = str(read_json(folder / "config.json").get("activation_function", "Tanh")).rpartition(".")[2]
    if found != "Identity":
        raise CommandError(f"{folder}: a Dense layer with {found}; lexbench does those without activation")


def _prompts(about: Mapping[str, Any]) -> dict[str, str]:
    """Return the prompts by our names; of a model with others, the default one where it names one."""
    prompts = about.get("prompts") or {}
    default = prompts.get(about.get("default_prompt_name"), "")
    named = {"query_prompt": ("query",), "document_prompt": ("document", "passage", "corpus")}
    found = {ours: next((prompts[one] for one in theirs if one in prompts), default) for ours, theirs in named.items()}
    return {ours: str(prompt) for ours, prompt in found.items() if prompt}


def _transformer(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    told = optional_json(folder / "sentence_bert_config.json")
    length = sequence_length(told, optional_json(folder / "tokenizer_config.json"), config)
    lengths = {"query_length": length, "document_length": length} if length else {}
    return {"lowercase": True, **lengths} if told.get("do_lower_case") else lengths
