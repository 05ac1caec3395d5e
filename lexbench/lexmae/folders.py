"""Trained models as ordinary Hugging Face folders: loading one, and making one whose presence means that it is finished."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
import torch
from torch import nn
from transformers import AutoModelForMaskedLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from lexbench.lexmae import card, made_by, processes
from lexbench.lexmae.facts import Facts, What
from lexbench.lexmae.model import unique_parameters
from lexbench.lexmae.recipe import Recipe
from lexbench.storage import atomic

_LOSSES = "losses.jsonl"
DECODER = "decoder.safetensors"


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


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write *model*, a *ForMaskedLM, and its tokenizer into *folder*, which is there: files as readable as any others."""
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for path in folder.glob("*.safetensors"):  # which safetensors lets nobody but the user read
        path.chmod((folder / "config.json").stat().st_mode)


def publish(
    folder: Path, recipe: Recipe, what: What, trained: Trained, log: Sequence[Mapping[str, float]], facts: Facts
) -> Path:
    """Write a trained model as the finished *folder*, its card and the log of its losses in it, drafted beside it and renamed.

    It is there when this returns, in every process.
    """
    if processes.first():
        draft = folder.with_name(f"{folder.name}.draft")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        save(trained.model, trained.tokenizer, draft)
        if trained.decoder is not None:
            _write_decoder(trained.decoder, draft / DECODER)
        atomic.write_text(draft / _LOSSES, "".join(json.dumps(line) + "\n" for line in log))
        made_by.write(draft, recipe, what)
        card.finish(draft, recipe, what, facts)
        for path in draft.iterdir():
            atomic.sync(path)
        draft.rename(folder)
        atomic.sync(folder.parent)
    processes.wait()
    return folder


def _write_decoder(autoencoder: nn.Module, path: Path) -> None:
    parameters = unique_parameters(autoencoder)
    tensors = {name: value for name, value in parameters.items() if not name.startswith("encoder.")}
    atomic.write_bytes(path, safetensors.torch.save(tensors, {"format": "pt"}))
