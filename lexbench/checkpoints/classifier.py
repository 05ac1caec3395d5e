"""Sequence classifiers that score how relevant a document is to a query: cross-encoders. Loads torch only to load a model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lexbench.checkpoints.files import (
    ABOUT,
    CONFIG,
    CheckpointFiles,
    optional_json,
    prompts,
    transformer_files,
    transformer_folder,
)
from lexbench.checkpoints.hub import fetch
from lexbench.errors import CommandError

RERANKER = "a reranker"  # as messages call what a classifier is to be
_CLASS_ENDING = "ForSequenceClassification"
_MOST_LOGITS = 2  # not relevant and relevant; one alone is relevant


def is_classifier(config: Mapping[str, Any]) -> bool:
    """Return whether a config.json is that of a `…ForSequenceClassification`."""
    return any(str(name).endswith(_CLASS_ENDING) for name in config.get("architectures") or ())


def check_logits(config: Mapping[str, Any], folder: Path, role: str) -> None:
    """Raise CommandError where a classifier has too many logits; *role* is what it is to be: "a reranker"."""
    logits = len(config.get("id2label") or ()) or config.get("num_labels") or _MOST_LOGITS  # as transformers counts them
    if logits > _MOST_LOGITS:
        raise CommandError(f"{folder}: it has {logits} logits; {role} has one, or two")


def classifier_files(model: str, revision: str | None = None) -> CheckpointFiles:
    """Return the files of a reranker, a folder or a name on the hub; of a sentence-transformers folder its first module's.

    MissingData where something is not there, CommandError for other kinds of models, and where texts would be changed.
    """
    top = fetch(model, revision)
    folder = transformer_folder(top)
    config = optional_json(folder / CONFIG)
    files = transformer_files(folder, [str(config.get("model_type"))])
    if not is_classifier(config):
        classes = "/".join(map(str, config.get("architectures") or ["no architecture named"]))
        raise CommandError(
            f"{folder}: {classes} is no *{_CLASS_ENDING}, so it scores no pairs; a retriever scores what another found in "
            "pipeline(bm25, RETRIEVER, weights=[0, 1])"
        )
    check_logits(config, folder, RERANKER)
    if any(prompts(top).values()):
        raise CommandError(f"{top}: it puts a prompt before texts ({ABOUT}); lexbench does not: take another reranker")
    return files


def load_classifier(folder: Path, role: str) -> Any:
    """Return the classifier in *folder*, in float32; InvalidFile where it does not read or a weight is missing."""
    from transformers import AutoModelForSequenceClassification

    from lexbench.checkpoints.pretrained import load_complete_model

    return load_complete_model(folder, AutoModelForSequenceClassification, role)
