"""Show one suite, dataset, model or result, or this machine."""

import click

import lexbench
from lexbench.cli._options import json_option, split_option
from lexbench.cli._output import print_answer
from lexbench.cli._progress import shown


@click.command()
@click.argument("what", type=click.Choice(["suite", "dataset", "model", "result", "machine"]))
@click.argument("name", required=False)
@split_option
@json_option
def command(what: str, name: str | None, *, split: str | None, as_json: bool) -> None:
    """Show a suite, the contract of a dataset, a model, a result, or this machine, as YAML.

    A result is SYSTEM:DATASET (e.g. `bm25:pydoc/test`), or SYSTEM if it has results on one dataset only.

    A model is a name in the catalog, or a folder. For a folder, the system and the settings that its files state are shown.
    """
    if name is None and what != "machine":
        raise click.UsageError(f"show {what} needs a name; see: lexbench list {what}s")
    if split and what != "dataset":
        raise click.UsageError(f"--split chooses the judgements of a dataset, not of a {what}")
    with shown() as progress:
        if what == "machine":
            facts = lexbench.machine()
        elif what == "result":
            facts = lexbench.result(str(name), progress=progress)
        elif what == "dataset":
            facts = lexbench.dataset(name, split)
        else:
            facts = getattr(lexbench, what)(name)
    print_answer(facts, as_json=as_json)
