"""Measure how fast an encoder is on this machine, and what a faster dtype costs in effectiveness."""

from typing import Any

import click

import lexbench
from lexbench.cli._options import COUNT, columns_option, described, json_option, split_option
from lexbench.cli._output import print_answer
from lexbench.cli._progress import shown


@click.command(help=described(lexbench.speed))
@click.argument("model", metavar="MODEL")
@click.option("--dtype", "dtypes", multiple=True, help="Only this dtype; repeatable. Default: float32, bfloat16, int8.")
@click.option(
    "--device", "devices", multiple=True, metavar="NAME", help="Only it, e.g. cuda; repeatable. Default: the model's."
)
@click.option("--threads", type=COUNT, multiple=True, help="Threads; repeatable. Default: 1 and all cores.")
@click.option("--batch", type=COUNT, multiple=True, help="Tokens computed at once; repeatable. Default: what suits the device.")
@click.option("-d", "--dataset", default="pydoc/test", show_default=True, metavar="ID|FOLDER", help="Texts and judgements.")
@split_option
@columns_option
@click.option("--sample", default=256, show_default=True, type=COUNT, help="Documents to encode, the first of the dataset.")
@click.option("--documents", default=1_000_000, show_default=True, type=COUNT, help="Your documents: for hours and costs.")
@click.option("--price", type=click.FloatRange(min=0), help="Costs of this machine per hour.")
@click.option(
    "--with", "others", default="", metavar="NAMES", help="Also by openvino, onnx, sentence-transformers; separate with commas."
)
@click.option("--scores/--no-scores", default=True, help="Run the whole dataset in each dtype, and test the difference.")
@json_option
def command(*, as_json: bool, **options: Any) -> None:
    """Time an encoder; the help is that of `lexbench.speed`."""
    with shown() as progress:
        found = lexbench.speed(progress=progress, **options)
    print_answer(found, as_json=as_json)
