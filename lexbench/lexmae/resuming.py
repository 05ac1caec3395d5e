"""The folder of a training while it goes on, `<name>.training`: what it can go on from, and the best weights so far.

recipe.json           what is trained; another recipe does not go on from it
lock                  held by the process that trains
checkpoint-<step>/    the Trainer's; one that was cut off has no file `complete` in it, and is removed
best.safetensors      the weights with the highest score so far, their step and scores in its metadata
scores.json           the scores of every selection
runs/                 TensorBoard's, where it is installed; all else is removed when the model is finished
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from lexbench.lexmae.model import unique_parameters
from lexbench.storage import atomic

Scores = Mapping[str, float]  # the step, then the measure that decides, then others

WEIGHTS = "model.safetensors"
_COMPLETE = "complete"
_BEST = "best.safetensors"
_SCORES = "scores.json"
_KEPT = "runs"


def last(folder: Path) -> Path | None:
    """Return the last whole checkpoint in *folder*, None for none; what was cut off is removed."""
    found = sorted(folder.glob("checkpoint-*"), key=step)
    for path in found:
        if not (path / _COMPLETE).exists():
            shutil.rmtree(path)
    return next((path for path in reversed(found) if path.exists()), None)


def step(checkpoint: Path) -> int:
    """Return the number of steps that a checkpoint was made after."""
    return int(checkpoint.name.rpartition("-")[2])


def complete(checkpoint: Path) -> None:
    """Mark a checkpoint: all its files are there, and on the disk."""
    for path in checkpoint.iterdir():
        atomic.sync(path)
    atomic.write_text(checkpoint / _COMPLETE, "")


def clear(folder: Path) -> None:
    """Remove all but the log: the training is finished. Nothing need be there."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir() and path.name != _KEPT:
            shutil.rmtree(path)
        elif path.is_file():
            path.unlink()
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def selections(folder: Path) -> list[dict[str, float]]:
    """Return the scores of a training's selections so far."""
    path = folder / _SCORES
    return list(json.loads(path.read_bytes())) if path.exists() else []


def offer(folder: Path, model: nn.Module, scores: Scores) -> None:
    """Note the *scores* of a step, and keep the weights if they are the best so far; of equal ones those of the earlier step.

    Weights and their scores are one file, so they stay together even where another try at the same step scores otherwise.
    """
    folder.mkdir(parents=True, exist_ok=True)
    before = best(folder)
    if before is None or _order(scores) > _order(before):
        write_weights(model, folder / _BEST, scores)
    lines: Sequence[Scores] = [*(line for line in selections(folder) if line["step"] < scores["step"]), scores]
    atomic.write_text(folder / _SCORES, json.dumps(lines) + "\n")


def best(folder: Path) -> dict[str, float] | None:
    """Return the scores of the weights that are kept, None for none."""
    path = folder / _BEST
    if not path.exists():
        return None
    with safetensors.safe_open(path, "pt") as file:
        return dict(json.loads(file.metadata()["scores"]))


def take_best(folder: Path, model: nn.Module) -> dict[str, float]:
    """Give *model* the weights that are kept; return their scores."""
    read_weights(model, folder / _BEST)
    scores = best(folder)
    assert scores is not None
    return scores


def write_weights(model: nn.Module, path: Path, scores: Scores | None = None) -> None:
    """Write the parameters of *model*, each once."""
    told = {"format": "pt"} | ({"scores": json.dumps(scores)} if scores else {})
    atomic.write_bytes(path, safetensors.torch.save(unique_parameters(model), told))


def read_weights(model: nn.Module, path: Path) -> None:
    """Give *model* what `write_weights` wrote of one of its shape."""
    found: dict[str, Tensor] = safetensors.torch.load(path.read_bytes())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(found[name])


def _order(scores: Scores) -> tuple[float, float]:
    main = next(value for name, value in scores.items() if name != "step")
    return main, -scores["step"]
