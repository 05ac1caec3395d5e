"""Write kept runs and results in other tools' formats."""

from pathlib import Path

import click

from lexbench.cli._output import json_option, print_json

FORMATS = ("trec", "msmarco", "qrels", "csv", "json", "anserini", "bigann", "ciff", "seismic")


@click.command()
@click.argument("layout", metavar="FORMAT", type=click.Choice(FORMATS))
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("-r", "--retriever", "systems", multiple=True, help="Only this system; repeatable.")
@click.option("-d", "--dataset", "datasets", multiple=True, help="Only this dataset; repeatable.")
@json_option
def command(layout: str, folder: Path, systems: tuple[str, ...], datasets: tuple[str, ...], *, as_json: bool) -> None:
    """Write into FOLDER what the store has, one file a system and dataset.

    trec and msmarco are runs, qrels the judgements, csv the value of every query, json whole results. anserini, bigann, ciff
    and seismic are the vectors of sparse systems, documents and queries in a file each.
    """
    from lexbench.interop.export import export
    from lexbench.store import Store

    paths = export(layout, Store(), folder, systems=systems, datasets=datasets)
    if as_json:
        print_json([str(path) for path in paths])
        return
    for path in paths:
        click.echo(str(path))
