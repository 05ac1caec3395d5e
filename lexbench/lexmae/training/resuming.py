"""The state of a training in the folder `<name>.training`: what it can go on from, and the best weights so far.

recipe.json           what is trained; another recipe does not go on from it
lock                  held by the process that trains
checkpoint-<step>/    the Trainer's; one that was cut off has no file `complete` in it, and is removed
best.safetensors      the weights with the highest score so far, their step and scores in its metadata
scores.json           the scores of every selection
runs/                 TensorBoard's, where it is installed; all else is removed when the model is finished
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from filelock import FileLock, Timeout
from torch import Tensor, nn

from lexbench.errors import CannotStart
from lexbench.lexmae.cards import provenance
from lexbench.lexmae.model.folders import unique_parameters
from lexbench.lexmae.recipe import Fitting, Paths, Recipe
from lexbench.lexmae.training import processes
from lexbench.storage import atomic

Scores = Mapping[str, float]  # the step, then the measure that decides, then others

WEIGHTS = "model.safetensors"
_COMPLETE = "complete"
_BEST = "best.safetensors"
_SCORES = "scores.json"
_LOGS = "runs"


def finished_or_trained(recipe: Recipe, what: str, fitting: Fitting, train: Callable[[Path], Path]) -> Path:
    """Return the folder of the model *what* of *recipe*, calling *train* with the folder of its state if it is not finished.

    In the end the state is removed. CommandError for a batch that cannot be shared, or where a model or state of another
    recipe is in the way; CannotStart where another process trains it.
    """
    processes.check(fitting, recipe.hardware)
    processes.join(recipe.hardware)
    state = Paths(recipe).training(what)
    if not (folder := provenance.finished(Paths(recipe).root / what, recipe, what)):
        with claimed(state, recipe, what):
            folder = train(state)
    if processes.first():
        clear(state)
    return folder


@contextmanager
def claimed(state: Path, recipe: Recipe, what: str) -> Iterator[None]:
    """Hold the folder of a training that goes on.

    CommandError where it is of another recipe, CannotStart where another process trains in it.
    """
    if not processes.first():
        yield
        return
    state.mkdir(parents=True, exist_ok=True)
    lock = FileLock(state / "lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise CannotStart(f"another process trains in {state}; wait for it, or stop it and type the same again") from None
    try:
        if provenance.is_recorded(state):
            provenance.check_folder(state, recipe, what)
        else:
            provenance.write(state, recipe, what)
        yield
    finally:
        lock.release()


def last(folder: Path) -> Path | None:
    """Return the last whole checkpoint in *folder*, None for none; one that was cut off is removed."""
    checkpoints = sorted(folder.glob("checkpoint-*"), key=step)
    for path in checkpoints:
        if not (path / _COMPLETE).exists():
            shutil.rmtree(path)
    return next((path for path in reversed(checkpoints) if path.exists()), None)


def step(checkpoint: Path) -> int:
    """Return the number of steps after which a checkpoint was written."""
    return int(checkpoint.name.rpartition("-")[2])


def complete(checkpoint: Path) -> None:
    """Mark a checkpoint as whole, when all its files are on the disk."""
    for path in checkpoint.iterdir():
        atomic.sync(path)
    atomic.write_text(checkpoint / _COMPLETE, "")


def clear(folder: Path) -> None:
    """Remove all of *folder* but TensorBoard's log, as the training is finished. It need not exist."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir() and path.name != _LOGS:
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
    """Note the *scores* of a step, and keep the weights if they are the best so far; of equally good ones the earlier step's.

    Weights and their scores are one file, so they stay together even where another try at the same step scores otherwise.
    """
    folder.mkdir(parents=True, exist_ok=True)
    earlier = best(folder)
    if earlier is None or _order(scores) > _order(earlier):
        write_weights(model, folder / _BEST, scores)
    lines: Sequence[Scores] = [*(line for line in selections(folder) if line["step"] < scores["step"]), scores]
    atomic.write_text(folder / _SCORES, json.dumps(lines) + "\n")


def best(folder: Path) -> dict[str, float] | None:
    """Return the scores of the best weights so far, None for none."""
    path = folder / _BEST
    if not path.exists():
        return None
    with safetensors.safe_open(path, "pt") as file:
        return dict(json.loads(file.metadata()["scores"]))


def take_best(folder: Path, model: nn.Module) -> dict[str, float]:
    """Give *model* the best weights so far; return their scores."""
    read_weights(model, folder / _BEST)
    scores = best(folder)
    assert scores is not None
    return scores


def write_weights(model: nn.Module, path: Path, scores: Scores | None = None) -> None:
    """Write the parameters of *model*, each once, with their *scores* if they have some."""
    metadata = {"format": "pt"} | ({"scores": json.dumps(scores)} if scores else {})
    atomic.write_bytes(path, safetensors.torch.save(unique_parameters(model), metadata))


def read_weights(model: nn.Module, path: Path) -> None:
    """Give *model* the parameters that `write_weights` wrote of a model of its shape."""
    parameters: dict[str, Tensor] = safetensors.torch.load(path.read_bytes())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(parameters[name])


def _order(scores: Scores) -> tuple[float, float]:
    deciding = next(value for name, value in scores.items() if name != "step")
    return deciding, -scores["step"]
