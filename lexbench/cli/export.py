"""Write runs, results and figures in other formats."""

from functools import partial
from pathlib import Path

import click

from lexbench.cli._options import FOLDER, FormatCommand, datasets_option, json_option, results_option, system_option
from lexbench.cli._output import open_store, say, say_answer
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
    """Write the runs and results of the store into FOLDER, in the format FORMAT, and name what the format cannot hold.

    Most formats have one file per system and dataset; the list of formats names the others.
    """
    from lexbench.interop.conversion import export

    store, on_note = open_store(), partial(say, err=True)
    written = export(format_name, store, folder, systems=systems, datasets=datasets, results=results, on_note=on_note)
    paths = list(map(str, written))
    say_answer(paths, paths, as_json=as_json)
    on_note(f"not in this format: {exports()[format_name].lost}")
    click.get_current_context().exit(1 if store.damaged else 0)
