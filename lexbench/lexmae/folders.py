"""Trained models as ordinary Hugging Face folders: loading one, and making one whose presence means that it is finished."""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import safetensors.torch
import torch
from filelock import FileLock, Timeout
from torch import nn
from transformers import AutoModelForMaskedLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from lexbench import atomic
from lexbench.errors import CannotStart, CommandError
from lexbench.lexmae import card, processes
from lexbench.lexmae.facts import Facts, What
from lexbench.lexmae.model import unique_parameters
from lexbench.lexmae.recipe import Recipe

_RECIPE = "recipe.json"
_LOSSES = "losses.jsonl"
DECODER = "decoder.safetensors"
_WITHOUT = {"schema", "name", "description", "preset", "output", "license", "hardware"}  # of a recipe: they decide nothing
_AFTER = {  # what comes later
    "pretrained": {"stage1", "stage2", "stage3", "selection"},
    "stage1": {"stage2", "stage3"},
    "stage2": {"stage3"},
    "stage3": set[str](),
}


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


def finished(folder: Path, recipe: Recipe, what: str) -> Path | None:
    """Return *folder* if it holds *what* as *recipe* makes it, None if it is not there; CommandError if it is of another."""
    if not folder.exists():
        return None
    _refuse_another(folder, recipe, what)
    return folder


@contextmanager
def claimed(training: Path, recipe: Recipe, what: str) -> Iterator[None]:
    """Hold the folder of a training that goes on.

    CommandError where it is of another recipe, CannotStart where another process trains in it.
    """
    if not processes.first():
        yield
        return
    training.mkdir(parents=True, exist_ok=True)
    lock = FileLock(training / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise CannotStart(f"another process trains in {training}; wait for it, or stop it and type the same again") from None
    try:
        if (training / _RECIPE).exists():
            _refuse_another(training, recipe, what)
        else:
            _write_recipe(training, recipe, what)
        yield
    finally:
        lock.release()


def _refuse_another(folder: Path, recipe: Recipe, what: str) -> None:
    remedy = "remove it, or give another --output"
    try:
        whole = json.loads((folder / _RECIPE).read_bytes())
    except (OSError, ValueError):
        raise CommandError(f"{folder} is none that lexbench made; {remedy}") from None
    asked = _deciding(recipe, what)
    there = {name: value for name, value in whole.items() if name in asked}
    if there != asked:
        raise CommandError(f"{folder} was made by another recipe ({_difference(there, asked)}); {remedy}")


def _write_recipe(folder: Path, recipe: Recipe, what: str) -> None:
    atomic.write_text(folder / _RECIPE, json.dumps(_deciding(recipe, what), indent=1) + "\n")


def _deciding(recipe: Recipe, what: str) -> dict[str, Any]:
    """Return what of *recipe* decides the weights of *what*, as JSON has it: neither names and places nor what comes later."""
    whole: dict[str, Any] = json.loads(msgspec.json.encode(recipe))
    return {name: value for name, value in whole.items() if name not in _WITHOUT | _AFTER[what]}


def _difference(there: Any, asked: Any, place: str = "") -> str:
    """Return the first setting that differs, with both values."""
    if not (isinstance(there, dict) and isinstance(asked, dict)):
        return f"{place}: there {there!r}, asked {asked!r}"
    name = next(name for name in sorted({*there, *asked}) if there.get(name) != asked.get(name))
    return _difference(there.get(name), asked.get(name), f"{place}.{name}" if place else name)


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
        _write_recipe(draft, recipe, what)
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
