"""What a folder says about making a vector of each token: our table, ColBERT's `artifact.metadata`, or PyLate's settings."""

from collections.abc import Mapping
from pathlib import Path
from string import punctuation
from typing import Any

from lexbench.checkpoints.settings import modules, optional_json
from lexbench.errors import CommandError, InvalidFile

_OF_COLBERT = {  # their names and ours
    "query_maxlen": "query_length",
    "doc_maxlen": "document_length",
    "query_token_id": "query_marker",
    "doc_token_id": "document_marker",
    "mask_punctuation": "skip_punctuation",
    "attend_to_mask_tokens": "attend_to_masks",
}
_OF_PYLATE = {
    "query_length": "query_length",
    "document_length": "document_length",
    "query_prefix": "query_marker",
    "document_prefix": "document_marker",
    "attend_to_expansion_tokens": "attend_to_masks",
}
_PYLATE = {"query_length": 32, "document_length": 180, "query_prefix": "[Q] ", "document_prefix": "[D] "}  # its defaults


def defaults(folder: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of `late_interaction` that a folder carries, {} where it carries none; *config* is its config.json.

    CommandError where it is encoded with in a way that lexbench does not.
    """
    if "lexbench" in config:
        if not isinstance(config["lexbench"], dict):
            raise InvalidFile(f"{folder}: `lexbench` in config.json is no table of settings")
        return dict(config["lexbench"])
    if kinds := [kind for kind, _ in modules(folder)]:
        return _of_pylate(folder, kinds)
    told = optional_json(folder / "artifact.metadata")
    if (similarity := told.get("similarity", "cosine")) != "cosine":
        raise CommandError(f"{folder}: its similarity is {similarity!r} (artifact.metadata); lexbench does 'cosine'")
    return _renamed(told, _OF_COLBERT) | ({"mask_queries_to": told["query_maxlen"]} if "query_maxlen" in told else {})


def _of_pylate(folder: Path, kinds: list[str]) -> dict[str, Any]:
    """Return the settings of a model that PyLate saved."""
    if kinds != ["Transformer", "Dense"]:
        raise CommandError(
            f"{folder}: a model of {' and '.join(kinds)}; of models of one vector a token lexbench takes ColBERT's own, and "
            "PyLate's of Transformer and Dense"
        )
    told: dict[str, Any] = _PYLATE | {key: value for key, value in _about(folder).items() if value is not None}
    if any((told.get("prompts") or {}).values()):
        raise CommandError(f"{folder}: it puts a prompt before texts (config_sentence_transformers.json); lexbench does not")
    skipped = told.get("skiplist_words", list(punctuation))
    if skipped and set(skipped) != set(punctuation):
        raise CommandError(f"{folder}: it skips {len(skipped)} words of its own (skiplist_words); lexbench skips punctuation")
    filled = told["query_length"] if told.get("do_query_expansion", True) else 0
    return _renamed(told, _OF_PYLATE) | {"mask_queries_to": filled, "skip_punctuation": bool(skipped)}


def _about(folder: Path) -> dict[str, Any]:
    return optional_json(folder / "config_sentence_transformers.json")


def _renamed(told: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {ours: told[theirs] for theirs, ours in names.items() if told.get(theirs) is not None}
