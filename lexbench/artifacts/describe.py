"""Key facts of plug-ins: what decides their answers, and whether another process can know that it is the same plug-in."""

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4
from weakref import ref

from lexbench import registry
from lexbench.storage.artifact_folder import SESSION, digest
from lexbench.storage.code import CODE, code_digest
from lexbench.storage.reading import digests_below

_sessions: dict[int, tuple[Callable[[], object], str]] = {}
_short_names: dict[Any, str] = {}  # by encoder; two systems may share one


class StandIn:
    """A plug-in that is described as the object *wrapped*, for which it stands, with *key_facts* of its own."""

    wrapped: Any
    key_facts: Mapping[str, Any]


def describe(plugin: Any, *, index: bool = False) -> Any:
    """Return what decides the answers of *plugin*, as JSON values: its name, version, code, settings and files.

    With *index*, only what decides its index. Code that is part of a released lexbench has only a version. An object that is no
    dataclass and has no `identity`, or whose source is unknown, gets a new description in every session, so its results are
    never mistaken for results of another object with the same name. So does an object of a class that a function made, or that
    was typed at a prompt or in a notebook. Files that settings name count for a plug-in of another package without `identity`.
    """
    if isinstance(plugin, tuple | list):
        return [describe(item, index=index) for item in plugin]
    if isinstance(plugin, Mapping):
        return {str(name): describe(value, index=index) for name, value in plugin.items()}
    if plugin is None or isinstance(plugin, bool | int | float | str):
        return plugin
    if isinstance(plugin, StandIn):
        return {**describe(plugin.wrapped, index=index), **plugin.key_facts}
    description = {"plugin": registry.identity(type(plugin)), "version": getattr(plugin, "version", 1)}
    files = digests(plugin, index=index)
    code = code_digest(type(plugin))
    if code:
        description[CODE] = code
    if is_dataclass(plugin) and fields(plugin):
        settings = registry.settings(plugin, index=index)
        description["settings"] = describe(settings, index=index)
        if code and not files and (named := _named_files(settings)):
            description["files"] = named
    if code is None or not (files or (is_dataclass(plugin) and not _may_change_unseen(type(plugin)))):
        description[SESSION] = _session(plugin)
    if files:
        description["identity"] = files
    return description


def _may_change_unseen(cls: type) -> bool:
    """Return whether more than its file decides what a class does: variables of a function, or of a prompt or notebook."""
    return "<locals>" in cls.__qualname__ or not getattr(sys.modules.get(cls.__module__), "__file__", None)


def _named_files(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return a digest of each file or folder that a setting names, except the working folder and those above it."""
    found = {}
    for name, value in settings.items():
        with suppress(OSError, ValueError, RuntimeError):  # no path
            path = Path(value).expanduser() if isinstance(value, str) and value else None
            if path and (path.is_file() or (path.is_dir() and not Path.cwd().is_relative_to(path.resolve()))):
                found[name] = digest(digests_below(str(path)))
    return found


def digests(plugin: Any, *, index: bool = False) -> Mapping[str, Any]:
    """Return the `identity` of any object, or with *index* its `index_identity`; {} if it has neither."""
    names = ("index_identity", "identity") if index else ("identity",)
    method = next((getattr(plugin, name) for name in names if callable(getattr(plugin, name, None))), dict)
    found: Mapping[str, Any] = method()
    return found


def is_lasting(facts: Any) -> bool:
    """Return whether another process can know the same thing by its key facts: an object of a program can change unseen."""
    if isinstance(facts, Mapping):
        return SESSION not in facts and all(map(is_lasting, facts.values()))
    return all(map(is_lasting, facts)) if isinstance(facts, list | tuple) else True


def _session(plugin: object) -> str:
    """Return the same random text for the same object as long as it lives; equal objects get different texts."""
    held, text = _sessions.get(id(plugin), (None, ""))
    if held is None or held() is not plugin:
        try:
            held = ref(plugin)
        except TypeError:  # it has slots and no place for weak references
            held = lambda: plugin  # noqa: E731
        text = uuid4().hex
        _sessions[id(plugin)] = held, text
    return text


# ---- names for people ------------------------------------------------------------------------------------------------------


def remember_name(encoder: Any, name: str) -> None:
    """Remember the *name* that a user typed for an encoder."""
    with suppress(TypeError):  # a setting has no hash
        _short_names[encoder] = name


def short_name(encoder: Any) -> str:
    """Return the name that a user typed for *encoder*, e.g. lexmae_nano, or the name of an object's class."""
    with suppress(KeyError, TypeError):
        return _short_names[encoder]
    return type(encoder).__name__
