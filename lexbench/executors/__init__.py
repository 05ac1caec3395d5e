"""Executors: where corpora are encoded, and parts of indexes held. One file adds one (see `lexbench.registry`).

`executor` finds one by what `--on` or LEXBENCH_ON says, and `written` says what to type for one; other packages take no more,
but for `here`, which is what is done where nobody says anything.
"""

import os
from dataclasses import fields
from typing import cast

from lexbench import registry
from lexbench.errors import CommandError, UnknownName
from lexbench.notation import Call, parse
from lexbench.plugins import Encoder, Executor

VARIABLE = "LEXBENCH_ON"


def executor(named: str | None = None) -> Executor | None:
    """Return the executor that is *named*, by default in LEXBENCH_ON: `ray(workers=4)`, or `ray:ADDRESS` for `ray("ADDRESS")`.

    None where none is named: `suited` then chooses. UnknownName, CommandError or MissingExtra.
    """
    named = named or os.environ.get(VARIABLE)
    if not named:
        return None
    name, colon, first = named.partition(":")
    if colon and name in registry.names("executors"):
        first = named if first.startswith("//") else first  # ray://HOST:PORT is an address of Ray's own
        call = Call(name, (int(first) if first.isdigit() else first,))
    else:
        part = parse(named)
        call = part.head
        if part.transforms or part.engine:
            raise CommandError(f"--on {named}: name an executor alone, as in --on 'processes(4)'")
    if call.name not in registry.names("executors"):
        raise UnknownName("executor", call.name, registry.names("executors"))
    return cast(Executor, registry.create("executors", call))


def written(on: Executor) -> str:
    """Return what `--on` takes for an executor: the inverse of `executor`."""
    changed = ((item.name, getattr(on, item.name), item.default) for item in fields(on))  # type: ignore[arg-type] # a dataclass
    settings = sorted((name, value) for name, value, default in changed if value != default)
    return str(Call(registry.identity(type(on)).rpartition("/")[2], kwargs=tuple(settings)))


def suited(encoder: Encoder) -> Executor:
    """Return what encodes where nothing is named: a process for each device of *encoder*, or this one where that has one."""
    return cast(Executor, registry.create("executors", Call("processes" if len(encoder.workers()) > 1 else "here")))
