"""List suites, datasets, models, systems, plug-ins or results."""

from pathlib import Path

import click

import lexbench
from lexbench.cli._options import json_option, results_option
from lexbench.cli._output import print_answer, say
from lexbench.cli._progress import shown
from lexbench.cli.show import facts_of
from lexbench.errors import UnknownName
from lexbench.synonyms import squeezed


@click.command("list")
@click.argument("kind", metavar="KIND", required=False)
@results_option
@json_option
def command(kind: str | None, *, results: Path | None, as_json: bool) -> None:
    """List suites, datasets, models, systems, plug-ins of one kind, or results: the newest mean of each system and measure.

    KIND is suites, datasets, models, systems, results, or a kind of plug-ins: encoders, engines, executors, judges, measures,
    rerankers, retrievers, sources, transforms. The name of one thing is shown like `lexbench show NAME`.
    """
    kinds = lexbench.listed_kinds()
    if kind is None:
        raise click.UsageError(f"list what? There is: {', '.join(kinds)}; e.g. type: lexbench list systems")
    chosen = next((one for one in kinds if squeezed(kind) in (one, one.removesuffix("s"))), "")
    if results and chosen != "results":
        raise click.UsageError(f"--results is the folder of `lexbench list results`; list {kind} without it")
    with shown() as progress:
        if chosen == "results":
            found = lexbench.means(lexbench.results(results, progress=progress))
        elif chosen in ("suites", "datasets", "models", "systems"):
            found = getattr(lexbench, chosen)()
        elif chosen:
            found = lexbench.installed(chosen)
        else:
            try:
                what = lexbench.what_is(kind)
            except UnknownName:
                raise UnknownName("kind to list", kind, kinds) from None
            say(f"{kind} is a {what}", err=True)
            found = facts_of(what, kind, progress=progress)
    print_answer(found, as_json=as_json)
    click.get_current_context().exit(1 if progress.damaged else 0)
