"""Removing artifacts, with what their engines keep elsewhere, e.g. a collection on a server."""

import shutil
from collections.abc import Callable, Mapping
from typing import Any

from lexbench import registry
from lexbench.errors import LexbenchError, one_line
from lexbench.plugins import Engine
from lexbench.storage.artifact_folder import ENGINE_DIR
from lexbench.storage.node import Stored
from lexbench.storage.store import Store


def remove(stored: Stored, warn: Callable[[str], None]) -> None:
    """Remove an artifact, and what its engine has outside of its folder; *warn* gets a line if that cannot be reached."""
    try:
        engine = _engine(stored.facts.get("retriever")) if (stored.folder / ENGINE_DIR).is_dir() else None
        if engine:
            engine.drop(stored.folder / ENGINE_DIR)
    except (LexbenchError, OSError, ValueError, LookupError, TypeError) as error:
        warn(f"{stored.name}: what its engine keeps elsewhere is left there: {one_line(str(error))}")
    shutil.rmtree(stored.folder, ignore_errors=True)


def prepare(store: Store) -> None:
    """Make the folder of the store, and remove what killed processes have left that no other process can use."""
    store.prepare()
    for session in store.dead_sessions():
        for folder in session.artifacts():
            remove(Stored(folder), store.on_damage)
        session.close()


def _engine(description: Any) -> Engine | None:
    """Return the engine that a description of a retriever names; None if it has none, or its plug-in is gone."""
    engine = _plugin(description.get("settings", {}).get("engine")) if isinstance(description, Mapping) else None
    return engine if isinstance(engine, Engine) else None


def _plugin(description: Any) -> Any:
    """Return the plug-in that key facts describe, and other values as they are."""
    if not isinstance(description, Mapping) or "plugin" not in description:
        return tuple(map(_plugin, description)) if isinstance(description, list) else description
    found = registry.find(description["plugin"])
    return found and found(**{name: _plugin(value) for name, value in description.get("settings", {}).items()})
