"""The state of an unfinished training in the folder `<name>.training`: checkpoints and the best weights so far.

recipe.json           what is trained; another recipe cannot resume from it
data.json             digests of what it is trained on; other texts, judgements or models cannot resume from it
lock                  held by the process that trains
checkpoint-<step>/    written by the Trainer; an incomplete one has no file `complete`, and is removed
best.safetensors      the weights with the highest score so far, with step and scores in its metadata
scores.json           the scores of every selection
vectors.safetensors   the teacher's vectors of the texts, if it ranks them
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from filelock import Timeout
from torch import Tensor, nn

from lexbench.errors import CannotStart, CommandError, shortened
from lexbench.lexmae import provenance
from lexbench.lexmae.model.encoder import unique_parameters
from lexbench.lexmae.recipe.settings import Recipe
from lexbench.lexmae.training import processes
from lexbench.models.checkpoint import fetch_model
from lexbench.storage import atomic, locks
from lexbench.storage.reading import cached_file_digest

Scores = Mapping[str, float]  # the step, then the deciding measure, then others

WEIGHTS = "model.safetensors"
_COMPLETE = "complete"
_BEST = "best.safetensors"
_SCORES = "scores.json"
_DATA = "data.json"
_OF_MODELS = (".safetensors", ".bin", ".json", ".txt")  # files of models
_VECTORS = "vectors.safetensors"


@contextmanager
def locked(recipe: Recipe, model: str) -> Iterator[Path]:
    """Lock the folder of an unfinished training, and yield it. Another process than the first one only gets its path.

    Raises CommandError if it belongs to another recipe, and CannotStart if another process trains in it.
    """
    state = recipe.state(model)
    if not processes.is_first():
        yield state
        return
    try:
        lock = locks.taken(state / "lock")
    except Timeout:
        raise CannotStart(f"another process trains in {state}; wait for it, or stop it and try again") from None
    try:
        if provenance.is_recorded(state, model):
            provenance.check_folder(state, recipe, model)
        else:
            provenance.write(state, recipe, model)
        yield state
    finally:
        lock.release()


def check_data(state: Path, data: Sequence[str], models: Sequence[str | Path] = ()) -> None:
    """Record the digests of what a training in *state* reads: of *data*, and of the files of *models* (folders or names).

    Raises CommandError if it began with others.
    """
    folders = [fetch_model(str(model)) for model in models]
    files = [path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in _OF_MODELS]
    path, text = state / _DATA, json.dumps([*data, *map(cached_file_digest, files)]) + "\n"
    if not path.exists():
        atomic.write_text(path, text)
    elif path.read_bytes() != text.encode():
        raise CommandError(
            f"{state} was begun with other texts, judgements or models; bring them back, or remove it to begin again"
        )


def last_checkpoint(folder: Path) -> Path | None:
    """Return the last complete checkpoint in *folder*, or None. Incomplete ones are removed."""
    checkpoints = sorted(folder.glob("checkpoint-*"), key=checkpoint_step)
    for path in checkpoints:
        if not (path / _COMPLETE).exists():
            shutil.rmtree(path)
    return next((path for path in reversed(checkpoints) if path.exists()), None)


def checkpoint_step(checkpoint: Path) -> int:
    """Return the step of a checkpoint."""
    return int(checkpoint.name.rpartition("-")[2])


def mark_complete(checkpoint: Path) -> None:
    """Mark a checkpoint as complete, after all its files have reached the disk."""
    for path in checkpoint.iterdir():
        atomic.sync(path)
    atomic.write_text(checkpoint / _COMPLETE, "")


def clear(folder: Path) -> None:
    """Remove the state of a finished training, if there is any."""
    shutil.rmtree(folder, ignore_errors=True)


def selections(folder: Path) -> list[dict[str, float]]:
    """Return the scores of all selections so far."""
    path = folder / _SCORES
    try:
        return list(json.loads(path.read_bytes())) if path.exists() else []
    except ValueError:
        raise CannotStart(f"{path} is damaged; remove {folder} to begin again") from None


def keep_if_best(folder: Path, model: nn.Module, scores: Scores) -> None:
    """Record the *scores* of a step, and keep the weights if they are the best so far. Ties go to the earlier step.

    Weights and scores are in one file, so they stay together even if a repeated step scores differently.
    """
    folder.mkdir(parents=True, exist_ok=True)
    earlier = best(folder)
    if earlier is None or _order(scores) > _order(earlier):
        write_weights(model, folder / _BEST, scores)
    lines: Sequence[Scores] = [*(line for line in selections(folder) if line["step"] < scores["step"]), scores]
    atomic.write_text(folder / _SCORES, json.dumps(lines) + "\n")


def best(folder: Path) -> dict[str, float] | None:
    """Return the scores of the best weights so far, or None."""
    path = folder / _BEST
    if not path.exists():
        return None
    try:
        with safetensors.safe_open(path, "pt") as file:
            return dict(json.loads(file.metadata()["scores"]))
    except (safetensors.SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise CannotStart(f"{path} is damaged ({shortened(str(error), 80)}); remove {folder} to begin again") from None


def load_best(folder: Path, model: nn.Module) -> dict[str, float]:
    """Load the best weights so far into *model*, and return their scores."""
    scores = best(folder)  # it refuses damaged weights
    assert scores is not None
    read_weights(model, folder / _BEST)
    return scores


def write_weights(model: nn.Module, path: Path, scores: Scores | None = None) -> None:
    """Write the parameters of *model*, each once, with their *scores* if given."""
    metadata = {"format": "pt"} | ({"scores": json.dumps(scores)} if scores else {})
    atomic.write_bytes(path, safetensors.torch.save(unique_parameters(model), metadata))


def read_weights(model: nn.Module, path: Path) -> None:
    """Load parameters that `write_weights` wrote into *model*, which has the same shape."""
    parameters: dict[str, Tensor] = safetensors.torch.load(path.read_bytes())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(parameters[name])


def kept_vectors(folder: Path, encode: Callable[[], Tensor]) -> Tensor:
    """Return what *encode* returns, or what it returned when this training began. The first process encodes for all.

    Raises CannotStart if the file is damaged.
    """
    path = folder / _VECTORS
    with processes.first_goes_first():
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            atomic.write_bytes(path, safetensors.torch.save({_VECTORS: encode().cpu()}))
        try:
            return safetensors.torch.load(path.read_bytes())[_VECTORS]
        except (safetensors.SafetensorError, KeyError) as error:
            raise CannotStart(f"{path} is damaged ({shortened(str(error), 80)}); remove it to encode the texts again") from None


def _order(scores: Scores) -> tuple[float, float]:
    deciding = next(value for name, value in scores.items() if name != "step")
    return deciding, -scores["step"]
