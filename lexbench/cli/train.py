"""Train a LexMAE: pretraining, imitation, negatives, fine-tuning."""

import os
from contextlib import nullcontext
from functools import partial
from typing import Any

import click

import lexbench
from lexbench.cli._options import described, json_option, together
from lexbench.cli._output import print_answer
from lexbench.cli._progress import shown
from lexbench.display.answer import Answer

_COMMANDS = {
    "pretrain": "Pretrain the masked autoencoder, after making the initial model.",
    "imitate": "Learn the predictions of another sparse model.",
    "mine": "Mine the hard negatives of a stage.",
    "finetune": "Train the retriever of a stage on its negatives.",
    "all": "Pretrain, imitate, then mine and fine-tune each stage, as far as the recipe has them.",
}
_STAGE = click.option("--stage", type=click.IntRange(1, 3), required=True, help="Stage of fine-tuning.")
_SETTINGS = together(
    click.argument("recipe", metavar="RECIPE"),
    click.option("--output", metavar="FOLDER", help="Folder for models, negatives and logs."),
    click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="e.g. pretrain.steps=100; repeatable."),
    click.option("--dry-run", is_flag=True, help="Check everything and list the parts; train nothing."),
    click.option("--time", is_flag=True, help="With --dry-run: time three steps of each part on this device."),
    json_option,
)


@click.group(help=described(lexbench.train))
def command() -> None:
    """Train a LexMAE; the help is that of `lexbench.train`."""


def _run(step: str, recipe: str, *, dry_run: bool, time: bool, as_json: bool, **options: Any) -> None:
    """Do a step of the recipe, or list its parts in a dry run. Under torchrun only the first process prints."""
    first = os.environ.get("RANK", "0") == "0"
    answer: Answer | None
    if dry_run:
        answer = lexbench.training_plan(recipe, step, time=time, **options)
    elif time:
        raise click.UsageError("--time is for --dry-run; type --dry-run --time")
    else:
        with shown() if first else nullcontext(lexbench.Progress()) as progress:
            answer = lexbench.train(recipe, step, progress=progress, **options)
    if first and answer:
        print_answer(answer, as_json=as_json)


for _name, _help in _COMMANDS.items():
    _function: Any = _SETTINGS(partial(_run, _name))
    command.command(_name, help=_help)(_STAGE(_function) if _name in {"mine", "finetune"} else _function)
