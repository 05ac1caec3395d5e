"""A recipe as a table, before it is checked: its file, over its preset, under what was typed."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import fields

from lexbench.errors import CommandError, InvalidFile, UnknownName

_PRESETS = Path(__file__).parent / "presets"
_EITHER = {"steps", "epochs"}  # whoever gives one takes back the other


def assembled(path: Path, overrides: Sequence[str], model: type[Struct]) -> dict[str, Any]:
    """Return the table of the recipe at *path*: preset < file < overrides. *model* is what the whole will be read as."""
    table = _read(path)
    for text in overrides:
        if "=" not in text:
            raise CommandError(f"{text!r} sets nothing; type KEY=VALUE, as stage1.lambda_d=0.004")
        name, value = named(text), _value(text)
        section = _checked(name, model)
        if section and section not in table:
            raise CommandError(f"{text}: {path} has no [{section}]; a section is written in the file")
        for key in reversed(name.split(".")):
            value = {key: value}
        table = _over(table, value)
    lacking = _optional(model) - table.keys()
    preset = {name: value for name, value in _preset(table, path, model).items() if name not in lacking}
    expanded: dict[str, Any] = _expanded(_over(preset, table))
    return expanded


def named(override: str) -> str:
    """Return the setting that an override names."""
    return override.partition("=")[0].strip()


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidFile(f"{path} does not read: {error.strerror}") from None
    except ValueError as error:  # not UTF-8, or not TOML
        raise InvalidFile(f"{path}: {error}") from None


def _preset(table: Mapping[str, Any], path: Path, model: type[Struct]) -> dict[str, Any]:
    default = next(field.default for field in fields(model) if field.name == "preset")
    name, known = table.get("preset", default), sorted(file.stem for file in _PRESETS.glob("*.toml"))
    if name not in known:
        raise InvalidFile(f"{path}: no preset {name!r}; there is: {', '.join(known)} - at `$.preset`")
    return _read(_PRESETS / f"{name}.toml")


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return *below* with what *above* has in its place, table by table."""
    replaced = _EITHER if _EITHER & above.keys() else set()
    merged = {name: value for name, value in below.items() if name not in replaced}
    for name, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _over(merged[name], value) if both else value
    return merged


def _value(override: str) -> Any:
    text = override.partition("=")[2].strip()
    try:
        table = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return table["value"] if len(table) == 1 else text


def _checked(name: str, model: type[Struct]) -> str:
    """Return the section of the setting *name* if it is one that a recipe may lack, else ''; UnknownName for no setting."""
    if name not in (known := _settings(model)):
        raise UnknownName("setting", name, known)
    section = name.partition(".")[0]
    return section if section in _optional(model) else ""


def _optional(model: type[Struct]) -> set[str]:
    return {field.name for field in fields(model) if field.default is None}


def _settings(model: type[Struct], within: str = "") -> list[str]:
    """Return the names of all settings, as `stage1.lambda_d`."""
    found = []
    for field in fields(model):
        sections = [kind for kind in (field.type, *get_args(field.type)) if isinstance(kind, type) and issubclass(kind, Struct)]
        found += _settings(sections[0], f"{within}{field.name}.") if sections else [f"{within}{field.name}"]
    return found


def _expanded(value: Any) -> Any:
    """Return *value* with the home folder in place of `~`, wherever a text starts so."""
    if isinstance(value, dict):
        return {name: _expanded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_expanded(item) for item in value]
    return str(Path(value).expanduser()) if isinstance(value, str) and value.startswith("~") else value
