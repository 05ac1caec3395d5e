"""Whether a result is of the system that a published score is of: by what was typed, by its settings, by its weights."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, fields
from typing import Any

from lexbench import catalog, registry
from lexbench.analysis.verify.published import weights
from lexbench.errors import LexbenchError, NotationError
from lexbench.notation import Call, Part, parse
from lexbench.results import Result
from lexbench.runner.systems import describe

_WHOLE = "quantize"  # with its defaults it is how published indexes of whole weights were made


def is_of(result: Result, published: str) -> bool:
    """Whether *result* is of the system *published*, in the notation of parts: `bm25(k1=0.82, b=0.68)`, `lexmae|top_k(64)`.

    A model must have been typed by its name, or have the weights that are known to be its own; all settings that change answers
    must be the model's, and its engine exact. What is made of several retrievers must have been typed alike.
    """
    part, typed = parse(published), _typed(result)
    if typed == part:
        return True
    if "encoder" in result.recipe.get("settings", {}):
        return _is_encoded(part, typed, result)
    if part.head.name not in registry.names("retrievers"):
        return False
    plugin = registry.load("retrievers", part.head.name)
    fusion = any(item.name == "members" for item in fields(plugin))
    return not fusion and _is_made_by(plugin, part.head, result.recipe)


def _typed(result: Result) -> Part | None:
    """Return what a result's label reads as; None where it was given one that is no notation."""
    with suppress(NotationError):
        return parse(result.system)
    return None


def _is_made_by(plugin: type[Any], call: Call, recipe: Mapping[str, Any]) -> bool:
    """Whether the retriever of *recipe* is *plugin* with the settings of *call*, or that on another engine."""
    identity, expected = str(recipe.get("plugin", "")), registry.identity(plugin)
    if identity != expected and not identity.startswith(f"{expected}_"):  # bm25_lucene is bm25 on another engine
        return False
    typed = dict(call.kwargs)
    files = {item.name for item in fields(plugin) if item.metadata.get("runtime") and item.name in typed}
    return _fits(_settings(plugin, typed), recipe["settings"]) and set(recipe.get("identity", ())) == files


def _is_encoded(part: Part, typed: Part | None, result: Result) -> bool:
    """Whether a result is of the encoder, or the model, that *part* names, with its transforms, searched exactly."""
    settings, name = result.recipe["settings"], part.head.name
    encoder = settings["encoder"]
    digest = ((encoder.get("identity") or {}).get("model") or {}).get("weights")
    if (typed is None or typed.head.name != name) and (digest is None or digest != weights().get(name)):
        return False
    model = catalog.model(name) if name in catalog.names() else None
    if (model is None or not model.encoder) and name not in registry.names("encoders"):
        return False
    if not _is_exact(settings["engine"]) or _transforms(settings["transforms"]) != _transforms_of(part):
        return False
    plugin = registry.load("encoders", model.encoder if model else name)
    expected = _settings(plugin, {**(model.settings if model else {}), **dict(part.head.kwargs)})
    if "-titled/" in result.dataset:  # there the titles are joined as the model's authors did, which the catalogue leaves open
        expected.pop("titles", None)
    return encoder["plugin"] == registry.identity(plugin) and _fits(expected, encoder["settings"])


def _settings(plugin: type[Any], typed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of *plugin* that change answers, those *typed* before the defaults."""
    settings = [item for item in fields(plugin) if item.init and not item.metadata.get("runtime")]
    defaults = {item.name: item.default for item in settings if item.default is not MISSING}
    return defaults | {item.name: typed[item.name] for item in settings if item.name in typed}


def _fits(expected: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Whether *settings*, as far as they have them, are as *expected*."""
    return all(settings.get(name, value) == value for name, value in expected.items())


def _is_exact(engine: Mapping[str, Any]) -> bool:
    name = str(engine["plugin"]).rpartition("/")[2]
    with suppress(LexbenchError):  # the engine of another machine's result may not be installed here
        return registry.load("engines", name).exact is True
    return False


def _transforms(recipes: list[Any]) -> list[Any]:
    """Return the transforms that make a system another one."""
    whole = describe(registry.create("transforms", Call(_WHOLE)))
    return [recipe for recipe in recipes if recipe != whole]


def _transforms_of(part: Part) -> list[Any]:
    return _transforms([describe(registry.create("transforms", call)) for call in part.transforms])
