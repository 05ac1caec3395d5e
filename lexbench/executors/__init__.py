"""Executors: where corpora are encoded and shards of indexes are held. One file adds one (see `lexbench.registry`).

`executor` finds one from the text of `--on` or LEXBENCH_ON, and `written` returns that text. Other packages use these two,
`suited`, and `here`, the default.
"""

import os
from dataclasses import fields
from typing import cast

from lexbench import registry
from lexbench.errors import CommandError, UnknownName
from lexbench.notation import Call, parse
from lexbench.plugins import Encoder, Executor

VARIABLE = "LEXBENCH_ON"


def executor(text: str | None = None) -> Executor | None:
    """Return the executor that *text*, or else LEXBENCH_ON, names, e.g. `ray(workers=4)`; `ray:ADDRESS` is `ray("ADDRESS")`.

    None if there is no text: `suited` then chooses. Raises UnknownName, CommandError or MissingExtra.
    """
    text = text or os.environ.get(VARIABLE)
    if not text:
        return None
    name, colon, first = text.partition(":")
    if colon and name in registry.names("executors"):
        first = text if first.startswith("//") else first  # ray://HOST:PORT is an address of Ray's own
        call = Call(name, (int(first) if first.isdigit() else first,))
    else:
        part = parse(text)
        call = part.head
        if part.transforms or part.engine:
            raise CommandError(f"--on {text}: name an executor alone, e.g. --on 'processes(4)'")
    if call.name not in registry.names("executors"):
        raise UnknownName("executor", call.name, registry.names("executors"))
    return cast(Executor, registry.create("executors", call))


def written(on: Executor) -> str:
    """Return the text of `--on` for an executor: the inverse of `executor`."""
    changed = ((item.name, getattr(on, item.name), item.default) for item in fields(on))  # type: ignore[arg-type] # a dataclass
    settings = sorted((name, value) for name, value, default in changed if value != default)
    return str(Call(registry.identity(type(on)).rpartition("/")[2], kwargs=tuple(settings)))


def suited(encoder: Encoder) -> Executor:
    """Return the executor to use if the user names none: a process per device of *encoder*, or this process if it has one."""
    return cast(Executor, registry.create("executors", Call("processes" if len(encoder.workers()) > 1 else "here")))
