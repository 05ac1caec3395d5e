"""Show one suite, dataset, model or result, or this machine."""

import math
from pathlib import Path
from shlex import join
from typing import Any

import click
import msgspec
import yaml

from lexbench.cli._options import json_option
from lexbench.cli._output import open_store, print_json, print_lines, say


@click.command()
@click.argument("what", type=click.Choice(["suite", "dataset", "model", "result", "machine"]))
@click.argument("name", required=False)
@json_option
def command(what: str, name: str | None, *, as_json: bool) -> None:
    """Show a suite, the contract of a dataset, a model, a result, or this machine, as YAML.

    A result is SYSTEM:DATASET (e.g. `bm25:pydoc/test`), or SYSTEM if it has results on one dataset only.

    A model is a name in the catalog, or a folder. For a folder, the system and the settings that its files state are shown.
    """
    if name is None and what != "machine":
        raise click.UsageError(f"show {what} needs a name; see: lexbench list {what}s")
    value = msgspec.json.decode(msgspec.json.encode(_shown(what, name or "")))
    if as_json:
        print_json(value)
    else:
        text = yaml.safe_dump(_filled(value), sort_keys=False, allow_unicode=True, default_flow_style=None, width=math.inf)
        print_lines(text.splitlines())


def _shown(what: str, name: str) -> Any:
    from lexbench import suites
    from lexbench.analysis.stored_results import stored_results
    from lexbench.datasets.location import find_dataset
    from lexbench.errors import CommandError, UnknownName
    from lexbench.storage import environment

    if what == "suite":
        return suites.suite(name)
    if what == "dataset":
        return find_dataset(name)[0]
    if what == "model":
        from lexbench import catalog, registry
        from lexbench.runner.systems import named_systems, system

        if Path(name).is_dir() and name not in catalog.names():
            ((_, expression),) = named_systems(name)
            command = join(["lexbench", "run", "suite", "pydoc", "-r", expression])
            encoder = system(expression).retriever.encoder  # type: ignore[attr-defined] # such systems have one
            return {"folder": name, "system": expression, "settings": registry.settings(encoder), "run": command}
        model = catalog.model(name)
        return {**msgspec.structs.asdict(model), **catalog.included(model), "run": catalog.command(model)}
    if what == "machine":
        from lexbench.timing import machine

        facts = {**environment.facts(), "versions": environment.versions()}
        return {**facts, "fingerprint": machine.fingerprint(), "performance": machine.performance()}
    stored = [entry.result for entry in stored_results(open_store())]
    stored.sort(key=lambda result: (not result.expression, result.measured.started))  # a name may be another's expression
    known = {f"{result.system}:{result.dataset}": result for result in stored}  # the newest of each
    found = [name] if name in known else [label for label, result in known.items() if result.system == name]
    if not found:
        raise UnknownName("result", name, known, see="lexbench list results")
    if len(found) > 1:
        say(f"{name} has results on {len(found)} datasets; type one of these:", err=True)
        for label in found:
            say(join(["lexbench", "show", "result", label]), err=True)
        click.get_current_context().exit(CommandError.exit_code)
    return msgspec.structs.replace(known[found[0]], query_ids=[], per_query={})  # per query: lexbench export csv


def _filled(value: Any) -> Any:
    """Return *value* without the empty values in its tables."""
    if isinstance(value, dict):
        return {name: _filled(item) for name, item in value.items() if item not in (None, "", [], {})}
    return [_filled(item) for item in value] if isinstance(value, list) else value
