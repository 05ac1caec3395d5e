"""Which recipe a folder was made by: recipe.json in it. No other recipe takes the folder for its own, or goes on from it."""

import json
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import fields

from lexbench.errors import CommandError
from lexbench.lexmae.recipe import SECTIONS, Fitting, Paths, Recipe
from lexbench.storage import atomic

_RECIPE = "recipe.json"
_REMEDY = "remove it, or give another --output"
_DECIDES_NOTHING = {"schema", "name", "description", "preset", "output", "license", "hardware"}  # of a recipe
_DECIDES_NOTHING_IN_SECTIONS = {"save_every"}
_AFTER = {  # sections that are about what comes after a model
    "pretrained": {"vectors", "stage1", "stage2", "stage3", "selection"},
    "vectors": {"stage1", "stage2", "stage3", "selection"},
    "stage1": {"stage2", "stage3"},
    "stage2": {"stage3"},
    "stage3": set[str](),
}


def finished(folder: Path, recipe: Recipe, what: str) -> Path | None:
    """Return *folder* if it has the model *what* of *recipe*, None if it does not exist; CommandError if of another recipe."""
    if not folder.exists():
        return None
    check_folder(folder, recipe, what)
    return folder


def check(recipe: Recipe, last: str) -> None:
    """Raise CommandError where a model up to *last*, or the state of its training, exists and is of another recipe."""
    paths = Paths(recipe)
    sections: dict[str, Fitting | None] = {"pretrained": recipe.pretrain, "vectors": recipe.vectors}
    sections |= {f"stage{number}": recipe.stage(number) for number in (1, 2, 3)}
    names = list(sections)
    for what in [name for name in names[: names.index(last) + 1] if sections[name]]:
        for folder in (paths.root / what, paths.training(what)):
            if is_recorded(folder):
                check_folder(folder, recipe, what)


def is_recorded(folder: Path) -> bool:
    """Return whether *folder* says which recipe made it."""
    return (folder / _RECIPE).exists()


def check_folder(folder: Path, recipe: Recipe, what: str) -> None:
    """Raise CommandError unless *folder* says that *recipe* made it as the model *what*; the first difference is named."""
    table = _with_defaults(read(folder / _RECIPE, "none"))
    compare(folder, _deciding(table, what), _deciding(_table(recipe), what))


def read(path: Path, kind: str) -> dict[str, Any]:
    """Return the settings that a folder records in the file *path*; CommandError where it has none, being *kind*."""
    try:
        settings: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        raise CommandError(f"{path.parent} is {kind} that lexbench made; {_REMEDY}") from None
    return settings


def compare(folder: Path, recorded: dict[str, Any], expected: dict[str, Any]) -> None:
    """Raise CommandError where the settings *recorded* in a folder are not those *expected*, naming the first that differs."""
    if difference := _difference(recorded, expected):
        raise CommandError(f"{folder} was made by another recipe ({difference}); {_REMEDY}")


def write(folder: Path, recipe: Recipe, what: str) -> None:
    """Note in *folder* the settings of *recipe* that decide the model *what*."""
    atomic.write_text(folder / _RECIPE, json.dumps(_deciding(_table(recipe), what), indent=1) + "\n")


def _with_defaults(table: dict[str, Any]) -> dict[str, Any]:
    """Return recorded settings with the defaults of those that lexbench did not have yet when they were recorded."""
    filled = dict(table)
    for name, kind in SECTIONS.items():
        if isinstance(section := table.get(name), dict):
            defaults = {field.name: field.default for field in fields(kind) if field.default is not msgspec.NODEFAULT}
            filled[name] = json.loads(msgspec.json.encode(defaults)) | section
    return filled


def _table(recipe: Recipe) -> dict[str, Any]:
    table: dict[str, Any] = json.loads(msgspec.json.encode(recipe))
    return table


def _deciding(table: dict[str, Any], what: str) -> dict[str, Any]:
    """Return the settings of a recipe that decide the weights of *what*: neither names and paths nor what comes later."""
    deciding = {
        name: value for name, value in table.items() if name not in _DECIDES_NOTHING | _AFTER[what] and value is not None
    }
    for section, settings in deciding.items():
        if isinstance(settings, dict):
            deciding[section] = {key: value for key, value in settings.items() if key not in _DECIDES_NOTHING_IN_SECTIONS}
    return deciding


def _difference(recorded: Any, expected: Any, name: str = "") -> str:
    """Return the first setting that differs, with both values, or ''; a setting that is not there is None."""
    if not (isinstance(recorded, dict) and isinstance(expected, dict)):
        return "" if recorded == expected else f"{name}: there {recorded!r}, asked {expected!r}"
    keys = sorted({*recorded, *expected})
    differences = (_difference(recorded.get(key), expected.get(key), f"{name}.{key}" if name else key) for key in keys)
    return next(filter(None, differences), "")
