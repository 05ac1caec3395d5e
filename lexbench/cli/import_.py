"""Read runs and judgements of other tools."""

from typing import Any

import click

import lexbench
from lexbench.cli._options import EXISTING, FILE, FormatCommand, described, json_option
from lexbench.cli._output import print_answer, say
from lexbench.cli._progress import shown


@click.command(cls=FormatCommand, formats=lexbench.import_formats(), help=described(lexbench.import_))
@click.argument("format_name", metavar="FORMAT_NAME", type=click.Choice(list(lexbench.import_formats())))
@click.argument("source", type=EXISTING)
@click.argument("target", type=FILE)
@json_option
def command(*, as_json: bool, **options: Any) -> None:
    """Convert a file; the help is that of `lexbench.import_`."""
    with shown() as progress:
        made = lexbench.import_(progress=progress, **options)
    print_answer(made, as_json=as_json)
    if not as_json:
        say(f"not kept: {made.lost}", err=True)
        say(f"next: {made.following}", err=True)
