"""Show what is installed, what is missing, and what to type."""

import click

import lexbench
from lexbench.cli._options import described, json_option
from lexbench.cli._output import print_answer


@click.command(help=described(lexbench.doctor) + "\n\nExits with 1 if a package of the core is missing.")
@json_option
def command(*, as_json: bool) -> None:
    """Look at this installation; the help is that of `lexbench.doctor`."""
    found = lexbench.doctor()
    print_answer(found, as_json=as_json)
    click.get_current_context().exit(0 if found.healthy else 1)
