"""Trained models as ordinary Hugging Face folders: loading one, and making one whose presence means that it is finished."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import safetensors.torch
import torch
from torch import nn
from transformers import AutoModelForMaskedLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from lexbench import atomic
from lexbench.errors import CommandError
from lexbench.lexmae import card
from lexbench.lexmae.facts import Facts, What
from lexbench.lexmae.model import unique_parameters
from lexbench.lexmae.recipe import Recipe

_RECIPE = "recipe.json"
_LOSSES = "losses.jsonl"
DECODER = "decoder.safetensors"
_WITHOUT = {"description", "license", "output", "hardware", "name"}  # of a recipe: they decide nothing
_AFTER = {"start": ["pretrain", "stage1", "stage2", "stage3"], "pretrained": ["stage1", "stage2", "stage3"]}


class Trained(NamedTuple):
    """What a training has made."""

    model: Any  # *ForMaskedLM
    tokenizer: Any
    decoder: nn.Module | None = None  # the autoencoder, all of which but its encoder is kept beside the model


def load(folder: Path) -> tuple[Any, Any]:
    """Return the masked-language model in *folder*, in float32 and ready to train, and its tokenizer."""
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32, trust_remote_code=False)
    model.train()
    return model, AutoTokenizer.from_pretrained(folder, trust_remote_code=False)


def finished(folder: Path, recipe: Recipe, what: str) -> Path | None:
    """Return *folder* if it holds *what* as *recipe* makes it, None if it is not there; CommandError if it is of another."""
    if not folder.exists():
        return None
    there, asked = json.loads((folder / _RECIPE).read_bytes()), deciding(recipe, what)
    if there != asked:
        raise CommandError(
            f"{folder} was made by another recipe ({_difference(there, asked)}); remove it, or give another --output"
        )
    return folder


def deciding(recipe: Recipe, what: str) -> dict[str, Any]:
    """Return what of *recipe* decides the weights of *what*: neither names and places nor what comes later."""
    whole: dict[str, Any] = msgspec.to_builtins(recipe)
    later = _AFTER.get(what) or [name for name in ("stage1", "stage2", "stage3") if name > what]
    return {name: value for name, value in whole.items() if name not in (*_WITHOUT, *later)}


def _difference(there: Any, asked: Any, place: str = "") -> str:
    """Return the first setting that differs, with both values."""
    if not (isinstance(there, dict) and isinstance(asked, dict)):
        return f"{place}: there {there!r}, asked {asked!r}"
    name = next(name for name in sorted({*there, *asked}) if there.get(name) != asked.get(name))
    return _difference(there.get(name), asked.get(name), f"{place}.{name}" if place else name)


def publish(
    folder: Path, recipe: Recipe, what: What, trained: Trained, log: Sequence[Mapping[str, float]], facts: Facts
) -> Path:
    """Write a trained model as the finished *folder*, its card and the log of its losses in it, drafted beside it and renamed."""
    draft = folder.with_name(f"{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    trained.model.save_pretrained(draft)
    trained.tokenizer.save_pretrained(draft)
    if trained.decoder is not None:
        tensors = {name: value for name, value in unique_parameters(trained.decoder).items() if not name.startswith("encoder.")}
        atomic.write_bytes(draft / DECODER, safetensors.torch.save(tensors, {"format": "pt"}))
    atomic.write_text(draft / _LOSSES, "".join(json.dumps(line) + "\n" for line in log))
    atomic.write_text(draft / _RECIPE, json.dumps(deciding(recipe, what), indent=1) + "\n")
    card.finish(draft, recipe, what, facts)
    draft.rename(folder)
    return folder
