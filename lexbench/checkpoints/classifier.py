"""Sequence classifiers that say how relevant a document is: which models are some, and whether all of one is there."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lexbench.checkpoints.files import Files, fetch, transformer_files
from lexbench.checkpoints.settings import modules, read_json
from lexbench.errors import CommandError

ROLE = "a reranker"
_ENDING = "ForSequenceClassification"
_MOST = 2  # logits: relevant, or not relevant and relevant


def is_classifier(config: Mapping[str, Any]) -> bool:
    """Whether a config.json is that of a *ForSequenceClassification."""
    return any(str(name).endswith(_ENDING) for name in config.get("architectures") or ())


def check_logits(config: Mapping[str, Any], place: Path, role: str) -> None:
    """Raise CommandError where a classifier has too many logits; *role* is what it is to be: "a reranker"."""
    logits = len(config.get("id2label") or ()) or config.get("num_labels") or _MOST  # as transformers counts them
    if logits > _MOST:
        raise CommandError(f"{place}: it has {logits} logits; {role} has one, or two")


def classifier_files(model: str, revision: str | None = None) -> Files:
    """Return the files of a reranker, a folder or a name on the hub; of sentence-transformers' folders its one module's.

    MissingData where something is not there, CommandError for other kinds of models, and where texts would be changed.
    """
    folder = fetch(model, revision)
    place = next((folder / inside for _, inside in modules(folder)), folder)
    config = read_json(place / "config.json") if (place / "config.json").is_file() else {}
    found = transformer_files(place, [str(config.get("model_type"))])
    if not is_classifier(config):
        named = "/".join(map(str, config.get("architectures") or ["no architecture named"]))
        raise CommandError(
            f"{place}: {named} is no *{_ENDING}, so it scores no pairs; a retriever scores what another found in "
            "pipeline(bm25, RETRIEVER, weights=[0, 1])"
        )
    check_logits(config, place, ROLE)
    about = folder / "config_sentence_transformers.json"
    prompts = (read_json(about) if about.is_file() else {}).get("prompts") or {}
    if any(prompts.values()):
        raise CommandError(f"{folder}: it puts a prompt before texts ({about.name}); lexbench does not: take another reranker")
    return found


def classifier(place: Path, role: str) -> Any:
    """Return the classifier in *place*, in float32; InvalidFile where it does not read or a weight is missing."""
    from transformers import AutoModelForSequenceClassification

    from lexbench.checkpoints.pretrained import complete

    return complete(place, AutoModelForSequenceClassification, role)
