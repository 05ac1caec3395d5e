"""The finished folder of a trained model: weights, log of the losses, recipe, and the card."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
import torch
from torch import nn

from lexbench.lexmae import card, provenance
from lexbench.lexmae.card import Loss, SeenCollection, Selected, TrainingFacts, What
from lexbench.lexmae.model.encoder import LexiconEncoder, save, unique_parameters
from lexbench.lexmae.recipe.settings import Hardware, Recipe
from lexbench.lexmae.training import processes
from lexbench.lexmae.training.selection import Candidates
from lexbench.lexmae.training.trainer import Fitted
from lexbench.storage import atomic, environment

_LOSSES = "losses.jsonl"
_DECODER = "decoder.safetensors"
_NO_LOSS = ("step", "grad_norm", "learning_rate")  # fields of a log line


class TrainedModel(NamedTuple):
    """The result of a training."""

    encoder: LexiconEncoder
    tokenizer: Any
    log: Sequence[Mapping[str, float]]  # of its losses and selections
    facts: TrainingFacts
    autoencoder: nn.Module | None = None  # of pretraining; everything except its encoder is kept beside the model


def publish(recipe: Recipe, what: What, trained: TrainedModel) -> None:
    """Write a trained model, its card and the log of its losses as the finished folder of *what*.

    The folder exists in every process when this returns.
    """
    if processes.is_first():
        with provenance.drafted(recipe.folder(what)) as draft:
            save(trained.encoder, trained.tokenizer, draft)
            if trained.autoencoder is not None:
                _write_decoder(trained.autoencoder, draft / _DECODER)
            atomic.write_text(draft / _LOSSES, "".join(json.dumps(line) + "\n" for line in trained.log))
            provenance.write(draft, recipe, what)
            card.finish(draft, recipe, what, trained.facts)
    processes.wait()


def facts(
    hardware: Hardware, fitted: Fitted, steps: int, data: Sequence[SeenCollection], candidates: Candidates | None = None
) -> TrainingFacts:
    """Return the facts of a training. *data* are the collections that the weights have learned from."""
    machine = environment.facts()
    sets, best = candidates.sets if candidates else (), fitted.best or {}
    chosen_by = [SeenCollection(dataset=group.name, use="selection", counts={"queries": len(group.queries)}) for group in sets]
    whole = [*data, *chosen_by]
    return TrainingFacts(
        data=tuple(
            datum for index, datum in enumerate(whole) if datum not in whole[:index]
        ),  # without duplicates: stages share data
        steps=steps,
        seconds=fitted.seconds,
        machine=f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {_accelerators(hardware)}",
        versions=environment.versions(),
        resumed=fitted.resumed,
        losses=tuple(_losses(fitted)),
        selection=tuple(
            Selected(dataset=one.name, measure=one.measure, value=best[one.name], step=int(best["step"]))
            for one in (sets if best else ())
        ),
    )


def learned_data(folder: Path) -> tuple[SeenCollection, ...]:
    """Return the collections that the model in *folder* has learned from; () for an initial model."""
    return card.read(folder).facts.data if (folder / "training.json").is_file() else ()


def _write_decoder(autoencoder: nn.Module, path: Path) -> None:
    """Write all parameters of *autoencoder* except those of its encoder."""
    parameters = unique_parameters(autoencoder)
    tensors = {name: value for name, value in parameters.items() if not name.startswith("encoder.")}
    atomic.write_bytes(path, safetensors.torch.save(tensors, {"format": "pt"}))


def _accelerators(hardware: Hardware) -> str:
    """Return a description of the GPUs that are used."""
    count, kind = processes.world_size(), processes.device(hardware)
    if kind == "cpu":
        return "no GPU" if count == 1 else f"no GPU, {count} processes"
    return f"{count} x {torch.cuda.get_device_name() if kind == 'cuda' else 'GPU of Apple'}"


def _losses(fitted: Fitted) -> Iterator[Loss]:
    lines = [line for line in fitted.log if "loss" in line]
    for name in lines[0] if lines else ():
        if name not in _NO_LOSS:
            yield Loss(name=name, first=lines[0][name], last=lines[-1][name])
