"""What a folder says about encoding besides its weights: our own table, LexMAE's settings, sentence-transformers' modules."""

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from lexbench.errors import CommandError, InvalidFile

MODULES = "modules.json"
_AGAIN = "take the file from the model's source again"
_PIPELINE = ("Transformer", "SpladePooling")  # sentence-transformers 5.4 and later; MLMTransformer before
_ACTIVATIONS = {"relu": "log1p_relu", "log1p_relu": "log1p_log1p_relu"}  # theirs is before the logarithm, ours is the whole
_OF_LEXMAE = ("EDMLM", "SpladeEnocder")  # ends of the authors' class names, the second one misspelt by them


def read_json(path: Path) -> dict[str, Any]:
    """Return the table that a JSON file holds; InvalidFile where it does not read or is something else."""
    found = _json(path)
    if not isinstance(found, dict):
        raise InvalidFile(f"{path}: it holds no table {{…}} of settings; {_AGAIN}")
    return found


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidFile(f"{path}: does not read as JSON ({error}); {_AGAIN}") from error


def trained_on(folder: Path) -> set[str]:
    """Return the datasets whose queries a model that lexbench trained has learned from; nothing of others, which do not say."""
    recipe = optional_json(folder / "training.json").get("recipe")
    stages = recipe.values() if isinstance(recipe, dict) else ()
    listed = [stage.get("queries") for stage in stages if isinstance(stage, dict)]
    return {str(name) for names in listed if isinstance(names, list) for name in names}


def model_folder(folder: Path) -> Path:
    """Return where in *folder* the model is: there itself, or where its `modules.json` says."""
    return folder / _pipeline(folder)[0][1] if (folder / MODULES).is_file() else folder


def modules(folder: Path) -> list[tuple[str, str]]:
    """Return the class and the place in *folder* of each of its modules, of whatever kind; none where it is a plain model.

    InvalidFile where `modules.json` does not read, or names a place outside the folder.
    """
    listed = folder / MODULES
    if not listed.is_file():
        return []
    try:
        found = [(str(one["type"]).rpartition(".")[2], str(one["path"])) for one in _json(listed)]
    except (TypeError, KeyError) as error:
        raise InvalidFile(f"{listed}: it is no list of modules, each with `type` and `path`; {_AGAIN}") from error
    if any(PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts for _, path in found):
        raise InvalidFile(f"{listed}: a module lies outside the folder; {_AGAIN}")
    return found


def defaults(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `sparse_mlm` that a folder carries, {} where it carries none.

    *config* is its config.json. CommandError where sentence-transformers would encode in a way that lexbench does not.
    """
    if "lexbench" in config:
        if not isinstance(config["lexbench"], dict):
            raise InvalidFile(f"{folder}: `lexbench` in config.json is no table of settings")
        return dict(config["lexbench"])
    if (folder / MODULES).is_file():
        return _of_pipeline(folder, config)
    authors = any(str(name).endswith(_OF_LEXMAE) for name in config.get("architectures") or ())
    if authors or "keep_special_tokens" in config:
        return {"positions": "all" if config.get("keep_special_tokens") else "text"}
    return {}


def _of_pipeline(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the pooling of a SparseEncoder says, where there is nothing in the folder that lexbench does not do."""
    (_, model), (_, pooling) = _pipeline(folder)
    said = read_json(folder / pooling / "config.json")
    if (strategy := said.get("pooling_strategy", "max")) != "max":
        raise CommandError(f"{folder}: it pools by {strategy!r}; lexbench encodes models that pool by 'max'")
    if (activation := said.get("activation_function", "relu")) not in _ACTIVATIONS:
        raise CommandError(f"{folder}: its activation is {activation!r}; lexbench does {', '.join(_ACTIVATIONS)}")
    about = optional_json(folder / "config_sentence_transformers.json")
    if any((about.get("prompts") or {}).get(role) for role in ("query", "document")):
        raise CommandError(f"{folder}: it puts a prompt before texts (config_sentence_transformers.json); lexbench does not")
    transformer = optional_json(folder / model / "sentence_bert_config.json")
    if transformer.get("do_lower_case"):
        raise CommandError(f"{folder}: it lower-cases texts (sentence_bert_config.json); leave that to the tokenizer")
    length = sequence_length(transformer, optional_json(folder / model / "tokenizer_config.json"), config)
    lengths = {"query_length": length, "document_length": length} if length else {}
    return {"positions": "all", "activation": _ACTIVATIONS[activation], **lengths}


def sequence_length(transformer: Mapping[str, Any], tokenizer: Mapping[str, Any], config: Mapping[str, Any]) -> int | None:
    """Return how many tokens of a text sentence-transformers reads: from 6 on it says so in the tokenizer's settings.

    There 10**30 stands for no limit; then the model's positions are one.
    """
    if type(before := transformer.get("max_seq_length")) is int:
        return before
    limits = tokenizer.get("model_max_length"), config.get("max_position_embeddings")
    return min((limit for limit in limits if type(limit) is int), default=None)


def optional_json(path: Path) -> dict[str, Any]:
    """Return the table that a JSON file holds, {} where there is no file; InvalidFile where it does not read."""
    return read_json(path) if path.is_file() else {}


def _pipeline(folder: Path) -> list[tuple[str, str]]:
    """Return both modules of a SPLADE model; CommandError where it is another kind of model."""
    found = modules(folder)
    kinds = tuple(kind for kind, _ in found)
    if tuple("Transformer" if kind == "MLMTransformer" else kind for kind in kinds) != _PIPELINE:
        remark = ", which often has no model for queries (inference-free)" if "Router" in kinds else ""
        raise CommandError(
            f"{folder}: a model of {' and '.join(kinds) or 'no modules'}{remark}; "
            f"of sentence-transformers' models lexbench takes those of {' and '.join(_PIPELINE)}"
        )
    return found
