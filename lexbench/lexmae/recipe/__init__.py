"""Recipes: one TOML file says how a masked-language model becomes a retriever.

    settings   the sections and settings of a recipe, which of them go together, and the paths of what it makes
    presets/   defaults: `paper` is LexMAE as its paper describes it, `code` as its authors' program trains it

Here recipes are found and read: `recipe.read(recipe.find("msmarco"))`.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from lexbench.errors import CommandError, InvalidFile, LexbenchError, UnknownName
from lexbench.lexmae.recipe.settings import Recipe, inconsistencies
from lexbench.storage.reading import explained

_PRESETS = Path(__file__).parent / "presets"
_OWN = Path(__file__).parents[2] / "_recipes", Path(__file__).parents[3] / "recipes"  # in a wheel, in a checkout
_UNKNOWN = re.compile(r"Object contains unknown field `([^`]*)`(?: - at `\$\.(.*)`)?")  # as msgspec says it
_DESCRIBED = {"name", "output", "license", "hardware"}  # no description is about these
_EITHER = {"steps", "epochs"}  # a table that gives one of them replaces the other


def find(name: str) -> Path:
    """Return the recipe file *name*, or lexbench's own recipe of that name, e.g. `msmarco`. Raises UnknownName."""
    if Path(name).is_file():
        return Path(name)
    folder = next((folder for folder in _OWN if folder.is_dir()), _OWN[-1])
    known = {path.stem: path for path in folder.glob("*.toml")}
    if name not in known:
        raise UnknownName("recipe or file", name, known)
    return known[name]


def read(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Return the recipe in the TOML file *path* with its preset filled in and *overrides* applied.

    An override is `stage1.lambda_d=0.004`; its value is TOML, or plain text if it is not valid TOML. A preset only fills
    sections that the recipe has: it adds no pretraining and no stage. `steps` and `epochs` replace each other. `~` is expanded;
    other paths stay relative to the current folder. The description then also names the settings that overrides have changed,
    because a card quotes it.

    Raises InvalidFile (names file and setting), CommandError (names the override), or UnknownName (unknown setting).
    """
    table = _table(path, overrides)
    try:
        recipe = msgspec.convert(table, Recipe)
    except msgspec.ValidationError as error:
        raise _error(explained(str(error), Recipe), path, overrides) from None
    if problem := next(inconsistencies(recipe), None):
        raise _error(problem, path, overrides)
    changed = [name for name in dict.fromkeys(map(_name, overrides)) if name.partition(".")[0] not in _DESCRIBED]
    if changed and recipe.description and "description" not in map(_name, overrides):
        described = f"{recipe.description.rstrip()} Settings changed: {', '.join(changed)}."
        return msgspec.structs.replace(recipe, description=described)
    return recipe


def _error(problem: str, path: Path, overrides: Sequence[str]) -> LexbenchError:
    """Return the error about the override that gave the wrong value, or else about the file."""
    if unknown := _UNKNOWN.fullmatch(problem):
        name, section = unknown.groups()
        known = [*_settings(Recipe), *(field.name for field in fields(Recipe))]
        return InvalidFile(f"{path}: {UnknownName('setting', f'{section}.{name}' if section else name, known)}")
    what, _, setting = problem.partition(" - at `$.")
    typed = [text for text in overrides if _name(text) == setting.rstrip("`")]
    return CommandError(f"{typed[-1]}: {what}") if typed else InvalidFile(f"{path}: {problem}")


def _table(path: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """Return the settings as nested tables: the preset's, replaced by the file's, replaced by the overrides."""
    table = _toml(path)
    for override in overrides:
        if "=" not in override:
            raise CommandError(f"{override!r} is not a setting; type KEY=VALUE, e.g. stage1.lambda_d=0.004")
        name, value = _name(override), _value(override)
        if name not in (known := _settings(Recipe)):
            raise UnknownName("setting", name, known)
        section = name.partition(".")[0]
        if section in _optional_sections() - table.keys():
            raise CommandError(f"{override}: {path} has no [{section}]; add the section to the file")
        for key in reversed(name.split(".")):
            value = {key: value}
        table = _merged(table, value)
    lacking = _optional_sections() - table.keys()
    preset = {name: value for name, value in _preset(table, path).items() if name not in lacking}
    expanded: dict[str, Any] = _expanded(_merged(preset, table))
    return expanded


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidFile(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, or nested too deeply
        raise InvalidFile(f"{path}: {error}") from None


def _preset(table: Mapping[str, Any], path: Path) -> dict[str, Any]:
    default = next(field.default for field in fields(Recipe) if field.name == "preset")
    name, known = table.get("preset", default), sorted(file.stem for file in _PRESETS.glob("*.toml"))
    if name not in known:
        raise InvalidFile(f"{path}: no preset {name!r}; there is: {', '.join(known)} - at `$.preset`")
    return _toml(_PRESETS / f"{name}.toml")


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return *below* with the values of *above* in their place, table by table."""
    replaced = _EITHER if _EITHER & above.keys() else set()
    merged = {name: value for name, value in below.items() if name not in replaced}
    for name, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merged(merged[name], value) if both else value
    return merged


def _name(override: str) -> str:
    return override.partition("=")[0].strip()


def _value(override: str) -> Any:
    text = override.partition("=")[2].strip()
    try:
        table = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # not TOML, or a number of thousands of digits, or nested too deeply
        return text
    return table["value"] if len(table) == 1 else text


def _optional_sections() -> set[str]:
    """Return the sections that a recipe can leave out: exact terms, the text head, pretraining, imitation and the stages."""
    return {field.name for field in fields(Recipe) if field.default is None}


def _settings(model: type[Struct], prefix: str = "") -> list[str]:
    """Return the names of all settings, e.g. `stage1.lambda_d`."""
    names = []
    for field in fields(model):
        sections = [kind for kind in (field.type, *get_args(field.type)) if isinstance(kind, type) and issubclass(kind, Struct)]
        names += _settings(sections[0], f"{prefix}{field.name}.") if sections else [f"{prefix}{field.name}"]
    return names


def _expanded(value: Any) -> Any:
    """Return *value* with `~` at the beginning of any text replaced by the home folder."""
    if isinstance(value, dict):
        return {name: _expanded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_expanded(item) for item in value]
    return str(Path(value).expanduser()) if isinstance(value, str) and value.startswith("~") else value
