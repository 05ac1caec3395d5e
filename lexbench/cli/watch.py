"""Benchmark the checkpoints of a training as they are written."""

from pathlib import Path
from typing import Any

import click

import lexbench
from lexbench.cli._options import (
    FILE,
    FOLDER,
    columns_option,
    datasets_option,
    described,
    json_option,
    measures_option,
    split_option,
    system_option,
)
from lexbench.cli._output import print_answer, print_json, say
from lexbench.cli._progress import shown


@click.command(help=described(lexbench.watch))
@click.argument("folder", type=FOLDER, metavar="FOLDER")
@system_option("With {} in place of the checkpoint (e.g. 'sparse_mlm(model=\"{}\")@impact').", multiple=False, required=True)
@datasets_option("A dataset or folder to choose checkpoints on (e.g. beir/nfcorpus/dev); repeatable.")
@split_option
@columns_option
@measures_option(default=("nDCG@10",))
@click.option("--once", is_flag=True, help="Benchmark the checkpoints that are there, and end.")
@click.option("--every", type=click.FloatRange(min=1), default=60.0, show_default=True, help="Seconds between two looks.")
@click.option("--tests-too", is_flag=True, help="Allow test datasets. A checkpoint chosen on one cannot be tested on it.")
@click.option("--plot", type=FILE, help="Draw the curve: PLOT.svg, .pdf and .png.")
@json_option
def command(folder: Path, *, as_json: bool, **options: Any) -> None:
    """Benchmark checkpoints; the help is that of `lexbench.watch`."""
    points = []
    with shown() as progress:
        for point in lexbench.watch(folder, progress=progress, **options):
            points.append(point)
            if not as_json:
                print_answer(point, as_json=False)
    if as_json:
        print_json([point.document() for point in points])
    if not points:
        say(f"no complete checkpoint in {folder}: one has config.json or modules.json, and weights", err=True)
    click.get_current_context().exit(1 if not points or any(point.error for point in points) else 0)
