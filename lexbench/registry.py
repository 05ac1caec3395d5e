"""Finding plug-ins by name. Listing names imports nothing; using one imports one module.

A plug-in of lexbench is one file: `lexbench/engines/impact.py` has the engine `impact`, the class `Impact`. The names of file
and class are compared without case and underscores. Another package adds a plug-in by an entry point.
"""

import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import MISSING, field, fields, is_dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint
from importlib.resources import files
from types import ModuleType, NoneType, UnionType
from typing import Any, get_args, get_type_hints

from lexbench.errors import CannotStart, CommandError, LexbenchError, UnknownName, one_line, require, with_meaning
from lexbench.notation import Call, Expression, Value
from lexbench.storage import environment

_GROUPS = ("encoders", "engines", "executors", "judges", "measures", "rerankers", "retrievers", "sources", "transforms")
PACKAGES: Mapping[str, str] = {group: f"lexbench.{group}" for group in _GROUPS} | {"sources": "lexbench.datasets.sources"}


_PLAIN = (bool, int, float, str, NoneType)


def runtime(default: Any) -> Any:
    """Return the default of a setting that cannot change an answer (threads, batch size, device), so it is in no key."""
    return field(default=default, metadata={"runtime": True})


def has_threads(plugin: Any) -> bool:
    """Return whether a plug-in has a runtime setting `threads`."""
    is_plugin = is_dataclass(plugin) and not isinstance(plugin, type)
    return is_plugin and any(item.name == "threads" and item.metadata.get("runtime") for item in fields(plugin))


def with_threads(plugin: Any, threads: int) -> Any:
    """Return *plugin* with that number of threads, if it has a runtime setting `threads` that is not set."""
    return replace(plugin, threads=threads) if has_threads(plugin) and not plugin.threads else plugin


def replace_plugins(plugin: Any, change: Callable[[Any], Any]) -> Any:
    """Return change(plugin), after the same change of all plug-ins in its settings."""
    if isinstance(plugin, tuple):
        changed = tuple(replace_plugins(item, change) for item in plugin)
        return plugin if all(new is old for new, old in zip(changed, plugin, strict=True)) else changed
    if not is_dataclass(plugin) or isinstance(plugin, type):
        return plugin
    settings = ((item.name, getattr(plugin, item.name)) for item in fields(plugin) if item.init)
    changes = {name: new for name, value in settings if (new := replace_plugins(value, change)) is not value}
    return change(replace(plugin, **changes) if changes else plugin)


def at_search(default: Any) -> Any:
    """Return the default of a setting that only searching uses: systems that differ in it share an index."""
    return field(default=default, metadata={"search": True})


def optional(default: Any) -> Any:
    """Return the default of a setting that is in no key at its default, so that adding the setting changes no key."""
    return field(default=default, metadata={"optional": True})


def optional_at_search(default: Any) -> Any:
    """Return the default of a setting that only searching uses and that is in no key at its default."""
    return field(default=default, metadata={"search": True, "optional": True})


@cache
def _entries(group: str) -> Mapping[str, EntryPoint]:
    """Return the plug-ins of *group* by name; our own files become entry points that are not loaded yet."""
    package = PACKAGES[group]
    names = (item.name.removesuffix(".py") for item in files(package).iterdir() if item.name.endswith(".py"))
    entries = {name: EntryPoint(name, f"{package}.{name}", f"lexbench.{group}") for name in names if not name.startswith("_")}
    for entry in environment.entries(f"lexbench.{group}"):
        if entry.name in entries:
            raise CommandError(f"two plug-ins call themselves {entry.name!r} in lexbench.{group}; uninstall one: {entry.value}")
        entries[entry.name] = entry
    return entries


def names(group: str) -> list[str]:
    """Return the names of all plug-ins of *group*, sorted, importing none."""
    return sorted(_entries(group))


def origin(group: str, name: str) -> str:
    """Return the package that a plug-in comes from, with its version."""
    entry = _entries(group)[name]
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "lexbench"


def identity(plugin: type[Any]) -> str:
    """Return the identity of a class in key facts and results.

    It is `group/name` for our plug-ins, `package:group/name` for those of other packages, `module:name` for other classes.
    """
    places = {plugin.__module__, f"{plugin.__module__}:{plugin.__qualname__}"}
    for group in PACKAGES:
        for name, entry in _entries(group).items():
            if entry.value in places and (":" in entry.value or _fits(plugin.__name__, name)):
                return f"{entry.dist.name}:{group}/{name}" if entry.dist else f"{group}/{name}"
    return f"{plugin.__module__}:{plugin.__qualname__}"


def _fits(cls: str, name: str) -> bool:
    """Return whether a class name fits the plug-in *name*, without case and underscores."""
    return cls.lower() == name.replace("_", "").lower()


def load(group: str, name: str, shown: str = "") -> type[Any]:
    """Return the class of a plug-in. Error messages call it *shown*, by default its name.

    Raises UnknownName, or MissingExtra if its extra is not installed.
    """
    if name not in _entries(group):
        raise UnknownName(group.removesuffix("s"), name, names(group))
    plugin = _loaded(group, name)
    require(f"{group.removesuffix('s')} {(shown or name)!r}", plugin.requires, plugin.extra)
    return plugin


def find(identity: str) -> type[Any] | None:
    """Return the class of a plug-in by its identity, also if its extra is not installed; None if the plug-in is unknown."""
    package, _, path = identity.rpartition(":")
    group, _, name = path.partition("/")
    entry = _entries(group).get(name) if group in PACKAGES else None
    if entry is None or package != (entry.dist.name if entry.dist else ""):
        return None
    with suppress(CannotStart):
        return _loaded(group, name)
    return None


def _loaded(group: str, name: str) -> type[Any]:
    """Return the class of a plug-in. Raises CannotStart, in one line, if it does not load or is no plug-in of this group."""
    from lexbench.plugins import fault  # needs NumPy, which listing names does without

    entry = _entries(group)[name]
    origin = f"{entry.value} of {entry.dist.name}" if entry.dist else entry.value
    try:
        with redirect_stdout(sys.stderr):  # what it prints is no part of our output
            loaded = entry.load() if ":" in entry.value else import_module(entry.value)
    except (Exception, SystemExit) as error:  # a mistake in another package should give one line, no traceback
        said = one_line(f"{type(error).__name__}: {error}")
        raise CannotStart(f"plug-in {name!r} ({origin}) does not load: {said}") from error
    if isinstance(loaded, ModuleType):
        loaded = next((item for key, item in vars(loaded).items() if _fits(key, name) and isinstance(item, type)), None)
    if not isinstance(loaded, type):
        class_name = name.replace("_", " ").title().replace(" ", "")
        raise CannotStart(f"plug-in {name!r} ({origin}) is no class; it needs a class called {class_name}")
    if reason := fault(group, loaded):
        raise CannotStart(f"plug-in {name!r} ({origin}) is not one of {group}: {reason}")
    return loaded


def create(group: str, call: Call, shown: str = "") -> Any:
    """Make the plug-in that *call* names, with its settings checked against the class's fields; *shown* as in `load`.

    Settings that *call* leaves out come from `checkpoint_defaults`, then from the fields.
    """
    plugin = load(group, call.name, shown)
    settings = [item for item in fields(plugin) if item.init]
    if len(call.args) > len(settings):
        raise CommandError(f"{call}: {call.name} takes {len(settings)} settings, {len(call.args)} given")
    values = dict(zip((item.name for item in settings if not item.kw_only), call.args, strict=False))
    if twice := values.keys() & dict(call.kwargs).keys():
        raise CommandError(f"{call}: {min(twice)} is given twice, by its place and by its name")
    values |= dict(call.kwargs)
    known = {item.name: item for item in settings}
    if unknown := [name for name in values if name not in known]:
        raise UnknownName(f"setting of {call.name}:", unknown[0], known)
    for name, item in known.items():
        if name not in values and item.default is MISSING and item.default_factory is MISSING:
            raise CommandError(f"{call.name} needs {name}=…, e.g. {call.name}({name}=…)")
    typed = converted(plugin, values, call.name)
    try:
        stated = {name: value for name, value in plugin.checkpoint_defaults(typed).items() if name in known}
        return plugin(**converted(plugin, stated, call.name) | typed)
    except Exception as error:
        if isinstance(error, LexbenchError) or not _entries(group)[call.name].dist:
            raise
        raise CommandError(f"{call}: {one_line(f'{type(error).__name__}: {error}')}") from error


def converted(plugin: type[Any], values: Mapping[str, Value], shown: str) -> dict[str, Any]:
    """Return *values* as the types of the fields of a plug-in, which error messages call *shown*. Raises CommandError."""
    types = get_type_hints(plugin)
    return {name: _converted(value, types[name], f"{shown}({name}=…)") for name, value in values.items()}


def _converted(value: Value, annotation: Any, setting: str) -> Any:
    """Return *value* as the type of its field. Whole numbers are accepted as floats, and nothing else is converted."""
    types = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    if not all(isinstance(kind, type) for kind in types) or type(value) in types:
        return value
    if type(value) is int and float in types:
        return float(value)
    if isinstance(value, Expression) and str in types and value == Expression(Call(value.head.name)):
        return value.head.name  # a folder without a slash, e.g. dense(model=checkpoint)
    if type(value) is bool or not isinstance(value, types):
        is_number = isinstance(value, str) and bool({int, float} & set(types)) and value.replace(".", "", 1).isdigit()
        hint = f"; write it without quotes: {setting.replace('…', str(value))}" if is_number else ""
        known = " or ".join("None" if kind is NoneType else kind.__name__ for kind in types)
        error = CommandError(f"{setting} takes {known}, not {value!r}{hint}")
        raise with_meaning(error, f'"{value}"', str(value)) if is_number else error
    return value


def settings(plugin: Any, *, index: bool = False) -> dict[str, Any]:
    """Return the settings of a plug-in that can change its answers, or with *index* its index; defaults included."""
    ignored = {"runtime", "search"} if index else {"runtime"}
    counted = [item for item in fields(plugin) if item.init and ignored.isdisjoint(item.metadata)]
    values = {item.name: getattr(plugin, item.name) for item in counted}
    unchanged = {item.name for item in counted if "optional" in item.metadata and values[item.name] == item.default}
    return {name: value for name, value in values.items() if name not in unchanged}


def defaults(plugin: type[Any]) -> dict[str, Any]:
    """Return the settings of a plug-in with their defaults; a setting that must be given has "…"."""
    return {
        item.name: "…" if item.default is MISSING else item.default if isinstance(item.default, _PLAIN) else str(item.default)
        for item in (fields(plugin) if is_dataclass(plugin) else ())
        if item.init
    }


def summary(group: str, name: str) -> str:
    """Return the first line of a plug-in's module, without importing it; for other packages, the entry point."""
    entry = _entries(group)[name]
    if entry.dist:
        return entry.value
    source = files(PACKAGES[group]).joinpath(f"{name}.py").read_text(encoding="utf-8")
    return source.partition("\n")[0].strip('"').rstrip(".")
