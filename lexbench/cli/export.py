"""Write kept runs and results in other tools' formats, and figures."""

from functools import partial
from pathlib import Path

import click

from lexbench.cli._options import FOLDER, FormatCommand, datasets_option, json_option, results_option, system_option
from lexbench.cli._output import print_json, say
from lexbench.interop.formats import exports


@click.command(cls=FormatCommand, formats=exports())
@click.argument("format_name", metavar="FORMAT", type=click.Choice(list(exports())))
@click.argument("folder", type=FOLDER)
@system_option("Only this system; repeatable.")
@datasets_option()
@results_option
@json_option
def command(
    format_name: str, folder: Path, systems: tuple[str, ...], datasets: tuple[str, ...], results: Path | None, *, as_json: bool
) -> None:
    """Write into FOLDER what the store has, in the format FORMAT, and say what the format cannot hold.

    There is one file a system and dataset, where the list of formats does not say otherwise.
    """
    from lexbench.interop.files import export
    from lexbench.storage.store import Store

    tell = partial(say, err=True)
    store = Store(on_damage=tell)
    paths = list(export(format_name, store, folder, systems=systems, datasets=datasets, results=results, tell=tell))
    if as_json:
        print_json([str(path) for path in paths])
    else:
        for path in paths:
            say(str(path))
    tell(f"what is lost: {exports()[format_name].lost}")
    click.get_current_context().exit(1 if store.damaged else 0)
