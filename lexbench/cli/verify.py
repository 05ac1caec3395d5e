"""Compare measured scores with published ones."""

from typing import Any

import click

import lexbench
from lexbench.cli._options import columns_option, described, json_option, results_option, split_option, system_option
from lexbench.cli._output import print_answer
from lexbench.cli._progress import shown


@click.command(help=described(lexbench.verify) + "\n\nExits with 1 if a mean is off or nothing could be compared.")
@click.argument("name", metavar="SUITE|DATASET|FOLDER")
@system_option("Only this system; repeatable.")
@split_option
@columns_option
@results_option
@click.option("--rescore", is_flag=True, help="Score a FOLDER of results again, from the documents that they keep.")
@json_option
def command(*, as_json: bool, **options: Any) -> None:
    """Verify results; the help is that of `lexbench.verify`."""
    with shown() as progress:
        verification = lexbench.verify(progress=progress, **options)
    print_answer(verification, as_json=as_json)
    click.get_current_context().exit(0 if verification.holds and not progress.damaged else 1)
