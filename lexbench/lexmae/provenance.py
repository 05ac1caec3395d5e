"""Finished folders of a training, and which recipe made them: recipe.json in it. Folders of another recipe are refused."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from lexbench.errors import CannotStart, CommandError
from lexbench.lexmae.recipe.settings import STAGES, Fitting, Paths, Recipe
from lexbench.storage import atomic

_RECIPE = "recipe.json"
_REMEDY = "remove it, or give another --output"
_DECIDES_NOTHING = {"schema", "name", "description", "preset", "output", "license", "hardware"}  # settings of a recipe
_DECIDES_NOTHING_IN_SECTIONS = {"save_every", "published"}
_LATER = {  # sections that cannot change a model because they are about later ones
    "pretrained": {"imitation", "stage1", "stage2", "stage3", "selection", "text_head"},
    "imitated": {"stage1", "stage2", "stage3", "selection"},
    "stage1": {"stage2", "stage3"},
    "stage2": {"stage3"},
    "stage3": set[str](),
}


def finished(folder: Path, recipe: Recipe, what: str) -> Path | None:
    """Return *folder* if it has the model *what* of *recipe*, or None if it does not exist.

    Raises CommandError if it belongs to another recipe.
    """
    if not folder.exists():
        return None
    check_folder(folder, recipe, what)
    return folder


@contextmanager
def drafted(folder: Path) -> Iterator[Path]:
    """Yield an empty folder beside *folder* to write into; after the block it is flushed to the disk and becomes *folder*.

    Raises CannotStart if another process has made *folder* in the meantime.
    """
    draft = folder.with_name(f"{folder.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    yield draft
    for path in draft.iterdir():
        atomic.sync(path)
    try:
        draft.rename(folder)
    except OSError:
        if not folder.exists():
            raise
        raise CannotStart(f"another process has made {folder} in the meantime; type the command again") from None
    atomic.sync(folder.parent)


def check(recipe: Recipe, last: str) -> None:
    """Raise CommandError if a model up to *last*, or an unfinished training of one, exists and belongs to another recipe."""
    paths = Paths(recipe)
    sections: dict[str, Fitting | None] = {"pretrained": recipe.pretrain, "imitated": recipe.imitation}
    sections |= {f"stage{number}": recipe.stage(number) for number in STAGES}
    names = list(sections)
    for what in [name for name in names[: names.index(last) + 1] if sections[name]]:
        for folder in (paths.root / what, paths.training(what)):
            if is_recorded(folder):
                check_folder(folder, recipe, what)


def is_recorded(folder: Path) -> bool:
    """Return whether *folder* has a record of the recipe that made it."""
    return (folder / _RECIPE).exists()


def check_folder(folder: Path, recipe: Recipe, what: str) -> None:
    """Raise CommandError unless *recipe* made *folder* as the model *what*. The message names the first difference."""
    compare(folder / _RECIPE, _deciding(recipe, what))


def compare(path: Path, expected: dict[str, Any]) -> None:
    """Raise CommandError unless the settings recorded in the file *path* are those *expected*. Names the first difference."""
    try:
        recorded = json.loads(path.read_bytes())
    except (OSError, ValueError):
        raise CommandError(f"{path.parent} has no valid {path.name}, so lexbench did not make it; {_REMEDY}") from None
    if difference := _difference(recorded, expected):
        raise CommandError(f"{path.parent} was made by another recipe ({difference}); {_REMEDY}")


def write(folder: Path, recipe: Recipe, what: str) -> None:
    """Record in *folder* the settings of *recipe* that decide the model *what*."""
    atomic.write_json(folder / _RECIPE, _deciding(recipe, what))


def _deciding(recipe: Recipe, what: str) -> dict[str, Any]:
    """Return the settings that decide the weights of *what*: no names, paths or hardware, and nothing about later models."""
    table: dict[str, Any] = json.loads(msgspec.json.encode(recipe))
    deciding = {
        name: value for name, value in table.items() if name not in _DECIDES_NOTHING | _LATER[what] and value is not None
    }
    for section, settings in deciding.items():
        if isinstance(settings, dict):
            deciding[section] = {key: value for key, value in settings.items() if key not in _DECIDES_NOTHING_IN_SECTIONS}
    return deciding


def _difference(recorded: Any, expected: Any, name: str = "") -> str:
    """Return the first setting that differs, with both values, or "". A missing setting counts as None."""
    if not (isinstance(recorded, dict) and isinstance(expected, dict)):
        return "" if recorded == expected else f"{name}: {recorded!r} there, {expected!r} in the recipe"
    keys = sorted({*recorded, *expected})
    differences = (_difference(recorded.get(key), expected.get(key), f"{name}.{key}" if name else key) for key in keys)
    return next(filter(None, differences), "")
