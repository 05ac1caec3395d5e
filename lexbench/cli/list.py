"""List suites, datasets, models, systems, plug-ins or results."""

from pathlib import Path

import click

import lexbench
from lexbench.cli._options import json_option, results_option
from lexbench.cli._output import print_answer
from lexbench.cli._progress import shown


@click.command("list")
@click.argument("kind", metavar="KIND", type=click.Choice(lexbench.listed_kinds()))
@results_option
@json_option
def command(kind: str, results: Path | None, *, as_json: bool) -> None:
    """List suites, datasets, models, systems, plug-ins of one kind, or results: the newest mean of each system and measure."""
    if results and kind != "results":
        raise click.UsageError(f"--results is the folder of `lexbench list results`; list {kind} without it")
    with shown() as progress:
        if kind == "results":
            found = lexbench.means(lexbench.results(results, progress=progress))
        elif kind in ("suites", "datasets", "models", "systems"):
            found = getattr(lexbench, kind)()
        else:
            found = lexbench.installed(kind)
    print_answer(found, as_json=as_json)
    click.get_current_context().exit(1 if progress.damaged else 0)
