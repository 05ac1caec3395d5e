"""Sequence classifiers that score how relevant a document is to a query: cross-encoders. Loads torch only to load a model."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lexbench.checkpoints.adapter import adapts_classifier, merged, model_files, saved_shape
from lexbench.checkpoints.files import ABOUT, CheckpointFiles, prompts, transformer_folder
from lexbench.checkpoints.hub import fetch
from lexbench.errors import CommandError, InvalidFile

RERANKER = "a reranker"  # as messages call what a classifier is to be
_CLASS_ENDING = "ForSequenceClassification"
_HEADS = ("classifier.weight", "classifier.out_proj.weight", "score.weight")  # (logits, h), as architectures call it
_LABELS = ("id2label", "label2id", "num_labels")  # settings that say how many logits there are
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
    files = model_files(folder)
    config = _with_own_head(files)
    if not is_classifier(config) and not adapts_classifier(folder):
        classes = "/".join(map(str, config.get("architectures") or ["no architecture named"]))
        raise CommandError(
            f"{folder}: {classes} is no *{_CLASS_ENDING}, so it scores no pairs; a retriever scores what another found in "
            "pipeline(bm25, RETRIEVER, weights=[0, 1])"
        )
    check_logits(config, folder, RERANKER)
    if any(prompts(top).values()):
        raise CommandError(f"{top}: it puts a prompt before texts ({ABOUT}); lexbench does not: take another reranker")
    return replace(files, config=config)


def _with_own_head(files: CheckpointFiles) -> dict[str, Any]:
    """Return what config.json says, of the logits what the head says that an adapter brings."""
    shape = saved_shape(files.adapter, _HEADS) if files.adapter else None
    if shape is None:
        return files.config
    return {key: value for key, value in files.config.items() if key not in _LABELS} | {"num_labels": shape[0]}


def load_classifier(folder: Path, role: str) -> Any:
    """Return the classifier in *folder*, in float32; InvalidFile where it does not read or a weight is missing."""
    from transformers import AutoModelForSequenceClassification

    from lexbench.checkpoints.pretrained import load_complete_model

    return load_complete_model(folder, AutoModelForSequenceClassification, role)


def load_reranker(files: CheckpointFiles) -> Any:
    """Return the classifier that has the *files*, in float32, its adapter merged; InvalidFile as `load_classifier`."""
    from transformers import AutoModelForSequenceClassification

    from lexbench.checkpoints.pretrained import load_model

    if files.adapter is None:
        return load_classifier(files.folder, RERANKER)
    labels = {"num_labels": files.config["num_labels"]} if "num_labels" in files.config else {}
    model, missing = load_model(files.folder, AutoModelForSequenceClassification, **labels)
    state = model.state_dict()
    tensors = merged(state, files.adapter, model.dtype)
    if needed := [name for name in missing if tensors[name] is state[name]]:
        raise InvalidFile(f"{files.adapter.weights}: with its model {len(needed)} weights are missing ({needed[0]})")
    if unknown := sorted(tensors.keys() - state.keys()):
        raise InvalidFile(f"{files.adapter.weights}: the model has no {unknown[0]}; take the base that it was trained on")
    model.load_state_dict(tensors)
    return model
