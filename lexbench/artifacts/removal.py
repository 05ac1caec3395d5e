"""Removing artifacts, with what their engines keep elsewhere, e.g. a collection on a server."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lexbench import registry
from lexbench.errors import CannotStart, LexbenchError, one_line
from lexbench.plugins import Engine
from lexbench.storage.artifact_folder import ENGINE_DIR
from lexbench.storage.node import Stored
from lexbench.storage.store import Session, Store

UNFINISHED = "engine.json"  # in the draft of an index: its engine, which may have begun to write elsewhere


def remove(store: Store, folder: Path) -> str:
    """Remove an artifact, finished or not, and what its engine has outside of its folder.

    Returns a line if that cannot be reached, "" if everything is gone.
    """
    left = ""
    try:
        if engine := _engine(folder):
            engine.drop(folder / ENGINE_DIR)
    except Exception as error:  # noqa: BLE001 - of the client of a server
        left = f"{folder.parent.name}/{folder.name}: what its engine keeps elsewhere is left there: {one_line(str(error))}"
    store.remove(folder)
    return left


def prepare(store: Store) -> None:
    """Make the folder of the store, and remove what killed processes have left that no other process can use."""
    store.prepare()
    with suppress(OSError, CannotStart):  # it can only be read
        for session in store.dead_sessions():
            close(store, session)


def close(store: Store, session: Session) -> None:
    """Remove everything that only one process could use; what cannot be removed from a server is reported."""
    for folder in session.artifacts():
        if line := remove(session.store, folder):
            store.on_damage(line)
    session.close()


def _engine(folder: Path) -> Engine | None:
    """Return the engine of an index; None if it has none, or its plug-in is gone."""
    if not (folder / ENGINE_DIR).is_dir():
        return None
    try:
        description = Stored(folder).facts["retriever"]["settings"]["engine"]
    except (LexbenchError, LookupError, TypeError):
        description = json.loads((folder / UNFINISHED).read_bytes()) if (folder / UNFINISHED).is_file() else None
    engine = _plugin(description)
    return engine if isinstance(engine, Engine) else None


def _plugin(description: Any) -> Any:
    """Return the plug-in that key facts describe, and other values as they are."""
    if not isinstance(description, Mapping) or "plugin" not in description:
        return tuple(map(_plugin, description)) if isinstance(description, list) else description
    found = registry.find(description["plugin"])
    return found and found(**{name: _plugin(value) for name, value in description.get("settings", {}).items()})
