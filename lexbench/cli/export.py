"""Write kept runs and results in other tools' formats, and figures."""

from functools import partial
from pathlib import Path

import click

from lexbench.cli._output import json_option, print_json
from lexbench.interop.losses import EXPORTED


@click.command()
@click.argument("layout", metavar="FORMAT", type=click.Choice(list(EXPORTED)))
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("-r", "--retriever", "systems", multiple=True, help="Only this system; repeatable.")
@click.option("-d", "--dataset", "datasets", multiple=True, help="Only this dataset; repeatable.")
@click.option(
    "--from",
    "saved",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Results in this leaderboard folder (`run suite --save`) instead of those in the store.",
)
@json_option
def command(
    layout: str, folder: Path, systems: tuple[str, ...], datasets: tuple[str, ...], saved: Path | None, *, as_json: bool
) -> None:
    """Write into FOLDER what the store has, and say what the format cannot hold.

    One file a system and dataset: trec, msmarco, ranx (JSON) and ir-metadata (a run with its metadata beside it) are runs,
    qrels the judgements, csv and parquet the value of every query, json whole results. anserini, bigann, ciff and seismic are
    the vectors of sparse systems, documents and queries in a file each.

    One folder a system: mteb (results JSON), model-index and eval-results (both for repositories on the Hugging Face hub).

    figures: effectiveness against queries a second and against index bytes, and datasets with intervals; SVG, PDF and PNG.
    """
    from lexbench.interop.export import export
    from lexbench.storage.store import Store

    tell = partial(click.echo, err=True)
    paths = list(export(layout, Store(), folder, systems=systems, datasets=datasets, saved=saved, tell=tell))
    if as_json:
        print_json([str(path) for path in paths])
    else:
        for path in paths:
            click.echo(str(path))
    tell(f"what is lost: {EXPORTED[layout]}")
