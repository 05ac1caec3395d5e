"""Show which test data systems had seen in training."""

from typing import Any

import click

import lexbench
from lexbench.cli._options import (
    EXISTING_FOLDER,
    columns_option,
    datasets_option,
    described,
    json_option,
    split_option,
    system_option,
)
from lexbench.cli._output import print_answer


@click.command(help=described(lexbench.exposure))
@click.argument("texts", nargs=-1, metavar="[FOLDER...]", type=EXISTING_FOLDER)
@system_option("A system whose models to look up; repeatable.")
@datasets_option("Only this dataset; repeatable. Default with -r: all.")
@split_option
@columns_option
@json_option
def command(*, as_json: bool, **options: Any) -> None:
    """Look up exposure; the help is that of `lexbench.exposure`."""
    print_answer(lexbench.exposure(**options), as_json=as_json)
