"""Whether the recipe of a result is that of its expression: plug-ins, versions, settings, members, and included models.

`runner.origin_checks` and `runner.soundness` use it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from lexbench import catalog, registry
from lexbench.artifacts.describe import describe
from lexbench.errors import LexbenchError
from lexbench.notation import Call, Expression
from lexbench.plugins import CHOSEN_WEIGHTS, Engine, Model, Retriever
from lexbench.runner.exposure import leaf_calls
from lexbench.runner.systems import inserted, retrievers, system
from lexbench.storage.code import codes
from lexbench.types import Kind

ENCODED = "retrievers/encoded"
_OF_MODELS = ("encoders", "rerankers")  # whose folders state settings


def known_names() -> set[str]:
    """Return the names of retrievers, encoders and models that expressions may begin with."""
    return {*retrievers(), *registry.names("encoders"), *catalog.names()}


def is_system(name: str) -> bool:
    """Return whether *name* alone is a system, without a setting or a member: a retriever, an encoder or a model."""
    if name in known_names() - set(catalog.names()):
        with suppress(LexbenchError):
            return bool(system(name))
    return name in catalog.names()


def candidates_of(recipe: Mapping[str, Any]) -> int:
    """Return how many documents of its first retriever a system with this recipe ranks; 0: it ranks all, or is unknown here."""
    plugin, settings = registry.find(str(recipe.get("plugin", ""))), recipe.get("settings")
    ranks_all = plugin is None or getattr(plugin, "candidates", None) is Retriever.candidates
    found = settings.get("k") if isinstance(settings, Mapping) and not ranks_all else 0
    return found if isinstance(found, int) else 0


def faults_of_versions(recipe: Any) -> Iterator[str]:
    """Yield the plug-ins of lexbench in a recipe that do not exist, or have another version or other settings."""
    if isinstance(recipe, list):
        for one in recipe:
            yield from faults_of_versions(one)
    if not isinstance(recipe, Mapping):
        return
    name = str(recipe.get("plugin", ""))
    plugin = registry.find(name) if name else None
    if plugin:
        version, own = recipe.get("version"), getattr(plugin, "version", 1)
        if version != own:
            yield f"it was made by version {version} of {name}, and this lexbench has {own}"
        settings = recipe.get("settings", {})
        known = {item.name for item in fields(plugin)} if is_dataclass(plugin) else set()
        if unknown := [one for one in settings if one not in known]:
            yield f"its recipe has the setting {unknown[0]!r}, and {name} has none"
    elif name and ":" not in name and name.partition("/")[0] in registry.PACKAGES:
        yield f"its recipe has {name}, and there is no such plug-in"
    for value in recipe.values():
        yield from faults_of_versions(value)


def faults_of_expression(expression: Expression, recipe: Any) -> Iterator[str]:
    """Yield how a recipe differs from that of *expression*, as far as this machine can tell."""
    name, head = expression.head.name, expression.head
    node = recipe if isinstance(recipe, Mapping) else {}
    if name in registry.names("encoders") or name in catalog.names():
        yield from _faults_of_encoded(expression, node)
        return
    known = retrievers()
    typed = f"{name}@{expression.engine.name}" if expression.engine else name
    if typed not in known:  # the plug-in, or the file of a model, is not installed here
        if node.get("plugin") == ENCODED:
            yield from _faults_of_encoded(expression, node)
        elif _tail(node) != typed.replace("@", "_"):
            yield f"it has {node.get('plugin')} in place of {typed}"
        return
    if expression.engine:
        head = Call(known[typed], head.args, tuple(sorted({**dict(head.kwargs), **dict(expression.engine.kwargs)}.items())))
    settings = node.get("settings", {})
    members = [value for value in head.args if isinstance(value, Expression)]
    stated = Call(known[typed], tuple(value for value in head.args if not isinstance(value, Expression)), head.kwargs)
    yield from _faults_of_call("retrievers", stated, node)
    if members and isinstance(settings, Mapping):
        if "reranker" in settings:
            yield from _faults_of_model("rerankers", members.pop().head, settings["reranker"])
        yield from _faults_of_members(stated, members, node)


def _faults_of_members(stated: Call, named: Sequence[Expression], node: Mapping[str, Any]) -> Iterator[str]:
    """Yield how the members of a recipe, and their weights, differ from the members *named* in its expression."""
    settings, plugin, members = node["settings"], registry.find(str(node.get("plugin"))), named
    if plugin and hasattr(plugin, "default_weights"):  # a fusion
        members = plugin.expanded(named)
        usual = plugin.default_weights(len(members))
        if "weights" not in dict(stated.kwargs) and not _is_same(usual, settings.get("weights", ())):
            yield f"{stated.name}(weights=…) is {settings.get('weights')} in place of {list(usual)}"
    parts = list(settings.get("members", ()))
    if len(parts) != len(members):
        yield f"it has {len(parts)} members in place of {len(members)}"
    for member, part in zip(members, parts, strict=False):
        yield from faults_of_expression(member, part)


def _faults_of_encoded(expression: Expression, node: Mapping[str, Any]) -> Iterator[str]:
    """Yield how a recipe differs from that of an encoder, or model, with its transforms and engine."""
    if node.get("plugin") != ENCODED:
        yield f"it has {node.get('plugin')} in place of an encoder with an engine"
        return
    settings = node.get("settings", {})
    if _tail(settings.get("encoder")) == "":
        yield "it has no encoder"
    if expression.head.name in known_names():
        yield from _faults_of_model("encoders", expression.head, settings.get("encoder"))
    if expression.engine:
        yield from _faults_of_call("engines", expression.engine, settings.get("engine"))
    transforms, calls = list(settings.get("transforms", ())), _with_inserted(expression.transforms, settings)
    if calls is None:  # a plug-in is not installed here
        return
    found, names = [str(one.get("plugin")).rpartition("/")[2] for one in transforms], [call.name for call in calls]
    if len(found) != len(names):
        yield f"it has the transforms {', '.join(found) or 'none'} in place of {', '.join(names) or 'none'}"
    for call, transform in zip(calls, transforms, strict=False):
        yield from _faults_of_call("transforms", call, transform)


def _with_inserted(typed: Sequence[Call], settings: Mapping[str, Any]) -> list[Call] | None:
    """Return the *typed* transforms with those that lexbench inserts for an encoder and engine with these *settings*.

    None if a plug-in is unknown here.
    """
    encoder, engine = settings.get("encoder"), created(settings.get("engine"), "engines")
    model = registry.find(str(encoder.get("plugin", ""))) if isinstance(encoder, Mapping) else None
    transforms = [registry.find(f"transforms/{call.name}") for call in typed]
    if not (isinstance(encoder, Mapping) and model and engine and all(transforms)):
        return None
    if model.kind is not Kind.SPARSE or Kind.SPARSE not in (engine.kind, *engine.kinds):
        return list(typed)
    first, then = inserted(transforms, impacts=engine.impacts, query_idf=encoder.get("settings", {}).get("query_idf", 0))
    return [*first, *typed, *then]


def created(node: Any, group: str) -> Any:
    """Return the plug-in of lexbench that a part of a recipe describes; None if it is not lexbench's, or not possible."""
    name = str(node.get("plugin", "")) if isinstance(node, Mapping) else ""
    plugin = registry.find(name) if name.startswith(f"{group}/") else None
    if plugin is None:
        return None
    stated = node.get("settings", {})
    settings = {one: created(value, group) if isinstance(value, Mapping) else value for one, value in stated.items()}
    with suppress(LexbenchError, TypeError, ValueError):
        return plugin(**settings)
    return None


def nodes(recipe: Any, group: str) -> Iterator[Any]:
    """Yield the outermost plug-ins of a *group* in a recipe."""
    if isinstance(recipe, Mapping):
        if group in str(recipe.get("plugin", "")).rpartition(":")[2].split("/"):
            yield recipe
            return
        recipe = list(recipe.values())
    for one in recipe if isinstance(recipe, list) else ():
        yield from nodes(one, group)


def _tail(node: Any) -> str:
    """Return the name of the plug-in in a recipe, without its group and package."""
    return str(node.get("plugin", "")).rpartition("/")[2] if isinstance(node, Mapping) else ""


# ---- models whose weights come with lexbench -------------------------------------------------------------------------------


def included_models(recipe: Any) -> Iterator[str]:
    """Yield the included models whose files are in a recipe."""
    found = [one.get("identity") for group in _OF_MODELS for one in nodes(recipe, group)]
    for name in catalog.names() if any(found) else ():
        with suppress(LexbenchError):
            if (own := _included(Call(name))) and own.identity() in found:
                yield name


def model_bytes(expression: Expression) -> int | None:
    """Return the bytes of the weights of a system if all its models are included; else None."""
    files: dict[str, int] = {}
    for call in leaf_calls(expression):
        try:
            model = None if call == Call("bm25") else _included(call)
        except LexbenchError:
            return None
        if call != Call("bm25") and model is None:
            return None
        files |= model.weight_files() if model else {}
    return sum(files.values())


def _faults_of_model(group: str, call: Call, node: Any) -> Iterator[str]:
    """Yield how a recipe differs from that of an encoder or reranker, of which a folder may state settings."""
    try:
        expanded = catalog.expand(call)
    except LexbenchError:  # e.g. its weights are not here
        return
    typed, entry = dict(call.kwargs), expanded is not call
    kwargs = expanded.kwargs
    if entry and "model" in typed:  # a folder's own numbers win over those of the catalogue
        kwargs = tuple(item for item in kwargs if item[0] in typed or isinstance(item[1], str))
    yield from _faults_of_call(group, Call(expanded.name, expanded.args, kwargs), node)
    with suppress(LexbenchError):  # e.g. another file that it names is not here
        if model := _included(call):
            yield from _faults_of_included(call, model, node)


def _included(call: Call) -> Model | None:
    """Return the model of *call* if its weights are in lexbench, or in an installed package; else None."""
    if call.name not in catalog.names() or call.args or "model" in dict(call.kwargs):
        return None
    entry = catalog.model(call.name)
    if entry.weights != "included":
        return None
    model: Model = registry.create("rerankers" if entry.family == "reranker" else "encoders", catalog.expand(call))
    return model


def _faults_of_included(call: Call, model: Any, node: Any) -> Iterator[str]:
    """Yield how a recipe differs from that of an included *model*."""
    own, found = describe(model), node if isinstance(node, Mapping) else {}
    typed, files = dict(call.kwargs), found.get("identity")
    for name, content in own["identity"].items():
        if name not in typed and (not isinstance(files, Mapping) or files.get(name) != content):
            yield f"its files are not those of {call.name} in this lexbench: the digest of its {name} is another"
    items = {item.name: item.default for item in fields(model)}
    for name in items.keys() & {*own["settings"], *found.get("settings", {})}:
        expected, value = (one["settings"].get(name, items[name]) for one in (own, found))
        if value != expected:
            yield f"{call.name}({name}=…) is {value!r} in place of {expected!r}"


def _faults_of_call(group: str, call: Call, node: Any) -> Iterator[str]:
    """Yield how one plug-in of a recipe differs from its call."""
    try:
        plugin = registry.load(group, call.name)
    except LexbenchError:  # not installed here
        if _tail(node) != call.name:
            yield f"it has {_tail(node) or 'nothing'} in place of {call.name}"
        return
    if not isinstance(node, Mapping) or node.get("plugin") != registry.identity(plugin):
        found = node.get("plugin") if isinstance(node, Mapping) else node
        yield f"it has {found} in place of {call.name}"
        return
    settings = node.get("settings", {})
    items = [item for item in fields(plugin) if item.init]
    stated = dict(zip((item.name for item in items if not item.kw_only), call.args, strict=False)) | dict(call.kwargs)
    for item in items:
        if "runtime" in item.metadata or item.name in ("members", "reranker"):
            continue
        of_folder = group in _OF_MODELS or (group == "engines" and item.name not in settings)
        if item.name in stated:
            expected: Any = stated[item.name]
        elif of_folder or item.default is MISSING or item.default in ((), None, ""):
            continue
        else:
            expected = item.default
        found = settings.get(item.name, item.default if "optional" in item.metadata else None)
        if not _is_same(expected, found):
            yield f"{call.name}({item.name}=…) is {found!r} in place of {expected!r}"


def _is_same(expected: Any, found: Any) -> bool:
    """Return whether a setting of a recipe is the one that was typed; settings that the harness chooses always are."""
    if isinstance(expected, Expression) or (isinstance(expected, str) and expected in CHOSEN_WEIGHTS):
        return True
    if isinstance(expected, Sequence) and not isinstance(expected, str):
        same = isinstance(found, Sequence) and not isinstance(found, str) and len(found) == len(expected)
        return same and all(map(_is_same, expected, found))
    return bool(expected == found)


def repeats(recipe: Mapping[str, Any]) -> bool:
    """Return whether a system with this recipe gives the same answers each time, but for rounding of its models.

    Its code is released, nothing else answers for it, and its engines are exact.
    """
    engines = [created(node, "engines") for node in nodes(recipe, "engines")]
    own = all(name.partition("/")[0] in registry.PACKAGES for name in _plugins(recipe))
    return own and all(one and one.exact for one in engines) and not {*codes(recipe), *stated_flags(recipe)}


def _plugins(recipe: Any) -> Iterator[str]:
    """Yield the identity of each plug-in in a recipe."""
    if isinstance(recipe, Mapping):
        yield from (str(value) for name, value in recipe.items() if name == "plugin")
        recipe = list(recipe.values())
    for one in recipe if isinstance(recipe, list | tuple) else ():
        yield from _plugins(one)


def stated_flags(recipe: Any) -> Iterator[str]:
    """Yield the flags that every timing of a system with this recipe has."""
    if isinstance(recipe, Mapping):
        plugin: Any = registry.find(str(recipe.get("plugin", "")))
        if getattr(plugin, "remote", False) is True or elsewhere(plugin):
            yield "elsewhere"
        if getattr(plugin, "looks_up", False) is True:
            yield "no encoding"
        # Timing asks only the outer one of two engines.
        recipe = [] if plugin and issubclass(plugin, Engine) else list(recipe.values())
    for one in recipe if isinstance(recipe, list | tuple) else ():
        yield from stated_flags(one)


def elsewhere(plugin: Any) -> str:
    """Return what answers instead of a plug-in, e.g. "a server"; "" if it answers itself."""
    own = getattr(plugin, "elsewhere", "")
    return own if isinstance(own, str) else ""
