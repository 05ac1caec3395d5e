"""Show one suite, dataset, model, plug-in or result, or this machine."""

from typing import Any

import click

import lexbench
from lexbench.cli._options import columns_option, json_option, split_option
from lexbench.cli._output import print_answer, say
from lexbench.cli._progress import shown
from lexbench.synonyms import nearest, squeezed

_KINDS = ("suite", "dataset", "model", "plugin", "result", "machine")


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="[KIND] NAME")
@split_option
@columns_option
@json_option
def command(words: tuple[str, ...], *, split: str | None, columns: str, as_json: bool) -> None:
    """Show a suite, the contract of a dataset, a model, a plug-in, a result, or this machine, as YAML.

    KIND is suite, dataset, model, plugin, result or machine; without it, NAME is shown, whichever it is.

    A result is SYSTEM:DATASET (e.g. `bm25:pydoc/test`), or SYSTEM if it has results on one dataset only.

    A model is a name in the catalog, or a folder. For a folder, the system and the settings that its files state are shown.
    """
    kind = next((one for one in _KINDS if squeezed(words[0]) in (one, f"{one}s")), "")
    names = words[1:] if kind else words
    if len(names) > 1:
        raise click.UsageError(f"Got unexpected extra argument ({names[1]})", click.get_current_context())
    listed = nearest(words[0], lexbench.listed_kinds(), 1) if len(words) == 1 else []
    if kind != "machine" and not names:
        raise click.UsageError(f"show {kind} needs a name; to see all, type: lexbench list {kind}s")
    if not kind and listed and squeezed(listed[0]) in (squeezed(words[0]), squeezed(words[0]) + "s"):
        raise click.UsageError(f"show needs the name of one thing; to see all, type: lexbench list {listed[0]}")
    with shown() as progress:
        if not kind:
            kind = lexbench.what_is(names[0])
            say(f"{names[0]} is a {kind}", err=True)
        if (split or columns) and kind != "dataset":
            what = "--split chooses the judgements" if split else "--columns names the columns"
            raise click.UsageError(f"{what} of a dataset, not of a {kind}")
        facts = facts_of(kind, *names, split=split, columns=columns, progress=progress)
    print_answer(facts, as_json=as_json)


def facts_of(kind: str, name: str = "", *, split: str | None = None, columns: str = "", progress: Any) -> Any:
    """Return the facts about one thing of a *kind*."""
    if kind == "machine":
        return lexbench.machine()
    if kind == "result":
        return lexbench.result(name, progress=progress)
    if kind == "dataset":
        return lexbench.dataset(name, split, columns)
    return getattr(lexbench, kind)(name)
