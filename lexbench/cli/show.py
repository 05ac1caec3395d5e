"""Show one suite, dataset, model or result, or this machine."""

import json
from pathlib import Path
from shlex import join
from typing import Any

import click
import msgspec

from lexbench.cli._options import json_option
from lexbench.cli._output import answer_store, print_json, print_lines


@click.command()
@click.argument("what", type=click.Choice(["suite", "dataset", "model", "result", "machine"]))
@click.argument("name", required=False)
@json_option
def command(what: str, name: str | None, *, as_json: bool) -> None:
    """Show a suite, the contract of a dataset, a model, a result (e.g. `bm25:pydoc/test`), or this machine.

    A model is a name of the catalog, or a folder: then the system and its settings, as its files state them, are shown.
    """
    if name is None and what != "machine":
        raise click.UsageError(f"show {what} needs a name; see: lexbench list {what}s")
    value = msgspec.json.decode(msgspec.json.encode(_shown(what, name or "")))
    if as_json:
        print_json(value)
    else:
        print_lines(_lines(value))


def _shown(what: str, name: str) -> Any:
    from lexbench import suites
    from lexbench.analysis.stored_results import stored_results
    from lexbench.datasets.location import find_dataset
    from lexbench.errors import UnknownName
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
    stored = (entry.result for entry in stored_results(answer_store()))
    known = {f"{result.system}:{result.dataset}": result for result in stored}
    if name not in known:
        raise UnknownName("result", name, known, see="lexbench list results")
    return msgspec.structs.replace(known[name], query_ids=[], per_query={})  # per query: lexbench export csv


def _text(item: Any) -> str:
    """Return a value as text. Strings with outer blanks or several lines (e.g. prompts) are quoted, to make these visible."""
    return (
        json.dumps(item, ensure_ascii=False) if isinstance(item, str) and (item != item.strip() or "\n" in item) else str(item)
    )


def _lines(value: Any, indent: str = "") -> list[str]:
    """Return nested tables as indented lines, without empty values."""
    lines = []
    for name, item in value.items():
        if isinstance(item, dict) and item:
            lines += [f"{indent}{name}:", *_lines(item, indent + "  ")]
        elif isinstance(item, list) and item and isinstance(item[0], dict):
            rows = (", ".join(f"{key}: {cell}" for key, cell in row.items()) for row in item)
            lines += [f"{indent}{name}:", *(f"{indent}  - {row}" for row in rows)]
        elif item not in (None, "", [], {}):
            lines.append(f"{indent}{name}: {', '.join(map(str, item)) if isinstance(item, list) else _text(item)}")
    return lines
