"""Which recipe a folder was made by: recipe.json in it. No other recipe takes it for its own, or goes on from it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from filelock import FileLock, Timeout

from lexbench.errors import CannotStart, CommandError
from lexbench.lexmae import processes
from lexbench.lexmae.places import Places
from lexbench.lexmae.recipe import Recipe
from lexbench.storage import atomic

_RECIPE = "recipe.json"
_WITHOUT = {"schema", "name", "description", "preset", "output", "license", "hardware"}  # of a recipe: they decide nothing
_WITHIN = {"save_every"}  # likewise, of its sections
_AFTER = {  # what comes later
    "pretrained": {"stage1", "stage2", "stage3", "selection"},
    "stage1": {"stage2", "stage3"},
    "stage2": {"stage3"},
    "stage3": set[str](),
}


def finished(folder: Path, recipe: Recipe, what: str) -> Path | None:
    """Return *folder* if it holds *what* as *recipe* makes it, None if it is not there; CommandError if it is of another."""
    if not folder.exists():
        return None
    _refuse_another(folder, recipe, what)
    return folder


def check(recipe: Recipe, last: str) -> None:
    """Raise CommandError where a model up to *last*, or an unfinished training of it, is there and of another recipe."""
    places = Places(recipe)
    sections = {"pretrained": recipe.pretrain, "stage1": recipe.stage1, "stage2": recipe.stage2, "stage3": recipe.stage3}
    for what in [name for name in sections if sections[name] and name <= last]:
        for folder in (places.root / what, places.training(what)):
            if (folder / _RECIPE).exists():
                _refuse_another(folder, recipe, what)


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
            write(training, recipe, what)
        yield
    finally:
        lock.release()


def write(folder: Path, recipe: Recipe, what: str) -> None:
    """Note in *folder* what of *recipe* decides *what*."""
    atomic.write_text(folder / _RECIPE, json.dumps(_deciding(_table(recipe), what), indent=1) + "\n")


def _refuse_another(folder: Path, recipe: Recipe, what: str) -> None:
    remedy = "remove it, or give another --output"
    try:
        whole = json.loads((folder / _RECIPE).read_bytes())
    except (OSError, ValueError):
        raise CommandError(f"{folder} is none that lexbench made; {remedy}") from None
    there, asked = _deciding(whole, what), _deciding(_table(recipe), what)
    if there != asked:
        raise CommandError(f"{folder} was made by another recipe ({_difference(there, asked)}); {remedy}")


def _table(recipe: Recipe) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(msgspec.json.encode(recipe))
    return table


def _deciding(table: dict[str, Any], what: str) -> dict[str, Any]:
    """Return what of a recipe decides the weights of *what*: neither names and places nor what comes later."""
    kept = {name: value for name, value in table.items() if name not in _WITHOUT | _AFTER[what]}
    sections = {name: value for name, value in kept.items() if isinstance(value, dict)}
    within = {name: {key: each for key, each in value.items() if key not in _WITHIN} for name, value in sections.items()}
    return kept | within


def _difference(there: Any, asked: Any, place: str = "") -> str:
    """Return the first setting that differs, with both values."""
    if not (isinstance(there, dict) and isinstance(asked, dict)):
        return f"{place}: there {there!r}, asked {asked!r}"
    name = next(name for name in sorted({*there, *asked}) if there.get(name) != asked.get(name))
    return _difference(there.get(name), asked.get(name), f"{place}.{name}" if place else name)
